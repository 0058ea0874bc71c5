"""Rules for operations in native programs, by target: kernels in C on a CPU, one kernel in CUDA C on a GPU."""

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
    """Rules for the operations of a program.

    Attributes
    ----------
    language : str
        Language of the operations' kernels.
    values_read : callable
        ``values_read(type)`` returns the inputs whose values a kernel of this type must know in advance; None if
        that depends on more, so that the kernel cannot be a step.
    has_kernel : callable
        ``has_kernel(computation, given, made, settings)`` is True if a kernel exists for these input and output dtypes.
    has_dtype : callable
        ``has_dtype(dtype)`` is True if registers may have a dtype.
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
    from ...kernels.native.cuda.emitting import can_emit  # only programs for a GPU load the writer of CUDA C

    return can_emit(computation, [*given, *made])


def _has_cuda_type(dtype: np.dtype[Any]) -> bool:
    from ...kernels.native.cuda.values import has_type

    return has_type(dtype)


ON_CUDA = Rules("CUDA C", lambda type: (), _has_cuda_kernel, _has_cuda_type)
