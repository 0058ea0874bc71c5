"""Rules for operations in native programs, by target: the code generator of the device, and kernels of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.operation import Operation
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
    is_limited : bool
        True if the device's memory has a limit.
    device : str
        Device that the operations name; empty if they name none.
    calls : bool
        True if operations without a kernel of the generator may be traced or called.
    """

    generator: CodeGenerator
    has_own_kernel: HasOwnKernel = has_no_own_kernel
    is_limited: bool = False
    device: str = ""
    calls: bool = True


RulesOf = Callable[[Operation], Rules]  # NotNative for loops without a device of their own

ON_CPU = Rules(C)
