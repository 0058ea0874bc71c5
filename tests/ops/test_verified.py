"""``tagloom info --operations`` says of each operation whether it was verified on a GPU."""

from tagloom.cli import main
from tagloom.ops.verified import FILE, describe_operations, read_verified, write_verified

from tests.ops.samples import DEFINITIONS


def test_every_operation_is_listed(capsys):
    assert main(["info", "--operations"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("Test")] == sorted(DEFINITIONS)
    assert any(line.split(maxsplit=1) == ["PyFunction", "runs on the host"] for line in lines)


def test_what_was_verified_is_said_with_device_and_commit(tmp_path):
    file = tmp_path / "verified.json"
    file.write_text("{}")
    write_verified({"MatMul": {"device": "Some GPU", "commit": "0123456789abcdef"}}, file)
    write_verified({"Add": {"device": "Other GPU", "commit": "f" * 40}}, file)
    lines = dict(describe_operations(file))
    assert lines["MatMul"] == "verified on Some GPU at 0123456789ab"
    assert lines["Add"] == "verified on Other GPU at ffffffffffff"
    assert lines["Sub"] == "not verified on a GPU"


def test_the_file_has_operations_that_run_on_a_device():
    assert all(DEFINITIONS[type].runs_on == "device" for type in read_verified(FILE))
