"""The packages of this folder touch nothing of tagloom but its public modules; registrations are safe with threads."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tagloom as tg
from tagloom import operations
from tagloom.base import registrations

HERE = Path(__file__).parent
SOURCES = sorted(path for path in HERE.glob("*/*.py"))
PUBLIC = {"tagloom", "tagloom.operations", "tagloom.streams", "tagloom.testing"}


def imported(path):
    """Yield the modules of tagloom that a file imports, and names with an underscore that it reads."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield f"tagloom.{node.attr}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(HERE)))
def test_a_package_imports_public_modules_alone(path):
    assert {name for name in imported(path) if name.partition(".")[0] == "tagloom"} <= PUBLIC


def test_there_are_four_packages():
    assert len({path.parent for path in SOURCES}) == 4


def test_threads_register_and_take_back_at_once():
    before = registrations.version()

    def register(number):
        with operations.register_pass(f"pass{number}", lambda program: program, after="fuse"):
            return tg.Settings().without(f"pass{number}").passes_off

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(register, range(64)))
    assert found == [(f"pass{number}",) for number in range(64)]
    assert registrations.version() == before + 128
    assert not registrations.REGISTERED_PASSES.entries


def test_a_registration_says_what_it_is():
    with operations.register_pass("mine", lambda program: program, after="fuse") as mine:
        assert repr(mine) == "<Registration of the pass mine>"
        assert mine.source.file == __file__
    assert repr(mine) == "<Registration of the pass mine, taken back>"
