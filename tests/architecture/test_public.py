"""The public face: every name is listed, documented, defined in one place and no module by accident."""

import ast
import inspect
import types
from pathlib import Path

import pytest
import tagflow as tg

SOURCE = Path(tg.__file__).read_text()
PUBLIC = [name for name in tg.__all__ if name != "__version__"]
DTYPES = [name for name in PUBLIC if isinstance(getattr(tg, name), tg.DType)]


def imported():
    """Map each imported name to the modules it comes from."""
    origins = {}
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origins.setdefault(alias.asname or alias.name, []).append(node.module)
    return origins


def test_all_lists_what_is_imported_in_order():
    assert set(PUBLIC) == set(imported())
    assert list(tg.__all__) == sorted(tg.__all__)


def test_each_name_comes_from_one_module():
    assert {name: modules for name, modules in imported().items() if len(modules) > 1} == {}


def test_the_face_only_re_exports():
    kinds = {type(node) for node in ast.parse(SOURCE).body}
    assert kinds == {ast.Expr, ast.ImportFrom, ast.Assign}


@pytest.mark.parametrize("name", [n for n in PUBLIC if n not in DTYPES])
def test_public_name_is_documented(name):
    value = getattr(tg, name)
    assert not isinstance(value, types.ModuleType)
    assert (inspect.getdoc(value) or "").splitlines()[0].endswith("."), f"{name} has no one-sentence summary"
