"""The layers as data, and the imports of a source file."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"engine": "tagflow", "kernels": "tagflow.kernels", "streams": "tagflow.streams", "swap": "tagflow.swap"}

# A room may import itself and rooms of lower layers. `tagflow` is engine/__init__.py; above it stand its users.
LAYERS = {
    "tagflow.base": 0,
    "tagflow.kernels": 1,
    "tagflow.ir": 1,
    "tagflow.streams": 2,
    "tagflow.swap": 3,
    "tagflow.ops": 3,
    "tagflow.frontend": 4,
    "tagflow.gradients": 4,
    "tagflow.optimize": 4,
    "tagflow.lower": 4,
    "tagflow.place": 4,
    "tagflow.cluster": 4,
    "tagflow.partition": 4,
    "tagflow.plan": 4,
    "tagflow.compile": 5,
    "tagflow.runtime": 6,
    "tagflow.training": 7,
    "tagflow.distributed": 7,
    "tagflow.profiling": 7,
    "tagflow": 8,
    "tagflow.demo": 9,
    "tagflow.cli": 10,
}

_FROM = re.compile(r"^\s*from\s+(\.*)([\w.]*)\s+c?import\s+\(?([^)#]*)", re.M)
_PLAIN = re.compile(r"^\s*c?import\s+([\w., ]+)", re.M)


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
    """Return the room a module belongs to, or None when it is not tagflow's."""
    parts = module.split(".")
    if parts[0] != "tagflow":
        return None
    if len(parts) > 1 and parts[1] != "__init__":
        return ".".join(parts[:2])
    return "tagflow"


def imports(text, module, suffix):
    """Return the full names that a source imports or cimports, wherever in the file it does."""
    found = _python_imports(text) if suffix == ".py" else _cython_imports(text)
    return {absolute(dots, base, name, module) for dots, base, name in found}


def absolute(dots, base, name, module):
    """Resolve ``from ..base import name`` seen in `module`."""
    start = module.split(".")[: -dots or None] if dots else []
    return ".".join([*start, *filter(None, [base, name])])


def _python_imports(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((0, "", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, node.module or "", alias.name) for alias in node.names)


def _cython_imports(text):
    for dots, base, names in _FROM.findall(text):
        yield from ((len(dots), base, name.split()[0]) for name in names.split(",") if name.strip())
    for names in _PLAIN.findall(text):
        yield from ((0, "", name.split()[0]) for name in names.split(",") if name.strip())


def known_rooms(names):
    """Map imported names to rooms; ``from tagflow import x`` is the room x where there is one, else the public face."""
    for name in names:
        found = room(name)
        if found in LAYERS:
            yield found
        elif found is not None:
            yield "tagflow"


def violations(text, module, suffix):
    """Return a sentence for each import of `module` that does not point down."""
    here = room(module)
    if here not in LAYERS:
        return [f"{module} is in no layer: add {here} to the table of layers"]
    wrong = {r for r in known_rooms(imports(text, module, suffix)) if r != here and LAYERS[r] >= LAYERS[here]}
    return [f"{module} (layer {LAYERS[here]}) imports {r} (layer {LAYERS[r]})" for r in sorted(wrong)]
