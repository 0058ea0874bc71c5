"""The layers as data, and the imports of a source file."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"engine": "tagloom", "kernels": "tagloom.kernels", "streams": "tagloom.streams", "swap": "tagloom.swap"}

# A room may import itself and rooms of lower layers. `tagloom` is engine/__init__.py, which loads the list in
# engine/public.py; above it stand its users.
LAYERS = {
    "tagloom.base": 0,
    "tagloom.kernels": 1,  # its rooms have floors
    "tagloom.kernels.elementary": 1,
    "tagloom.kernels.steps": 1,
    "tagloom.kernels.core": 1,
    "tagloom.kernels.memory": 1,
    "tagloom.kernels.cpu": 1,
    "tagloom.kernels.queues": 1,
    "tagloom.kernels.cuda": 1,
    "tagloom.kernels.scheduler": 1,
    "tagloom.kernels.native": 1,
    "tagloom.ir": 1,
    "tagloom.deadness": 2,
    "tagloom.streams": 2,
    "tagloom.swap": 3,
    "tagloom.ops": 3,
    "tagloom.vectorize": 3,
    "tagloom.frontend": 4,
    "tagloom.gradients": 4,
    "tagloom.compile.simplify": 4,
    "tagloom.compile.loops": 4,
    "tagloom.compile.fuse": 4,
    "tagloom.compile.lower": 4,
    "tagloom.compile.place": 4,
    "tagloom.compile.partition": 4,
    "tagloom.compile.native": 4,
    "tagloom.compile.plan": 4,
    "tagloom.compile": 5,
    "tagloom.runtime": 6,
    "tagloom.data": 7,
    "tagloom.losses": 7,
    "tagloom.metrics": 7,
    "tagloom.monitoring": 7,
    "tagloom.nest": 7,
    "tagloom.nn": 7,
    "tagloom.testing": 7,
    "tagloom.training": 7,
    "tagloom.operations": 7,
    "tagloom.compat": 8,
    "tagloom.public": 8,
    "tagloom.distributed": 7,
    "tagloom.profiling": 7,
    "tagloom": 9,
    "tagloom.demo": 10,
    "tagloom.cli": 11,
    "tagloom.__main__": 12,
}

# Within one layer these rooms stand on each other: each may import those of lower floors.
FLOORS = {
    "tagloom.kernels.core": 0,
    "tagloom.kernels.elementary": 1,
    "tagloom.kernels.steps": 2,
    "tagloom.kernels.memory": 2,
    "tagloom.kernels.cpu": 3,
    "tagloom.kernels.cuda": 3,
    "tagloom.kernels.queues": 4,
    "tagloom.kernels.scheduler": 4,
    "tagloom.kernels.native": 5,
    "tagloom.ops": 0,
    "tagloom.vectorize": 1,
}

_FROM = re.compile(r"^([ \t]*)from[ \t]+(\.*)([\w.]*)[ \t]+(c?import)[ \t]+(\([^)]*\)|[^\n]*)", re.M)
_PLAIN = re.compile(r"^([ \t]*)(c?import)[ \t]+([\w., \t]+)", re.M)


def sources():
    """Yield (path, module name) of every source file of the packages."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.p[yx]*")):
            if path.suffix in (".py", ".pyx", ".pxd"):
                yield path, module_name(path, folder, package)


def module_name(path, folder, package):
    """Return the dotted name of a file; an ``__init__`` keeps that part, so that dots resolve alike everywhere."""
    return ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts])


def room(module):
    """Return the room a module belongs to, or None when it is not tagloom's."""
    parts = [part for part in module.split(".") if part != "__init__"]
    if parts[0] != "tagloom":
        return None
    deep = ".".join(parts[:3])
    return deep if deep in LAYERS or parts[:2] == ["tagloom", "kernels"] else ".".join(parts[:2])


@cache
def imports(text, module, suffix, at_run_time=False):
    """Return the full names that a source imports or cimports.

    All of them, wherever in the file; or those only that are imported as the module is.
    """
    found = _python_imports if suffix == ".py" else _cython_imports
    return frozenset(absolute(dots, base, name, module) for dots, base, name in found(text, at_run_time))


def absolute(dots, base, name, module):
    """Resolve ``from ..base import name`` seen in `module`."""
    start = module.split(".")[: -dots or None] if dots else []
    return ".".join([*start, *filter(None, [base, name])])


def _python_imports(text, at_run_time):
    tree = ast.parse(text)
    for node in _run_at_import(tree) if at_run_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, "", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, node.module or "", alias.name) for alias in node.names)


def _run_at_import(node):
    """Yield the statements that run when a module is imported: not those of functions, nor those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (found for other in child.orelse for found in (other, *_run_at_import(other)))
            continue
        yield child
        yield from _run_at_import(child)


def _cython_imports(text, at_run_time):
    """Read imports line by line; an indented one that is no cimport is in a function."""
    for indent, dots, base, how, names in _FROM.findall(text):
        if how == "cimport" or not (indent and at_run_time):
            yield from ((len(dots), base, name) for name in _listed(names))
    for indent, how, names in _PLAIN.findall(text):
        if how == "cimport" or not (indent and at_run_time):
            yield from ((0, "", name) for name in _listed(names))


def _listed(names):
    """Split ``(a, b as c,)  # why`` into names."""
    names = re.sub(r"#.*", "", names).strip(" ()\n\t")
    return [name.split()[0] for name in names.split(",") if name.strip()]


def known_rooms(names):
    """Map imported names to rooms; ``from tagloom import x`` is the room x where there is one, else the public face."""
    for name in names:
        found = room(name)
        if found in LAYERS:
            yield found
        elif found is not None:
            yield "tagloom"


def violations(text, module, suffix):
    """Return a sentence for each import of `module` that does not point down."""
    here = room(module)
    if here not in LAYERS:
        return [f"{module} is in no layer: add {here} to the table of layers"]
    wrong = {r for r in known_rooms(imports(text, module, suffix)) if r != here and not is_below(r, here)}
    return [f"{module} ({_place(here)}) imports {r} ({_place(r)})" for r in sorted(wrong)]


def is_below(lower, upper):
    """Say whether a room stands below another: in a lower layer, or on a lower floor of the same layer."""
    if LAYERS[lower] != LAYERS[upper]:
        return LAYERS[lower] < LAYERS[upper]
    return lower in FLOORS and upper in FLOORS and FLOORS[lower] < FLOORS[upper]


def _place(room):
    return f"layer {LAYERS[room]}" + (f", floor {FLOORS[room]}" if room in FLOORS else "")
