"""The table of operations is what would be generated now: ``make operations`` writes it."""

import importlib.util
from pathlib import Path

import pytest
import tagloom as tg

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generator():
    """Return the module that generates the page."""
    spec = importlib.util.spec_from_file_location("generate_operations", ROOT / "docs" / "generate_operations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_what_would_be_generated(generator):
    assert generator.page() == generator.PAGE.read_text(), "make operations"


def test_types_are_those_of_the_functions_own_module(generator):
    assert generator.own_types(tg.matmul.__wrapped__) == ["MatMul"]
    assert generator.own_types(tg.norm.__wrapped__) == []
    assert generator.own_types(tg.exp.__wrapped__) == ["Exp"]


def test_every_function_that_builds_is_there(generator):
    found = generator.building()
    assert {"add", "norm", "cond", "while_loop", "gradients", "jacobian", "sparse_add", "placeholder"} <= set(found)
    assert not {"trainable_variables", "global_variables"} & set(found)


def test_what_a_line_says(generator):
    assert generator.row("add", tg.add).startswith("| `add` | Add | yes | C, fused, native, array library | compared |")
    assert "none: its result is bool" in generator.row("reduce_any", tg.reduce_any)
    assert "| *composition* | of its parts | of its parts |" in generator.row("norm", tg.norm)


def test_versions_are_read_from_docstrings(generator):
    def added():
        """Do it.

        .. versionadded:: 7.1
        """

    assert generator.since(added) == "7.1"
    assert generator.since(tg.add) == "0.1"
