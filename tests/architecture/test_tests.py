"""No file of tests is imported: what several share stands in a plain module beside them, or in `tests/support`."""

import pytest

from tests.architecture.layers import ROOT, imports


def imported_tests(text, module):
    """Return the names that a Python text imports which are files of tests, or are in one."""
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
