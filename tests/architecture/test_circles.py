"""Nothing imports itself in a circle at run time: no module, whether Python or Cython, and no package."""

import pytest

from tests.architecture.circles import circles, module_graph, owner_of, package_graph
from tests.architecture.layers import imports


def test_no_module_imports_itself_in_a_circle():
    assert circles(module_graph()) == []


def test_no_package_imports_itself_in_a_circle():
    assert circles(package_graph(module_graph())) == []


def test_cython_modules_are_in_the_graph():
    graph = module_graph()
    assert "tagloom.kernels.core.values" in graph["tagloom.kernels.core.table"]  # a .pxd
    assert "tagloom.kernels.cpu.arrays" in graph["tagloom.kernels.cpu.linear"]  # a .pyx
    assert "tagloom.kernels.memory.pool" in graph["tagloom.runtime.devices.session_devices"]


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert circles(graph) == [["d", "e"], ["a", "b", "c"]]


def test_packages_are_those_of_their_modules():
    graph = {"tagloom.swap.tiers": {"tagloom.swap.disk", "tagloom.ir"}, "tagloom.ir": {"tagloom.base.nest"}}
    assert package_graph(graph) == {"tagloom.swap": {"tagloom.ir"}, "tagloom.ir": {"tagloom.base"}}


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("tagloom.base.nest", "tagloom.base.nest"),
        ("tagloom.base.nest.flatten", "tagloom.base.nest"),
        ("tagloom.base", "tagloom.base.__init__"),
        ("tagloom.base.Name", "tagloom.base.__init__"),
        ("numpy.ndarray", None),
    ],
)
def test_owners_of_names(name, owner):
    assert owner_of(name, {"tagloom.base.__init__", "tagloom.base.nest"}) == owner


@pytest.mark.parametrize(
    ("text", "suffix", "names"),
    [
        ("def f():\n    import a", ".py", set()),
        ("class C:\n    import a", ".py", {"a"}),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", ".py", {"b"}),
        ("try:\n    import a\nexcept ImportError:\n    import b", ".py", {"a", "b"}),
        ("cdef f():\n    import a\n    from b import c", ".pyx", set()),
        ("cimport a\nimport b", ".pyx", {"a", "b"}),
    ],
)
def test_what_is_imported_at_run_time(text, suffix, names):
    assert imports(text, "tagloom.base.x", suffix, at_run_time=True) == names
