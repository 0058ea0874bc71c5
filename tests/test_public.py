"""The public face: what `import tagloom` gives is complete, documented, and lives in one place."""

import ast
import builtins
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest
import tagloom
import tagloom.frontend
import tagloom.ops
from tagloom import compat, data, losses, metrics, monitoring, nest, nn, streams, testing, training
from tagloom.compat import tf1
from tagloom.frontend.missing_names import moved_names
from tagloom.ir.entry import PUBLIC as PUBLIC_NAMES

from tests.support.cases import each

CONSTRUCTION = """
    Graph placeholder constant Variable global_variables_initializer cond case switch_case while_loop map_fn foldl foldr
    scan TensorArray gradients hessians stop_gradient custom_gradient control_dependencies device colocate_with
    name_scope group identity no_op py_function switch merge enter exit next_iteration loop_cond control_trigger stack
    stack_push stack_pop
"""
RUNNING = "Session SyncSession Settings "
ERRORS = """
    TagloomError GraphError ShapeError DtypeError BranchMismatchError LoopVariableError OpError DeadFetchError
    TensorArrayError StackError StepTimeout QueueClosed PipelineError Overloaded DeviceMemoryError CheckpointError
    SessionClosed UninitializedVariableError
"""

ALIASES = {("floormod", "mod")}  # two names of one function, as in TensorFlow
HOMONYMS = {"stack"}  # one name for two functions: see frontend/state/stacking.py

MODULES = {"compat", "data", "losses", "metrics", "monitoring", "nest", "nn", "streams", "testing", "training"}
PUBLIC = {name: getattr(tagloom, name) for name in dir(tagloom) if name not in MODULES}
CALLABLE = {n: v for n, v in PUBLIC.items() if inspect.isfunction(v)}
CLASSES = {n: v for n, v in PUBLIC.items() if inspect.isclass(v)}


@each("name", (CONSTRUCTION + RUNNING + ERRORS).split())
def test_names_of_the_design_are_exported(name):
    assert name in dir(tagloom)
    assert callable(getattr(tagloom, name))


def imported_names(path):
    """Return the names that the list of public names imports."""
    tree = ast.parse(path.read_text())
    return {a.asname or a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}


def test_dir_is_what_the_list_of_public_names_imports():
    names = imported_names(Path(tagloom.__file__).with_name("public.py")) - {"_bool", "_iterators", "_scattering"}
    assert dir(tagloom) == sorted(names | MODULES | {"bool"})
    assert {name for name in dir(tagloom) if isinstance(getattr(tagloom, name), ModuleType)} == MODULES


@pytest.mark.parametrize(
    "module", [compat, data, losses, metrics, monitoring, nest, nn, streams, testing, tf1, training]
)
def test_dir_of_a_module_is_its_public_names(module):
    assert dir(module) == sorted(module.__all__)
    modules = {name for name in dir(module) if isinstance(getattr(module, name), ModuleType)}
    assert modules == ({"tf1"} if module is compat else set())


