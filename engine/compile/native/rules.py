"""What may be in a native program, by what runs it: kernels in C on a CPU, one written in CUDA C on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.settings import Settings
from ...kernels.cpu.registry import values_read
from ...kernels.native.compiled import has_kernel
from ...kernels.native.program import Computation

Dtypes = Sequence[np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be in a program.

    Attributes
    ----------
    language : str
        What the kernels of operations are written in.
    values_read : callable
        Returns the inputs of operations of a type of which a kernel must know the values; None if that depends on more.
    has_kernel : callable
        Says whether an operation has a kernel for the dtypes of its inputs and outputs.
    has_dtype : callable
        Says whether registers may have a dtype.
    """

    language: str
    values_read: Callable[[str], tuple[int, ...] | None]
    has_kernel: Callable[[Computation, Dtypes, Dtypes, Settings], bool]
    has_dtype: Callable[[np.dtype[Any]], bool]


ON_CPU = Rules(
    "C",
    values_read,
    lambda computation, given, made, settings: has_kernel(computation, list(given), list(made), settings),
    lambda dtype: not dtype.hasobject and dtype.kind in "biufc",
)


def _has_cuda_kernel(computation: Computation, given: Dtypes, made: Dtypes, settings: Settings) -> bool:
    from ...kernels.native.cuda.emitting import can_emit  # only programs for a GPU load what writes CUDA C

    return can_emit(computation, [*given, *made])


def _has_cuda_type(dtype: np.dtype[Any]) -> bool:
    from ...kernels.native.cuda.values import has_type

    return has_type(dtype)


ON_CUDA = Rules("CUDA C", lambda type: (), _has_cuda_kernel, _has_cuda_type)
