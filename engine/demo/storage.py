"""Weights in a file: an ``.npz`` with the alphabet, read without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tagloom as tg

from ..base.npz_files import UNREADABLE
from .model import initial_weights
from .text import Alphabet

Array = np.ndarray[Any, Any]

_ALPHABET = "alphabet"


def save_weights(path: str | Path, alphabet: Alphabet, weights: Mapping[str, Array]) -> None:
    """Write weights (as `initial_weights` names them) and the alphabet; the file appears whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        np.savez(file, **{_ALPHABET: np.array(alphabet.characters)}, **weights)  # type: ignore[arg-type]
    partial.replace(target)


def load_weights(path: str | Path) -> tuple[Alphabet, dict[str, Array]]:
    """Read a file of `save_weights`.

    Returns
    -------
    alphabet : Alphabet
    weights : dict of str to float32 array

    Raises
    ------
    CheckpointError
        If the file is missing, not an npz, or its arrays do not fit together.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except UNREADABLE as error:
        raise tg.CheckpointError(
            f"cannot read weights from {path}: {error}", hint="give a file that `tagloom demo --save` wrote"
        ) from error
    alphabet = Alphabet(str(arrays.pop(_ALPHABET, "")))
    _refuse_mismatch(path, alphabet, arrays)
    return alphabet, arrays


def _refuse_mismatch(path: str | Path, alphabet: Alphabet, arrays: dict[str, Array]) -> None:
    """Raise CheckpointError unless names, dtypes and shapes are those of a model's weights."""
    # The embedding's size and the number of units are the numbers of rows of two matrices; all other shapes follow from
    # these numbers and the alphabet.
    rows = [len(arrays[name]) for name in ("input", "recurrent") if name in arrays and arrays[name].ndim == 2]
    expected: dict[str, Array] = {}
    if len(rows) == 2:
        embedding_size, units = rows
        expected = initial_weights(len(alphabet), embedding_size, units, seed=0)
    if not expected or _format_arrays(expected) != _format_arrays(arrays):
        raise tg.CheckpointError(
            f"{path} does not hold the weights of one model",
            wanted=_format_arrays(expected) or "embedding, input, recurrent, bias, output, output_bias",
            got=_format_arrays(arrays),
            hint="give a file that `tagloom demo --save` wrote",
        )


def _format_arrays(arrays: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in sorted(arrays.items()))
