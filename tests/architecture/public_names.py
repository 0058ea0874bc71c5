"""Writes `engine/public.py`, the imports of all public names, from the lists of the families: ``make names``.

A family is a package whose `__init__.py` has a dict ``PUBLIC``: module -> names, separated by spaces. A name of another
spelling here is written ``there:here``; a module without names is listed for the operations that it declares.
"""

import ast
import builtins

from tests.architecture.layers import FOLDERS, ROOT

FILE = ROOT / "engine" / "public.py"
HEAD = '''\
"""Public names of `tagloom` except its modules; written by ``make names`` from the families' lists ``PUBLIC``.

The package reads this file when the first of the names is used: see `engine/__init__.py`. Type checkers read it too.
"""

# ruff: noqa: I001

'''


def families():
    """Return family -> its dict PUBLIC, by path of the package, such as ``ops.math``."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("__init__.py"):
            names = [
                ast.literal_eval(node.value)
                for node in ast.parse(path.read_text()).body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PUBLIC"
            ]
            if names:
                parts = [*package.split(".")[1:], *path.parent.relative_to(ROOT / folder).parts]
                found[".".join(parts)] = names[0]
    return found


def places():
    """Return (module, names here -> names there) for each module of each family, in the order of the modules."""
    return sorted(
        (f"{family}.{module}", {each.rpartition(":")[2]: each.partition(":")[0] for each in names.split()})
        for family, modules in families().items()
        for module, names in modules.items()
    )


def text():
    """Return the text of the list of imports as it should be; raise ValueError if two modules have one name."""
    lines, listed, hidden = [], [], []
    for module, names in places():
        listed += names
        hidden += [here for here, there in names.items() if here in dir(builtins) and here != there]
        lines.append(_import_names(module, names) if names else _import_declarations(module))
    if len(set(listed)) < len(listed):
        raise ValueError(f"public names of two modules: {sorted({n for n in listed if listed.count(n) > 1})}")
    # A star import hides no function of Python.
    starred = "".join(f'    "{name}",\n' for name in sorted(set(listed) - set(dir(builtins))))
    renamed = "".join(f"{name} = _{name}\n" for name in hidden)  # exported by the assignment
    return f"{HEAD}{''.join(lines)}\n{renamed}\n__all__ = [\n{starred}]\n"


def _import_names(module, names):
    parts = [_import_name(here, there) for here, there in sorted(names.items())]
    line = f"from .{module} import {', '.join(parts)}\n"
    if len(line) <= 121:
        return line
    return f"from .{module} import (\n" + "".join(f"    {part},\n" for part in parts) + ")\n"


def _import_name(here, there):
    """Return the part of an import; names that a star leaves out are exported to type checkers by an equal alias."""
    if here not in dir(builtins):
        return here if here == there else f"{there} as {here}"
    return f"{here} as {here}" if here == there else f"{there} as _{here}"


def _import_declarations(module):
    package, _, name = module.rpartition(".")
    return f"from .{package} import {name} as _{name}  # noqa: F401  declares operations\n"


if __name__ == "__main__":
    FILE.write_text(text())
