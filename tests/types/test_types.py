"""A user's program under mypy --strict: results have types, and wrong arguments are errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiers import is_thorough

PROGRAM = Path(__file__).with_name("program.py")
_PACKAGES = {"tagloom": "engine", "tagloom/kernels": "kernels", "tagloom/streams": "streams", "tagloom/swap": "swap"}


def copy_of_the_sources(root, target):
    """Lay out what type checkers read of the package as it is installed; return the folder that it is in."""
    for package, folder in _PACKAGES.items():
        for source in (root / folder).rglob("*.py*"):
            if source.suffix in (".py", ".pyi"):
                place = target / package / source.relative_to(root / folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(source.read_bytes())
    (target / "tagloom" / "py.typed").touch()
    return target


@pytest.mark.skipif(not is_thorough(), reason="mypy reads all of the package, which takes a quarter of a minute")
def test_a_program_of_a_user_has_the_types_that_it_claims(tmp_path):
    pytest.importorskip("mypy")
    root = PROGRAM.parents[2]
    path = copy_of_the_sources(root, tmp_path)
    options = ["--strict", "--config-file", str(root / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(PROGRAM)],
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(path), "PATH": ""},
        cwd=tmp_path,
    )
    found = set(re.findall(r"program\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M))
    lines = PROGRAM.read_text().splitlines()
    expected = {(str(n), m[1]) for n, line in enumerate(lines, 1) if (m := re.search(r"# expect: ([\w-]+)$", line))}
    assert found == expected, done.stdout + done.stderr
