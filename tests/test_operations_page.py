"""The table of operations is what would be generated now: ``make operations`` writes it."""

import importlib.util
import re
from pathlib import Path

import pytest
import tagloom as tg
from tagloom.monitoring.native_table import native_table

from tests.support.tiers import is_thorough

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generator():
    """Return the module that generates the page."""
    spec = importlib.util.spec_from_file_location("generate_operations", ROOT / "docs" / "generate_operations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def look_at(generator, monkeypatch, *types):
    """Find how native programs compute some types alone."""
    ways = {row.operation: set(row.ways) for row in native_table(types, all_dtypes=False)}
    monkeypatch.setattr(generator, "ways", lambda: ways)


def test_page_is_what_would_be_generated(generator, monkeypatch):
    """The default tier leaves out how native programs compute operations, since it would run a loop for each."""
    found = generator.PAGE.read_text()
    if not is_thorough():
        monkeypatch.setattr(generator, "way", lambda definition: "native")
        found = re.sub(r"(not native|traced|called)(?=, (CUDA C, )?(array library|store|host only))", "native", found)
    assert generator.page() == found, "make operations"


@pytest.mark.parametrize("type", ["Add", "Sort", "Print"])
def test_how_native_programs_compute_an_operation(generator, monkeypatch, type):
    look_at(generator, monkeypatch, type)
    [cell] = re.findall(rf"^\| `\w+` \| {type} \|[^|]*\|([^|]*)\|", generator.PAGE.read_text(), re.MULTILINE)
    assert generator.way(generator.DEFINITIONS[type]) in cell.strip().split(", ")


def test_types_are_those_of_the_functions_own_module(generator):
    assert generator.own_types(tg.matmul.__wrapped__) == ["MatMul"]
    assert generator.own_types(tg.norm.__wrapped__) == []
    assert generator.own_types(tg.exp.__wrapped__) == ["Exp"]


def test_every_function_that_builds_is_there(generator):
    found = generator.building()
    assert {"add", "norm", "cond", "while_loop", "gradients", "jacobian", "sparse_add", "placeholder"} <= set(found)
    assert not {"trainable_variables", "global_variables"} & set(found)


def test_what_a_line_says(generator, monkeypatch):
    look_at(generator, monkeypatch, "Add", "Any")
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
