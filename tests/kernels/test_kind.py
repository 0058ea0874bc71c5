"""What nodes are is listed once, in C; Python sees the same enum."""

import ast
from pathlib import Path

from tagloom.kernels.core import table
from tagloom.kernels.core.table import Kind

STUB = Path(table.__file__).with_name("table.pyi")  # installed beside the module


def test_kinds_are_numbered_from_kernel():
    assert issubclass(Kind, int)
    assert Kind.KERNEL == 0
    assert sorted(Kind.__members__.values()) == list(range(len(Kind.__members__)))
    assert Kind.MERGE.name == "MERGE"


def test_the_stub_says_what_is_there():
    (enum,) = (node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef))
    stated = {each.targets[0].id: ast.literal_eval(each.value) for each in enum.body if isinstance(each, ast.Assign)}
    assert stated == {name: int(kind) for name, kind in Kind.__members__.items()}
