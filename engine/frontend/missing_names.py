"""Error messages for unknown names of the package, and the list of its public names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn

from ..base.errors import TagloomError
from ..base.public_names import places
from ..ir.other_names import NAMES, name_here

_PACKAGE = __name__.partition(".")[0]
# Modules for users:
_MODULES = ("data", "losses", "metrics", "monitoring", "nest", "nn", "streams", "testing", "training")
_NEAR = 0.75  # of `get_close_matches`: below it names only share letters, as `jit` and `int32` do
_FLAT = ("bitwise", "debugging", "image", "io", "linalg", "manip", "math", "random", "signal", "strings")


_IN_MODULES = {
    ("data", "DataLoader"): "data.from_arrays(...).batch(n)",
    ("data", "from_tensor_slices"): "data.from_arrays",
    ("losses", "BCELoss"): "losses.sigmoid_cross_entropy",
    ("losses", "CrossEntropyLoss"): "losses.sparse_softmax_cross_entropy",
    ("losses", "L1Loss"): "losses.absolute_difference",
    ("losses", "MSELoss"): "losses.mean_squared_error",
    ("losses", "mse"): "losses.mean_squared_error",
    ("metrics", "Accuracy"): "metrics.accuracy",
    ("nest", "assert_same_structure"): "nest.map_structure, which compares them",
    ("nest", "flatten_with_joined_string_paths"): "nest.walk",
    ("nest", "flatten_with_tuple_paths"): "nest.walk",
    ("nest", "pack_sequence_as"): "nest.pack_as",
    ("nest", "register_pytree_node"): "nest.register",
    ("training", "SGD"): "training.GradientDescentOptimizer",
    ("training", "Saver"): "training.Checkpointer",
}


def find_or_refuse(name: str) -> Any:
    """Refuse an unknown name with its equivalent here, or with similar names; see `docs/renaming.md` for the alias."""
    if name == "TagflowError":
        return TagloomError  # programs written under the project's former name catch it
    hint = _suggest_name(name)
    raise AttributeError(f"{_PACKAGE} has no '{name}'" + (f"\n  try: {hint}" if hint else ""), name=name)


def missing_in(module: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a public module, which suggests the nearest name, there or elsewhere."""

    def refuse_name(name: str) -> NoReturn:
        """Refuse an unknown name of the module with its equivalent, or with similar names."""
        hint = _hint_in(module, name)
        text = f"{_PACKAGE}.{module} has no '{name}'"
        raise AttributeError(text + (f"\n  try: {hint}" if hint else ""), name=name)

    return refuse_name


def _hint_in(module: str, name: str) -> str | None:
    """Return the suggestion for an unknown name of a module, or None."""
    if name.startswith("_"):
        return None
    known = _IN_MODULES.get((module, name))
    if known is not None:
        return f"{_PACKAGE}.{known}"
    names = getattr(sys.modules[f"{_PACKAGE}.{module}"], "__all__", ())
    # Keras and PyTorch omit the last word of the names here, or write them in another case.
    same = [
        candidate
        for candidate in names
        if candidate.lower() in (name.lower(), f"{name}Optimizer".lower(), f"{name}_loss".lower())
    ]
    near = same or get_close_matches(name, names, 3, _NEAR)
    if near:
        return ", ".join(f"{_PACKAGE}.{module}.{candidate}" for candidate in near)
    return f"{_PACKAGE}.{name}" if name in public_names() else _suggest_name(name)


def public_names() -> list[str]:
    """Return the public names of the package."""
    return sorted([*places(), *_MODULES, "__version__"])


def _suggest_name(name: str) -> str | None:
    """Return the suggestion for an unknown name of the package, or None."""
    if name.startswith("_"):
        return None  # Python probes modules for names such as __path__
    if name == "train":
        return f"{_PACKAGE}.training, which has the optimizers"
    if name == "compat":
        return f"{_PACKAGE}.f for tf.compat.v1.f; see docs/porting.md"
    if name == "sparse":
        return f"{_PACKAGE}.sparse_f for tf.sparse.f, as all functions are in one place"
    if name in _FLAT:
        return f"{_PACKAGE}.f for tf.{name}.f, as all functions are in one place"
    known = name_here(name)
    if known is not None:
        return f"{_PACKAGE}.{known}"
    near = get_close_matches(name, [*public_names(), *NAMES], 3, _NEAR)
    return ", ".join(dict.fromkeys(f"{_PACKAGE}.{NAMES.get(candidate, candidate)}" for candidate in near)) or None
