"""No file of tests is imported: what several share stands in a plain module beside them, or in `tests/support`."""

import ast
import re

import pytest

from tests.architecture.layers import ROOT, imports

STATEMENT = re.compile(r"^[ \t]*(?:from|import)\b[^\n(]*(?:\([^)]*\))?", re.MULTILINE)


def imported_tests(text, module):
    """Return the names that a Python text imports which are files of tests, or are in one."""
    if not any("test_" in statement for statement in STATEMENT.findall(text)):
        return []  # most files are not parsed
    names = (name.split(".") for name in imports(text, module, ".py"))
    return sorted(".".join(parts) for parts in names if parts[0] == "tests" and any(map(_is_test_file, parts)))


def _is_test_file(part):
    return part.startswith("test_")


def test_no_file_of_tests_is_imported():
    found = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        where = path.relative_to(ROOT)
        found[str(where)] = imported_tests(path.read_text(), ".".join(where.with_suffix("").parts))
    assert len(found) > 100
    assert {where: names for where, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from tests.ops.test_math import run", ["tests.ops.test_math.run"]),
        ("from tests.ops import samples, test_math as other", ["tests.ops.test_math"]),
        ("import tests.ops.test_math", ["tests.ops.test_math"]),
        ("from .test_math import run", ["tests.ops.test_math.run"]),
        ("def later():\n    from tests.ops.test_math import run", ["tests.ops.test_math.run"]),
        ("from tests.ops.samples import SAMPLES\nfrom tests.support.running import machine_results", []),
        ("import numpy.testing.test_data", []),
    ],
)
def test_an_import_of_a_file_of_tests_is_found(text, names):
    assert imported_tests(text, "tests.ops.test_registry") == names


def fixed_sleeps(text):
    """Return the lines at which a test itself sleeps for a fixed time, outside of a loop that asks for a condition.

    Functions inside of a test may sleep, as slow work does; sleeps of zero seconds are turns of the event loop.
    """
    found = []
    if "sleep" not in text:
        return found

    def visit(node, is_waiting, depth):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if depth == 0 and child.name.startswith("test_"):
                    visit(child, False, 1)
            elif not isinstance(child, ast.Lambda):
                if depth and not is_waiting and _sleeps(child):
                    found.append(child.lineno)
                visit(child, is_waiting or isinstance(child, ast.While), depth)

    visit(ast.parse(text), False, 0)
    return found


def _sleeps(node):
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) in ("asyncio.sleep", "anyio.sleep", "time.sleep")):
        return False
    return not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)


MEANT = {  # tests that cancel at moments of the clock, or hold what measures time
    "tests/bench/test_experiments.py",
    "tests/runtime/test_cores.py",
    "tests/runtime/test_long_kernels.py",
    "tests/swap/test_endings.py",
}


def test_no_test_waits_for_a_fixed_time():
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        found[str(path.relative_to(ROOT))] = fixed_sleeps(path.read_text())
    assert {where for where, lines in found.items() if lines} <= MEANT, found


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("await asyncio.sleep(0.1)", 1),
        ("time.sleep(delay)", 1),
        ("await asyncio.sleep(0)", 0),
        ("await clock.sleep(3)", 0),
        ("while not done:\n        await asyncio.sleep(0.001)", 0),
        ("def slow():\n        time.sleep(0.1)", 0),
        ("for _ in range(3):\n        await asyncio.sleep(0.01)", 1),
    ],
)
def test_a_fixed_sleep_is_found(line, count):
    assert len(fixed_sleeps(f"async def test_it():\n    {line}\n")) == count
