"""``tagloom info --operations`` lists where each operation runs; ``verified.json`` lists those seen on a GPU."""

import re
from pathlib import Path

from tagloom.cli import main

from tests.ops.samples import DEFINITIONS
from tests.ops.verified import FILE, read_verified, write_verified


def test_every_operation_is_listed(capsys):
    assert main(["info", "--operations"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("Test")] == sorted(DEFINITIONS)
    assert any(line.split(maxsplit=1) == ["PyFunction", "runs on the host"] for line in lines)
    assert any(line.split(maxsplit=1) == ["MatMul", "computes on the GPU"] for line in lines)


def test_what_is_verified_is_added_to_the_file(tmp_path):
    file = tmp_path / "verified.json"
    file.write_text("{}")
    write_verified({"MatMul": {"device": "Some GPU", "commit": "0123456789abcdef"}}, file)
    write_verified({"Add": {"device": "Other GPU", "commit": "f" * 40}}, file)
    assert read_verified(file) == {
        "Add": {"device": "Other GPU", "commit": "f" * 40},
        "MatMul": {"device": "Some GPU", "commit": "0123456789abcdef"},
    }


def test_the_file_has_operations_that_run_on_a_device():
    assert all(DEFINITIONS[type].runs_on == "device" for type in read_verified(FILE))


def test_the_page_on_gpus_has_the_number_of_the_file():
    page = Path(__file__).parents[2] / "docs" / "gpu.md"
    (number,) = re.findall(r"(\d+) operations gave", page.read_text())
    assert int(number) == len(read_verified(FILE))