def test_type_checkers_are_told_of_all_names():
    """The names that a star gives them, those of Python's own, and the modules."""
    face = ast.parse(Path(tagloom.__file__).read_text())
    (block,) = [node for node in face.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    named = {alias.asname or alias.name for node in block.body for alias in node.names} - {"*", "__all__"}
    assert named | set(tagloom.__all__) == set(dir(tagloom))
    assert named == set(dir(tagloom)) & set(dir(builtins)) | MODULES


def test_all_is_what_hides_nothing_of_pythons():
    assert tagloom.__all__ == sorted(set(dir(tagloom)) - MODULES - set(dir(builtins)))
    assert {"abs", "bool", "range", "slice"} <= set(dir(tagloom)) - set(tagloom.__all__)


def test_star_import_gives_no_modules():
    names = {}
    exec("from tagloom import *", names)
    assert [n for n, v in names.items() if isinstance(v, ModuleType)] == []
    assert [n for n in names if n.startswith("_")] == ["__builtins__", "__version__"]


def test_no_module_takes_a_public_name():
    for info in pkgutil.iter_modules(tagloom.__path__, "tagloom."):
        importlib.import_module(info.name)
    assert [name for name, value in PUBLIC.items() if getattr(tagloom, name) is not value] == []


SCOPES = {"colocate_with", "control_dependencies", "device", "name_scope"}  # they look for the graph themselves
NOT_BUILDING = {"as_dtype", "function", "get_default_graph", "grad", "priority", "runners", "value_and_grad"}


def test_functions_are_marked_as_public():
    """So that they find the graph of their arguments, and say how they are called: see `engine/ir/entry.py`."""
    unmarked = {
        f.__name__ for f in CALLABLE.values() if f.__name__ not in PUBLIC_NAMES or not hasattr(f, "__wrapped__")
    }
    assert unmarked == SCOPES | NOT_BUILDING


def rooms():
    """Yield the modules that public functions are declared in, without the helpers the operations share."""
    for package in (tagloom.ops, tagloom.frontend):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.endswith(".common"):
                yield importlib.import_module(info.name)


def test_every_public_object_lives_in_one_place():
    named = {}
    for name, value in PUBLIC.items():
        named.setdefault(id(value), []).append(name)
    assert {tuple(names) for names in named.values() if len(names) > 1} <= ALIASES
    for name, value in (CALLABLE | CLASSES).items():
        home = importlib.import_module(value.__module__)
        assert getattr(home, value.__name__) is value, name


def test_no_other_room_defines_a_public_name():
    homes = {}
    for module in rooms():
        for name, value in vars(module).items():
            if name in CALLABLE and getattr(value, "__module__", "") == module.__name__:
                homes.setdefault(name, []).append(module.__name__)
    assert {name for name, places in homes.items() if len(places) > 1} == HOMONYMS


@each("name", [*CALLABLE, *CLASSES])
def test_docstring_begins_with_a_sentence(name):
    text = inspect.getdoc(PUBLIC[name])
    assert text, name
    assert text.split("\n\n")[0].rstrip().endswith((".", "::")), text


@each("name", CALLABLE)
def test_docstring_of_a_function_is_whole(name):
    function, text = PUBLIC[name], inspect.getdoc(PUBLIC[name])
    signature = inspect.signature(function)
    takes = [p for p in signature.parameters if p != "name"]
    assert [p for p in takes if not re.search(rf"\b{p}\b", text)] == []
    if not takes or "\n\n" not in text.partition("\n\nExamples\n")[0]:  # one sentence says it all
        return
    assert "Parameters\n----------" in text
    gives = "Iterator[None]" not in str(signature.return_annotation)
    assert not gives or re.search(r"^(Returns|Yields)\n-", text, re.M)


SHOWN = {n: v for n, v in (CALLABLE | CLASSES).items() if not (inspect.isclass(v) and issubclass(v, Exception))}
SHOWN |= {
    f"{m.__name__}.{n}": getattr(m, n)
    for m in (data, losses, metrics, monitoring, nn, testing, tf1, training)
    for n in m.__all__
}


@each("name", SHOWN)
def test_docstring_has_an_example_that_shows_a_result(name):
    _, _, examples = inspect.getdoc(SHOWN[name]).partition("\n\nExamples\n--------\n")
    found = doctest.DocTestParser().get_examples(examples)
    assert found[0].source.endswith("tagloom as tg\n")
    assert any(example.want for example in found)


METHODS = {
    f"{name}.{method}": function
    for name, kind in (
        CLASSES
        | {
            n: getattr(m, n)
            for m in (data, losses, metrics, monitoring, nn, testing, tf1, training)
            for n in m.__all__
            if inspect.isclass(getattr(m, n))
        }
    ).items()
    for method, function in vars(kind).items()
    if inspect.isfunction(function) and not method.startswith("_")
}


@each("name", METHODS)
def test_docstring_of_a_method_names_its_arguments(name):
    text = inspect.getdoc(METHODS[name])
    takes = [p for p in inspect.signature(METHODS[name]).parameters if p not in ("self", "name")]
    assert [p for p in takes if not re.search(rf"\b{p}\b", text)] == []
    if takes and text.count("\n\n"):  # one sentence may say it all
        assert "Parameters\n----------" in text or "see :meth:" in text
        assert "Returns\n-------" in text or METHODS[name].__annotations__["return"] == "None"


OLD_NAMES = [(tagloom, name) for name in moved_names("")] + [(nn, name) for name in moved_names("nn")]


def test_names_of_tensorflow_1_work_at_their_old_places_with_a_warning():
    for module, name in OLD_NAMES:
        new = f"tagloom.compat.tf1.{name}"
        with pytest.warns(DeprecationWarning, match=f"{module.__name__}.{name} is {new} now") as told:
            assert getattr(module, name) is getattr(tf1, name)
        assert Path(told[0].filename) == Path(__file__)
        assert name not in dir(module)


def test_names_of_tensorflow_1_that_moved_are_those_of_their_new_place():
    assert sorted(name for _, name in OLD_NAMES) == sorted(tf1.__all__)


@pytest.mark.parametrize("name", ["Graph", "Variable", "TensorArray", "Session", "Shape", "Trace"])
def test_docstring_of_a_class_names_its_arguments(name):
    text = inspect.getdoc(PUBLIC[name])
    takes = [p for p in inspect.signature(PUBLIC[name]).parameters if p != "name"]
    assert [p for p in takes if not re.search(rf"^(\w+, )*{p}(, \w+)* : ", text, re.M)] == []


@pytest.mark.parametrize("name", ["while_loop", "fori_loop", "cond", "map_fn", "foldl", "foldr", "scan"])
def test_docstring_says_the_meaning_in_python(name):
    assert re.search(r"^In Python:", inspect.getdoc(PUBLIC[name]), re.M)


ARGUMENTS = {
    "cond": "pred true_fn false_fn strict name",
    "case": "pred_fn_pairs default exclusive strict name",
    "while_loop": "cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory maximum_iterations",
    "map_fn": "fn elems dtype parallel_iterations back_prop swap_memory infer_shape name",
    "foldl": "fn elems initializer parallel_iterations back_prop swap_memory name",
    "foldr": "fn elems initializer parallel_iterations back_prop swap_memory name",
    "scan": "fn elems initializer parallel_iterations back_prop swap_memory infer_shape reverse name",
    "gradients": "ys xs grad_ys name",
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_have_the_order_of_tensorflow_1(name):
    wanted = ARGUMENTS[name].split()
    assert list(inspect.signature(PUBLIC[name]).parameters)[: len(wanted)] == wanted
