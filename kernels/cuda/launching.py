"""Compiles CUDA C by NVRTC through the array library, once for each dtype, and launches what comes of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

THREADS = 256  # of a block, as in prelude.cu
MOST_BLOCKS = 1 << 13  # whose threads go on with what is left: more than any device has at once
REALS = {"f": "float", "d": "double"}
_Type = np.dtype[Any]
_FOLDER = Path(__file__).parent


class Grid(NamedTuple):
    """Blocks, and threads of each block."""

    blocks: tuple[int, ...]
    threads: tuple[int, ...]


def can_compile(xp: Any) -> bool:
    """Say whether an array library compiles CUDA C."""
    return hasattr(xp, "RawModule")


@functools.cache
def source(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_FOLDER / name).read_text()


def options(dtype: _Type, elements: int) -> tuple[str, ...]:
    """Return how to compile for arrays of a dtype, of which the largest has so many elements.

    Products and sums are rounded each for itself, as they are by the operations that a kernel stands for.
    """
    return (f"-DREAL={REALS[dtype.char]}", f"-DINDEX={_index(elements)}", "--fmad=false")


def _index(elements: int) -> str:
    return "unsigned" if elements < 1 << 31 else "size_t"


def count(number: int, elements: int) -> np.generic:
    """Return a number as kernels take it that are compiled for so many elements."""
    return np.uint32(number) if _index(elements) == "unsigned" else np.uint64(number)


def find_function(xp: Any, code: str, name: str, dtype: _Type, elements: int) -> Callable[..., None]:
    """Return a kernel of a source, ``function(blocks, threads, arguments)``, compiled for arrays of some size."""
    return _function(xp, code, name, options(dtype, elements))


@functools.cache
def _function(xp: Any, code: str, name: str, options: tuple[str, ...]) -> Callable[..., None]:
    return xp.RawModule(code=source("prelude.cu") + code, options=options).get_function(name)  # type: ignore[no-any-return]


def over_elements(elements: int) -> Grid:
    """Return a grid whose threads have an element each, or several."""
    return Grid((min(-(-elements // THREADS), MOST_BLOCKS),), (THREADS,))


def over_rows(rows: int, width: int) -> Grid:
    """Return a grid that has as many threads to a row as it has columns, if a block does: a power of two."""
    lanes = min(THREADS, 1 << (max(width, 1) - 1).bit_length())
    together = THREADS // lanes
    return Grid((min(-(-rows // together), MOST_BLOCKS),), (lanes, together))


def contiguous(xp: Any, arrays: Sequence[Any]) -> list[Any]:
    """Return arrays as they lie in memory row by row, and scalars as they are."""
    return [x if isinstance(x, np.generic) else xp.ascontiguousarray(x) for x in arrays]
