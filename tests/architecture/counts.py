"""Counts of what the sources should have less and less of: ``python -m tests.architecture.counts`` prints them.

`tests/architecture/test_counts.py` holds them against the bars there, which only go down.
"""

import ast
import dataclasses
import functools
import importlib.util
import inspect
import re
import sys
from collections import Counter
from pathlib import Path

from tests.architecture.layers import ROOT, sources

# What an operation is stands in its definition; these rooms are about particular types by their nature.
ABOUT_TYPES = ("ops", "compile/lower", "compile/partition")
FOR_EDITORS = Path("engine/ir/outputs.py")  # types by their outputs; a test compares it with the definitions
LONGEST = 500  # lines of a file
NAMES = Path("engine/public.py")  # which is a list, as long as there are public names
MOST_BRANCHES = 12  # of a function
MOST_PARAMETERS = 6  # of a function
# Modules whose names users take, beside those of the package itself; one that the package does not have is left out.
OFFERED = [
    *("compat.tf1", "data", "losses", "metrics", "monitoring", "nest", "nn", "operations", "streams", "swap"),
    *("testing", "training"),
]
# Public classes that users are handed, whose constructors only the engine calls.
HANDED_OUT = {"Operation", "SessionView", "Runner", "Function", "QueueBase"}


def python_sources(folders=("engine", "streams", "swap", "kernels")):
    """Yield (path, syntax tree) of the Python files of some folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, parse(path)


@functools.cache
def parse(path):
    return ast.parse(path.read_text())


@functools.cache
def walk(tree):
    """Return all nodes of a file's syntax tree, which most counts look at."""
    return list(ast.walk(tree))


def package(path):
    """Return the folder that a file of engine/ is counted under."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[1:-1]) or parts[-1]


def type_comparisons(tree):
    """Yield the lines that compare ``something.type`` with names of operation types, or look it up in a table."""
    for node in walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_is_type(side) for side in sides):
                yield node.lineno
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and (
                (called.attr == "startswith" and _is_type(called.value))
                or (called.attr == "get" and any(_is_type(a) for a in node.args))
            ):
                yield node.lineno
        elif isinstance(node, ast.Subscript) and _is_type(node.slice):
            yield node.lineno


def _is_type(node):
    return isinstance(node, ast.Attribute) and node.attr == "type" and not _is_another(node.value)


def _is_another(node):
    """Say whether an expression is something else than an operation that has a type too."""
    return getattr(node, "id", getattr(node, "attr", "")) in (
        "spec",
        "device",
        "parameter",
        "p",
        "span",
        "token",
        "self",
    )


def name_tables(tree, types):
    """Yield the names of module-level tables, of two or more operation types."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if value is not None and isinstance(targets[0], ast.Name) and targets[0].id != "__all__":
            strings = {n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            if len(strings & types) >= 2:
                yield targets[0].id


def private_reaches(tree, names=("session", "_session")):
    """Yield the lines that use a private attribute of a session, or of another object of these names."""
    for node in walk(tree):
        is_private = isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
        if is_private and getattr(node.value, "id", getattr(node.value, "attr", "")) in names:
            yield node.lineno


def calls_of(tree, name):
    """Yield the lines that call a function or class by its bare name."""
    return (n.lineno for n in walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == name)


@functools.cache
def branches(function):
    """Return how many ways a function has to branch, those of functions in it apart."""
    kinds = (ast.If, ast.For, ast.While, ast.IfExp, ast.comprehension, ast.ExceptHandler, ast.BoolOp, ast.AsyncFor)
    return sum(isinstance(node, kinds) for node in ast.walk(function))


def parameters(function):
    """Return the parameters of a function, without the object or the class of a method."""
    found = function.args
    listed = [*found.posonlyargs, *found.args, *found.kwonlyargs]
    return [each for each in listed if each.arg not in ("self", "cls")]


def is_overload(function):
    """Return True for a signature that type checkers alone read."""
    return any(ast.unparse(each).endswith("overload") for each in function.decorator_list)


def is_only_typed(function):
    """Return True for an overload, or a signature of a protocol: both are for type checkers alone."""
    body = function.body[-1]
    is_empty = isinstance(body, ast.Expr) and isinstance(body.value, ast.Constant) and body.value.value is ...
    return is_overload(function) or is_empty


def public_functions():
    """Return (path in the package, line) of each function that users call: of its modules and its classes."""
    import tagloom

    package = Path(tagloom.__file__).parent  # the tree, or an installed copy
    present = [name for name in OFFERED if importlib.util.find_spec(f"tagloom.{name.partition('.')[0]}")]
    modules = [tagloom, *(importlib.import_module(f"tagloom.{name}") for name in present)]
    listed = [(module, name) for module in modules for name in getattr(module, "__all__", dir(module))]
    found = set()
    for home, name in listed:
        value = getattr(home, name)
        for function in _methods(value) if inspect.isclass(value) else [value]:
            code = getattr(inspect.unwrap(function), "__code__", None)
            if code is not None and Path(code.co_filename).is_relative_to(package):
                found.add((Path(code.co_filename).relative_to(package), code.co_firstlineno))
    return found


def _path_in_package(path):
    """Return the path of a source file of the tree in the package."""
    inner = path.relative_to(ROOT)
    return inner.relative_to("engine") if inner.parts[0] == "engine" else inner


def _methods(kind):
    """Yield the methods that users call on a class or on its objects, with its constructor."""
    for owner in kind.__mro__:
        for name, method in vars(owner).items():
            is_made_by_users = name == "__init__" and owner.__name__ not in HANDED_OUT
            if is_made_by_users or name == "__call__" or not name.startswith("_"):
                yield getattr(method, "__func__", method)


def wide_functions():
    """Return the functions with many parameters: those that users call, kernels, and all others."""
    public, kernels, others, known = [], [], [], public_functions()
    for path, tree in python_sources():
        for f in walk(tree):
            if not isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) or is_only_typed(f):
                continue
            names = [each.arg for each in parameters(f)]
            if len(names) > MOST_PARAMETERS:
                line = min([f.lineno, *(each.lineno for each in f.decorator_list)])
                # The inputs and attributes of its operation are what a kernel is called with.
                is_kernel = names[0] == "xp" and path.is_relative_to(ROOT / "engine" / "ops")
                found = public if (_path_in_package(path), line) in known else kernels if is_kernel else others
                found.append(f"{path.relative_to(ROOT)}:{f.name}")
    return public, kernels, others


