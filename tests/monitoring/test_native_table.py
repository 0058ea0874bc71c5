"""``tagloom info --native``: how native programs compute operations, found by running their samples."""

import json

import pytest
from tagloom.cli import main
from tagloom.monitoring.native_table import NativeRow, native_table


def rows(*patterns):
    """Return the rows of some operations, by type and dtypes."""
    return {(row.operation, row.dtypes): row for row in native_table(patterns)}


def test_kernels_of_each_kind_are_told_apart():
    found = rows("Add", "Sort", "Expm", "Unique")
    assert found["Add", "float32"].ways == ("native",)
    assert found["Sort", "float64"].ways == ("traced",)
    assert found["Expm", "float64"].ways == ("called",)
    assert "no step does" in found["Expm", "float64"].reason
    unique = next(row for row in found.values() if row.operation == "Unique")
    assert unique.ways == ("not",)
    assert "depends on a value" in unique.reason


def test_dtypes_have_rows_of_their_own():
    assert {"float64", "float32", "float16", "bfloat16"} <= {names for _, names in rows("MatMul")}


def test_operations_without_a_loop_have_a_row():
    found = {row.operation: row for row in native_table(["While", "ReadVariable", "Send", "TensorArrayRead"])}
    assert found["While"] == NativeRow("While", "", ("native",))
    assert found["TensorArrayRead"].ways == ("native",)
    assert found["Send"] == NativeRow("Send", "", ("not",), "is done by the executors")
    assert found["ReadVariable"].ways == ("not",)
    assert found["ReadVariable"].reason == "does more than compute"


def test_patterns_limit_the_table():
    assert {row.operation for row in native_table(["Gather", "Sort*"])} >= {"Gather", "Sort"}
    with pytest.raises(ValueError, match="no operation type matches 'Nothing\\*'"):
        native_table(["Nothing*"])


def test_progress_ends_with_all_loops():
    seen = []
    native_table(["Add", "Sub"], progress=lambda *numbers: seen.append(numbers))
    assert seen[-1][0] == seen[-1][1] > 2


def test_command_prints_a_line_for_each_row(capsys):
    assert main(["info", "--native", "Add", "Expm"]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert [line.split() for line in lines if line.split()[:2] == ["Add", "float64"]] == [["Add", "float64", "native"]]
    assert any(line.startswith("Expm") and " called " in line for line in lines)
    assert "loops" in told.err


def test_command_prints_json(capsys):
    assert main(["info", "--native", "Sqrt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"operation": "Sqrt", "dtypes": "float32", "ways": ["native"], "reason": ""} in found


def test_json_is_of_this_table_alone(capsys):
    assert main(["info", "--json"]) == 1
    assert "--native" in capsys.readouterr().err
