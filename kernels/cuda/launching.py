"""Compiles CUDA C by NVRTC through the array library, once for each dtype, and launches what comes of it.

See docs/design/0017-cuda-kernels.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tagloom.base.errors import GraphError

FEW, MANY = 256, 1024  # threads of a block
WIDE = 2048  # columns of a row from which on many threads work on it
WIDEST = 1 << 16  # columns of a row that one block should still go along
MOST_BLOCKS = 1 << 13  # whose threads go on with what is left: more than any device has at once
REALS = {"f": "float", "d": "double"}
Function = Callable[..., None]
_Type = np.dtype[Any]
_FOLDER = Path(__file__).parent


class Grid(NamedTuple):
    """Blocks, and threads of each block: those of a row, and rows."""

    blocks: tuple[int]
    threads: tuple[int, int]


def can_compile(xp: Any) -> bool:
    """Say whether an array library compiles CUDA C."""
    return hasattr(xp, "RawModule")


@functools.cache
def source(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_FOLDER / name).read_text()


def options(dtype: _Type, elements: int, grid: Grid) -> tuple[str, ...]:
    """Return how to compile for arrays of a dtype, of which the largest has so many elements.

    Products and sums are rounded each for itself, as they are by the operations that a kernel stands for.
    """
    defined = {"REAL": REALS[dtype.char], "INDEX": _index(elements), "THREADS": math.prod(grid.threads)}
    return (*(f"-D{name}={value}" for name, value in defined.items()), "--fmad=false")


def _index(elements: int) -> str:
    return "unsigned" if elements < 1 << 31 else "size_t"


def count(number: int, elements: int) -> np.generic:
    """Return a number as kernels take it that are compiled for so many elements."""
    return np.uint32(number) if _index(elements) == "unsigned" else np.uint64(number)


def find_function(xp: Any, code: str, name: str, dtype: _Type, elements: int, grid: Grid) -> Function:
    """Return a kernel of a source, compiled for arrays of some size: ``function(blocks, threads, arguments)``.

    Raises
    ------
    GraphError
        If it can not be compiled.
    """
    return _function(xp, code, name, options(dtype, elements, grid))


@functools.lru_cache(1024)
def _function(xp: Any, code: str, name: str, options: tuple[str, ...]) -> Function:
    try:
        return xp.RawModule(code=source("prelude.cu") + code, options=options).get_function(name)  # type: ignore[no-any-return]
    except MemoryError:
        raise
    except Exception as error:  # CuPy's own, or that it misses NVRTC
        raise GraphError(
            "a kernel in CUDA C can not be compiled",
            got=str(error),
            hint="Settings(native=False) computes with the array library's kernels instead",
        ) from error


def over_elements(elements: int) -> Grid:
    """Return a grid whose threads have an element each, or several."""
    return Grid((min(-(-elements // FEW), MOST_BLOCKS),), (FEW, 1))


def over_rows(rows: int, width: int) -> Grid:
    """Return a grid that has as many threads to a row as it has columns, if a block does: a power of two."""
    threads = FEW if width <= WIDE else MANY
    lanes = min(threads, 1 << (max(width, 1) - 1).bit_length())
    together = threads // lanes
    return Grid((min(-(-rows // together), MOST_BLOCKS),), (lanes, together))


def contiguous(xp: Any, arrays: Sequence[Any]) -> list[Any]:
    """Return arrays as they lie in memory row by row, and scalars as they are."""
    return [x if isinstance(x, np.generic) else xp.ascontiguousarray(x) for x in arrays]
