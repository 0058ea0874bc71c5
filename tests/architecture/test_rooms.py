"""One rule for where things stand: docs/design/0051-rooms-and-names.md."""

import ast
import dataclasses
import inspect

import tagloom

from tests.architecture.layers import ROOT, module_name, sources
from tests.architecture.public_names import families, places


def trees():
    """Yield (module, syntax tree) of every Python file of the package."""
    for path, module in sources():
        if path.suffix == ".py":
            yield module, ast.parse(path.read_text())


def calls(tree, name):
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name for n in ast.walk(tree))


def public_objects(package):
    """Yield (name, object) of the public names that stand in a package."""
    for module, names in places():
        if f"tagloom.{module}".startswith(f"{package}."):
            yield from ((name, getattr(tagloom, name)) for name in names if not name.startswith("_"))


def test_operations_are_declared_in_ops_and_in_interfaces_of_other_libraries_alone():
    declaring = {module for module, tree in trees() if calls(tree, "define")}
    assert [m for m in declaring if not m.startswith(("tagloom.ops.", "tagloom.compat."))] == []


def test_public_classes_of_ops_are_values():
    """What a user keeps and calls methods of, such as a queue, is a class of `frontend` over operations of `ops`."""
    classes = [value for _, value in public_objects("tagloom.ops") if inspect.isclass(value)]
    assert [c for c in classes if not (dataclasses.is_dataclass(c) or issubclass(c, tuple))] == []


def test_frontend_is_made_of_rooms():
    """`missing_names` serves all public modules; `least_squares` is a composition, without functions and state."""
    flat = {module_name(p, ROOT / "engine", "tagloom") for p in (ROOT / "engine" / "frontend").glob("*.py")}
    assert flat == {f"tagloom.frontend.{name}" for name in ("__init__", "least_squares", "missing_names")}


def test_each_module_of_a_family_is_there():
    there = {module for _, module in sources()}
    assert [m for family, modules in families().items() for m in modules if f"tagloom.{family}.{m}" not in there] == []
