"""Error messages for unknown names of the package, and the list of its public names."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from ..base.errors import TagloomError
from ..base.public_names import MODULES, import_alone, places
from ..ir.other_names import NAMES, name_here

_PACKAGE = __name__.partition(".")[0]
_NEAR = 0.75  # of `get_close_matches`: below it names only share letters, as `jit` and `int32` do
_FLAT = ("bitwise", "debugging", "image", "io", "linalg", "manip", "math", "random", "signal", "strings")


# Names that moved, by their former module: programs that use them are warned, and get them from their new place.
_TF1 = f"{_PACKAGE}.compat.tf1"
_MOVED = {
    "": """
        Barrier FixedLengthRecordReader KeyedStatistics MapStagingArea StagingArea TFRecordReader TextLineReader
        WholeFileReader
    """,
    "nn": """
        AUTO_REUSE AttentionCellWrapper AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention
        BasicDecoder BasicDecoderOutput BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState Decoder
        FinalBeamSearchDecoderOutput GreedyEmbeddingHelper Helper LuongAttention SampleEmbeddingHelper TrainingHelper
        VariableScope dynamic_decode gather_tree get_regularization_losses get_variable get_variable_scope tile_batch
        variable_scope
    """,
}

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
    """Return a name that moved, with a warning; refuse others with their equivalent here, or with similar names."""
    if name in moved_names(""):
        return _load_moved("", name)
    if name == "TagflowError":
        return TagloomError  # programs written under the project's former name catch it
    hint = _suggest_name(name)
    raise AttributeError(f"{_PACKAGE} has no '{name}'" + (f"\n  try: {hint}" if hint else ""), name=name)


def moved_names(module: str) -> list[str]:
    """Return the names that moved from a public module, "" for the package itself, to `compat.tf1`."""
    return _MOVED.get(module, "").split()


def _load_moved(module: str, name: str) -> Any:
    """Return a name from its new place, and warn the program that uses the old place."""
    old = ".".join(filter(None, [_PACKAGE, module, name]))
    # Passed over: this function and the `__getattr__` that calls it, and of the package one more.
    text = f"{old} is {_TF1}.{name} now; the old name will be removed in a later version"
    warnings.warn(text, DeprecationWarning, stacklevel=3 if module else 4)
    return getattr(import_alone(_TF1), name)


def missing_in(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a public module: names that moved, else an error with the nearest name."""

    def find_or_refuse_name(name: str) -> Any:
        """Return a name that moved, with a warning; refuse others with their equivalent, or with similar names."""
        if name in moved_names(module):
            return _load_moved(module, name)
        hint = _hint_in(module, name)
        text = f"{_PACKAGE}.{module} has no '{name}'"
        raise AttributeError(text + (f"\n  try: {hint}" if hint else ""), name=name)

    return find_or_refuse_name


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
    return sorted([*places(), *MODULES, "__version__"])


def _suggest_name(name: str) -> str | None:
    """Return the suggestion for an unknown name of the package, or None."""
    if name.startswith("_"):
        return None  # Python probes modules for names such as __path__
    if name == "train":
        return f"{_PACKAGE}.training, which has the optimizers"
    if name == "sparse":
        return f"{_PACKAGE}.sparse_f for tf.sparse.f, as all functions are in one place"
    if name in _FLAT:
        return f"{_PACKAGE}.f for tf.{name}.f, as all functions are in one place"
    known = name_here(name)
    if known is not None:
        return f"{_PACKAGE}.{known}"
    near = get_close_matches(name, [*public_names(), *NAMES], 3, _NEAR)
    return ", ".join(dict.fromkeys(f"{_PACKAGE}.{NAMES.get(candidate, candidate)}" for candidate in near)) or None
