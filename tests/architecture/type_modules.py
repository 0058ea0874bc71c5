"""Writes `engine/ops/type_modules.py`, the table of the modules that declare operation types: ``make operations``."""

import subprocess
import sys
import textwrap

from tests.architecture.layers import ROOT

TABLE = ROOT / "engine" / "ops" / "type_modules.py"
TEXT = '''\
"""Modules that declare operation types, for a type to load its own module alone; written by ``make operations``."""

from __future__ import annotations

from functools import cache

TYPES = {{
{rows}}}


@cache
def _modules() -> dict[str, str]:
    return {{type: module for module, types in TYPES.items() for type in types.split()}}


def module_of(type: str) -> str | None:
    """Return the module of the package that declares an operation type; None if there is no such type."""
    return _modules().get(type)
'''
# In a process of its own, whose registry notes which module is being imported when a type is declared.
NOTE = """
import sys
from tagloom.ir import definition
ROOMS = "tagloom.ops.", "tagloom.compat."
class Registry(dict):
    def __setitem__(self, type, declared):
        super().__setitem__(type, declared)
        frame = sys._getframe(1)
        while not (frame.f_code.co_name == "<module>" and frame.f_globals["__name__"].startswith(ROOMS)):
            frame = frame.f_back
        print(frame.f_globals["__name__"].removeprefix("tagloom."), type)
definition._REGISTRY = Registry()
import tagloom.compat.tf1, tagloom.public
"""


def declared():
    """Return the types that each module declares, in the order of the alphabet."""
    done = subprocess.run([sys.executable, "-c", NOTE], capture_output=True, text=True, check=True, cwd=ROOT)
    found = {}
    for line in done.stdout.splitlines():
        module, type = line.split()
        found.setdefault(module, []).append(type)
    return {module: sorted(types) for module, types in sorted(found.items())}


def table():
    """Return the text of the table as it should be."""
    return TEXT.format(rows="".join(map(_row, declared().items())))


def _row(item):
    module, types = item
    names = " ".join(types)
    row = f'    "{module}": "{names}",'
    if len(row) <= 120:
        return f"{row}\n"
    lines = textwrap.wrap(names, 109)
    joined = "".join(f'        "{line} "\n' for line in lines[:-1])
    return f'    "{module}": (\n{joined}        "{lines[-1]}"\n    ),\n'


if __name__ == "__main__":
    TABLE.write_text(table())
