"""Rules for operations in native programs, by target: the code generator of the device, and kernels of its own."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.own_kernels import HasOwnKernel, has_no_own_kernel
from ...kernels.native.generator import C, CodeGenerator


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the operations of a program.

    Attributes
    ----------
    generator : CodeGenerator
        Writer of the operations' kernels.
    has_own_kernel : callable
        ``has_own_kernel(op)`` is True if an outside package has registered a kernel for the operation, which a program
        would pass over.
    """

    generator: CodeGenerator
    has_own_kernel: HasOwnKernel = has_no_own_kernel


ON_CPU = Rules(C)
