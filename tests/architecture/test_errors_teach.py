"""Every error that the sources raise says what to try; `tests/runtime/test_error_table.py` reads some of them."""

import ast

import pytest
from tagloom.base import errors

from tests.architecture.layers import ROOT

CLASSES = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.TagloomError)}


def raised(source):
    """Yield the line and the field names of each error that is made, by its class or by a method ``_error``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _makes_error(node.func):
            yield node.lineno, {keyword.arg for keyword in node.keywords}


def _makes_error(function):
    return getattr(function, "id", "") in CLASSES or getattr(function, "attr", "") in CLASSES | {"_error"}


@pytest.mark.parametrize("folder", sorted(p.name for p in (ROOT / "engine").iterdir() if any(p.rglob("*.py"))))
def test_errors_say_what_to_try(folder):
    silent = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "engine" / folder).rglob("*.py"))
        for line, fields in raised(path.read_text())
        if not fields & {"hint", None}  # None is **fields, which somebody else fills in
    ]
    assert silent == []


def test_a_silent_error_is_found():
    source = "raise GraphError('no', got=1)\nraise ShapeError('no', hint='yes')\nraise OpError('no', **fields)"
    assert list(raised(source)) == [(1, {"got"}), (2, {"hint"}), (3, {None})]