def untyped_share():
    """Return the share of parameters annotated as Any alone, outside of operations and layers, which take anything."""
    untyped = total = 0
    for path, tree in python_sources():
        if not str(path.relative_to(ROOT)).startswith(("engine/ops", "engine/nn", "engine/compat")):
            functions = (n for n in walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
            found = [p.annotation for f in functions for p in parameters(f)]
            untyped += sum(each is not None and ast.unparse(each) == "Any" for each in found)
            total += len(found)
    return untyped / total


def definition_fields():
    """Return the names of the fields that every operation type has."""
    from tagloom.ir.definition import OpDefinition

    return [each.name for each in dataclasses.fields(OpDefinition)]


def operation_types():
    """Return the names of all declared operation types, and of those that passes make."""
    import tagloom  # noqa: F401  declares them
    from tagloom.ir.definition import all_definitions

    return {definition.type for definition in all_definitions()} | {"Cond", "While", "Param", "Feed", "Placeholder"}


def counts():
    """Return the counts by what they are of; those by package as a mapping."""
    types = operation_types()
    compared, tables, reaches, made, branchy, ignored = Counter(), [], [], [], [], Counter()
    public, kernels, others = wide_functions()
    for path, tree in python_sources():
        where = path.relative_to(ROOT)
        if where.parts[0] == "engine" and not package(path).startswith(ABOUT_TYPES):
            compared[package(path)] += len(set(type_comparisons(tree)))
        if "ops" not in where.parts and where != FOR_EDITORS:
            tables += [f"{where}:{name}" for name in name_tables(tree, types)]
        reaches += [f"{where}:{line}" for line in private_reaches(tree)]
        made += [f"{where}:{line}" for line in calls_of(tree, "Operation")]
        functions = [n for n in walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        branchy += [f"{where}:{f.name}" for f in functions if branches(f) > MOST_BRANCHES]
        ignored[str(where)] += path.read_text().count("# type: " + "ignore")
    return {
        "comparisons of op.type": +compared,
        "tables of operation types": tables,
        "private attributes of sessions": reaches,
        "hand-made Operation(...)": made,
        "formatter pragmas": formatter_pragmas(),
        f"functions with more than {MOST_BRANCHES} branches": branchy,
        f"functions with more than {MOST_PARAMETERS} parameters, of all kinds": [*others, *kernels, *public],
        f"functions with more than {MOST_PARAMETERS} parameters, internal": others,
        f"functions with more than {MOST_PARAMETERS} parameters, kernels": kernels,
        f"functions with more than {MOST_PARAMETERS} parameters, public": public,
        "ignored errors of types": +ignored,
        "fields of OpDefinition": definition_fields(),
        f"files of more than {LONGEST} lines": long_files(),
    }


def formatter_pragmas():
    """Return where lines are kept from the formatter."""
    pragma = re.compile(r"# *fmt" + r": ")
    paths = [
        p for top in ("engine", "kernels", "streams", "swap", "tests", "bench") for p in (ROOT / top).rglob("*.p*")
    ]
    return [str(p.relative_to(ROOT)) for p in paths if p.suffix != ".pyc" and pragma.search(_text(p))]


def _text(path):
    return path.read_text() if path.suffix in (".py", ".pyi", ".pyx", ".pxd") else ""


def long_files():
    """Return the files that have outgrown themselves, with their lines."""
    lines = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path, _ in sources()}
    lines.pop(NAMES)
    return [f"{path}: {n}" for path, n in sorted(lines.items()) if n > LONGEST]


def main():
    print(f"{untyped_share():5.1%} of parameters outside ops and nn are annotated Any")
    for what, found in counts().items():
        total = sum(found.values()) if isinstance(found, Counter) else len(found)
        print(f"{total:5} {what}")
        if "-v" in sys.argv and not what.endswith("of all kinds"):  # the kinds follow
            rows = [f"{n} {where}" for where, n in sorted(found.items())] if isinstance(found, Counter) else found
            print(*(f"        {row}" for row in rows), sep="\n")


if __name__ == "__main__":
    main()
