"""The code generator of GPUs: kernels in CUDA C, which the array library compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cuda.launching import can_compile
from ..generator import CodeGenerator, Dtypes

if TYPE_CHECKING:
    from ....base.settings import Switches
    from ...cuda.registry import Compiled
    from ..program import Code, Computation


@dataclass(frozen=True, slots=True)
class _CudaC:
    """The generator for the arrays of a library.

    Attributes
    ----------
    xp : module
        CuPy, or a library that compiles CUDA C as CuPy does.
    """

    xp: Any
    language: str = "CUDA C"
    adds_epilogues: bool = False
    calls_kernels: bool = False
    keeps_limits: bool = False

    def values_read(self, type: str) -> tuple[int, ...] | None:
        return ()

    def has_kernel(self, computation: Computation, given: Dtypes, made: Dtypes, switches: Switches) -> bool:
        from .emitting import can_emit  # only programs for a GPU load the writer of CUDA C

        return can_emit(computation, [*given, *made])

    def has_code(self, code: Code) -> bool:
        from .emitting import has_instruction

        return has_instruction(code)

    def has_dtype(self, dtype: np.dtype[Any]) -> bool:
        from .values import has_type

        return has_type(dtype)

    def find_kernel(
        self, type: str, attrs: Mapping[str, Any], outputs: Dtypes, otherwise: Callable[..., Any]
    ) -> Compiled | None:
        from ...cuda.registry import find_compiled

        return find_compiled(self.xp, type, attrs, outputs, otherwise)


def cuda_generator(xp: Any) -> CodeGenerator | None:
    """Return the generator for the arrays of a library; None if the library compiles no CUDA C."""
    return _CudaC(xp) if can_compile(xp) else None
