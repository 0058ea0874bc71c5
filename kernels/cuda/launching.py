"""Compilation of CUDA C by NVRTC through the array library, once for each dtype, and grids for launches.

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
WIDE = 2048  # columns of a row from which on a block has MANY threads
WIDEST = 1 << 16  # most columns of a row for a single block
MOST_BLOCKS = 1 << 13  # threads loop over the rest: more blocks than any device runs at once
REALS = {"f": "float", "d": "double"}
Function = Callable[..., None]
_Type = np.dtype[Any]
_FOLDER = Path(__file__).parent


class Grid(NamedTuple):
    """Number of blocks, and threads of a block: along a row, and rows."""

    blocks: tuple[int]
    threads: tuple[int, int]


def can_compile(xp: Any) -> bool:
    """Return True if an array library compiles CUDA C."""
    return hasattr(xp, "RawModule")


@functools.cache
def read_source(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_FOLDER / name).read_text()


def compiler_options(dtype: _Type, elements: int, grid: Grid) -> tuple[str, ...]:
    """Return the compiler options for arrays of a dtype, of which the largest has `elements` elements.

    Products and sums are rounded separately (no fused multiply-add), as by the separate operations of a kernel.
    """
    defined = {"REAL": REALS[dtype.char], "INDEX": _index_type(elements), "THREADS": math.prod(grid.threads)}
    return (*(f"-D{name}={value}" for name, value in defined.items()), "--fmad=false")


def _index_type(elements: int) -> str:
    # half the range of 32 bits, so that an index plus the stride of a grid does not wrap
    return "unsigned" if elements < 1 << 31 else "size_t"


def as_index(number: int, elements: int) -> np.generic:
    """Return a number as an index of kernels for so many elements."""
    return np.uint32(number) if _index_type(elements) == "unsigned" else np.uint64(number)


def find_function(xp: Any, code: str, name: str, dtype: _Type, elements: int, grid: Grid) -> Function:
    """Return a kernel of a source, compiled for arrays of some size: ``function(blocks, threads, arguments)``.

    Raises
    ------
    GraphError
        If compilation fails.
    """
    return _compile_function(xp, code, name, compiler_options(dtype, elements, grid))


@functools.lru_cache(1024)
def _compile_function(xp: Any, code: str, name: str, options: tuple[str, ...]) -> Function:
    """Return a kernel by name, compiled once per source and options; the cache holds 1024."""
    try:
        function: Function = xp.RawModule(code=read_source("prelude.cu") + code, options=options).get_function(name)
        return function
    except MemoryError:
        raise
    except Exception as error:  # CuPy's compile error, or an ImportError without NVRTC
        raise GraphError(
            "a kernel in CUDA C cannot be compiled",
            got=str(error),
            hint="Settings(native=False) computes with the array library's kernels instead",
        ) from error


def over_elements(elements: int) -> Grid:
    """Return a grid with a thread per element, or for several elements if there are many."""
    return Grid((min(-(-elements // FEW), MOST_BLOCKS),), (FEW, 1))


def over_rows(rows: int, width: int) -> Grid:
    """Return a grid with as many threads per row as columns, rounded up to a power of two, within a block."""
    threads = FEW if width <= WIDE else MANY
    lanes = min(threads, 1 << (max(width, 1) - 1).bit_length())
    together = threads // lanes
    return Grid((min(-(-rows // together), MOST_BLOCKS),), (lanes, together))


def make_contiguous(xp: Any, arrays: Sequence[Any]) -> list[Any]:
    """Return arrays in row-major order, and scalars unchanged."""
    return [x if isinstance(x, np.generic) else xp.ascontiguousarray(x) for x in arrays]
