"""No call of Python on the path of a hot kernel: the C that Cython makes of it is looked through."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "kernels"
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}

# What runs once, when a plan is built, or leaves work of 50 µs and more. All else in these modules is hot.
BUILDING = {
    "cpu/elementwise": {"_for"},
    "cpu/fused": {"_compile", "_leave"},
    "cpu/linear": {"pack_once"},
    "cpu/loops": {"_wrap"},
    "cpu/concat_transpose": set(),
    "cpu/product_sum": set(),
    "cpu/reducing": {"_identity", "_describe"},
    "cpu/softmax": {"_load"},
    "cpu/cumulative": set(),
    "cpu/pooling": {"_is_taken"},
    "cpu/reshape": set(),
    "cpu/gather_slice": {"_read_key", "_read_limit"},
    "cpu/ufuncs": {"_are_plain", "describe_loop"},
}
HOT_ONLY = {
    "memory/store": {"_take", "_give", "_take_zeroed", "_new_block", "_resize", "trim_store"},
    "cpu/elements": {"_array_in", "_has_shape", "_read", "_write", "read_quickly", "write_quickly"},
    "scheduler/machine": {"_run", "_execute", "_compute"},
    "scheduler/state": {"_emit"},
}

NUMPY = re.compile(r"PyArray_\w+")  # its C interface; new arrays come from PyArray_NewFromDescr
HARMLESS = re.compile(
    r"(__Pyx_)?(Py_)?X?(INCREF|DECREF|GOTREF|GIVEREF|NewRef)(_SET)?|Py_CLEAR|Py_REFCNT|PyErr_Occurred|__Pyx_RefNanny\w+"
    r"|__Pyx_Py(List|Tuple)_GET_\w+|Py(List|Tuple)_CheckExact|__Pyx_Type(Check|Test)|__Pyx_PyLong_As_npy_intp"
    r"|PyEval_\w+Thread|PyGILState_Check|__Pyx_\w*GIL\w*|__Pyx_FastGIL\w+"
)
ERROR_EXITS = re.compile(
    r"__Pyx_AddTraceback|__Pyx_Raise\w*|PyErr_(NoMemory|SetString|Format)|__Pyx_(ErrFetch|ErrRestore|GetException)\w*"
    r"|__Pyx_Exception(Save|Swap|Reset)|__Pyx_PyErr_ExceptionMatches|__Pyx_WriteUnraisable|__Pyx_(Reraise)\w*"
)
FUNCTION = re.compile(r"^static [^\n;]*?\b(__pyx_f\w*|__pyx_fuse_\w+)\([^;{]*\) \{\n(.*?)^\}", re.M | re.S)
CALL = re.compile(r"\b((?:__)?Py\w+)\(")


def is_current(made, source):
    """Whether translated C is newer than its source and all that this may include."""
    sources = [source, *KERNELS.rglob("*.pxd")]
    return made.exists() and made.stat().st_mtime > max(p.stat().st_mtime for p in sources)


def translate(module, folder):
    """Return the C of a module: as the last build left it, else translated now."""
    built = ROOT / "build" / "cython" / "release" / "kernels" / f"{module}.c"
    source = KERNELS / f"{module}.pyx"
    if is_current(built, source):
        return built.read_text()
    compiler = pytest.importorskip("Cython.Compiler.Main")
    root = folder / "tagloom"
    root.mkdir(exist_ok=True)
    (root / "__init__.py").touch()
    if not (root / "kernels").exists():
        (root / "kernels").symlink_to(KERNELS, target_is_directory=True)
    made = folder / f"{module.replace('/', '_')}.c"
    options = compiler.CompilationOptions(
        include_path=[str(folder)], compiler_directives=DIRECTIVES, output_file=str(made)
    )
    compiler.compile_single(str(source), options, full_module_name=f"tagloom.kernels.{module.replace('/', '.')}")
    return made.read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if not KERNELS.is_dir():
        pytest.skip("the sources of the kernels are not here")
    return tmp_path_factory.mktemp("cython")


def functions(module, text):
    """Return the C of the functions of the module itself, by their names in the source; of all types for each name."""
    prefix = "".join(f"{len(part)}{part}_" for part in ("tagloom", "kernels", *module.split("/")))
    found = {}
    for name, body in FUNCTION.findall(text):
        if prefix in name:
            inner = re.sub(r"^(\d+[A-Z]\w*?_)(?=_|[a-z])", "", name.split(prefix, 1)[1])  # without a class
            found[inner] = found.get(inner, "") + body
    return found


def python_calls(body):
    """Return the functions of Python's C interface that a body calls, apart from those that are harmless."""
    calls = set(CALL.findall(body))
    return sorted(c for c in calls if not any(p.fullmatch(c) for p in (NUMPY, HARMLESS, ERROR_EXITS)))


@pytest.mark.parametrize("module", sorted(BUILDING))
def test_kernels_call_no_python(module, folder):
    cold = BUILDING[module]
    found = functions(module, translate(module, folder))
    hot = {name: body for name, body in found.items() if name not in cold and not name.lstrip("_").startswith("find_")}
    assert hot
    assert cold <= set(found)
    assert {name: python_calls(body) for name, body in hot.items() if python_calls(body)} == {}


@pytest.mark.parametrize("module", sorted(HOT_ONLY))
def test_the_hot_part_of_a_module_calls_no_python(module, folder):
    found = functions(module, translate(module, folder))
    assert HOT_ONLY[module] <= set(found)
    assert {n: python_calls(found[n]) for n in HOT_ONLY[module] if python_calls(found[n])} == {}


@pytest.mark.parametrize(
    "header",
    [
        "core/clock",
        "core/frames",
        "core/values",
        "scheduler/delivery",
        "scheduler/primitives",
        "scheduler/ready",
        "scheduler/rendezvous",
    ],
)
def test_what_the_machine_includes_calls_no_python(header, folder):
    found = functions(header, translate("scheduler/machine", folder))
    assert found
    assert {name: python_calls(body) for name, body in found.items() if python_calls(body)} == {}


def test_a_call_of_python_would_be_found(folder):
    found = functions("cpu/reducing", translate("cpu/reducing", folder))
    assert "__Pyx_PyObject_GetAttrStr" in python_calls(found["_identity"])
