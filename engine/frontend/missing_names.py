"""What the package says of a name that it does not have, and which names it shows."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from types import ModuleType
from typing import Any, NoReturn

from ..base.errors import TagloomError
from ..ir.other_names import NAMES, name_here

_PACKAGE = __name__.partition(".")[0]
_MODULES = ("data", "losses", "metrics", "monitoring", "nn", "streams", "testing", "training")  # those for users
_FLAT = ("bitwise", "debugging", "linalg", "manip", "math", "random", "strings")


def __getattr__(name: str) -> Any:
    """Refuse a name with that of the same thing here, or with near ones; see `docs/renaming.md` for the alias."""
    if name == "TagflowError":
        return TagloomError  # programs written under the project's former name catch it
    hint = _hint(name)
    raise AttributeError(f"{_PACKAGE} has no '{name}'" + (f"\n  try: {hint}" if hint else ""), name=name)


def missing_in_nn(name: str) -> NoReturn:
    """Refuse a name that `tagloom.nn` does not have: functions are in one place."""
    hint = f"{_PACKAGE}.{name}" if name in __dir__() else _hint(name)
    raise AttributeError(f"{_PACKAGE}.nn has no '{name}'" + (f"\n  try: {hint}" if hint else ""), name=name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(name for name, value in _contents().items() if not _is_internal(name, value))


def _contents() -> dict[str, Any]:
    return vars(sys.modules[_PACKAGE])


def _is_internal(name: str, value: Any) -> bool:
    if isinstance(value, ModuleType):
        return name not in _MODULES
    return name.startswith("_") and name != "__version__"


def _hint(name: str) -> str | None:
    if name.startswith("_"):
        return None  # asked by Python, of any module
    if name == "train":
        return f"{_PACKAGE}.training, which has the optimizers"
    if name == "sparse":
        return f"{_PACKAGE}.sparse_f for tf.sparse.f, as all functions are in one place"
    if name in _FLAT:
        return f"{_PACKAGE}.f for tf.{name}.f, as all functions are in one place"
    known = name_here(name)
    if known is not None:
        return f"{_PACKAGE}.{known}"
    near = get_close_matches(name, [*__dir__(), *NAMES], 3)
    return ", ".join(f"{_PACKAGE}.{NAMES.get(each, each)}" for each in dict.fromkeys(near)) or None
