"""Registry of the operations with a form in kernels of native programs, by type or ufunc.

An emitter adds the lines of an instruction to a kernel while it is written. The file of an emitter registers it, on
import by the package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..program import Code, Computation, Instruction
from .values import NotWritten, Value, has_type

if TYPE_CHECKING:
    from .writer import Writer

# Emitter of an operation: emit(writer, computation, values of its inputs, instruction).
Emit = Callable[["Writer", Computation, Sequence[Value], Instruction], None]
# Emitter of an instruction code: do(writer, number of the instruction, instruction).
Do = Callable[["Writer", int, Instruction], None]

_instructions: dict[Code, Do] = {}
_emitters: dict[str, tuple[Emit, str, tuple[int, ...]]] = {}  # by type: emitter, kinds, shapes of `emits_operations`
_ufuncs: dict[str, tuple[Emit, str]] = {}  # by name and kind of the first input: emitter, kind


def emits_code(code: Code) -> Callable[[Do], Do]:
    """Register the decorated function for instructions of a code: ``do(writer, number, instruction)``."""

    def add_instruction(do: Do) -> Do:
        _instructions[code] = do
        return do

    return add_instruction


def has_instruction(code: Code) -> bool:
    """Return True if instructions of a code have a form in a kernel."""
    return code in _instructions


def find_instruction(code: Code) -> Do:
    """Return the writer of an instruction code; NotWritten if there is none."""
    if code not in _instructions:
        raise NotWritten(f"{code.name} has no form in CUDA C")
    return _instructions[code]


def emits_operations(*types: str, kinds: str = "biuf", shapes: tuple[int, ...] = ()) -> Callable[[Emit], Emit]:
    """Register the decorated function as emitter of operations of these types.

    Parameters
    ----------
    *types : str
    kinds : str
        Supported dtypes of inputs and outputs, as NumPy's ``dtype.kind``.
    shapes : tuple of int
        Inputs that determine shapes, whose values must be known when a kernel is written.
    """

    def add_emitter(emit: Emit) -> Emit:
        _emitters.update(dict.fromkeys(types, (emit, kinds, shapes)))
        return emit

    return add_emitter


def emit_ufunc(name: str, kinds: str, emit: Emit) -> None:
    """Register an emitter of a ufunc for a first input of some kinds of dtypes; earlier registrations stay."""
    for kind in kinds:
        _ufuncs.setdefault(f"{name} {kind}", (emit, kind))


def find_emitter(type: str, ufunc: str | None, kind: str) -> Emit | None:
    """Return the emitter of an operation, by the kind of its first input's dtype, or None."""
    if type in _emitters:
        return _emitters[type][0]
    return _ufuncs.get(f"{ufunc} {kind}", (None, ""))[0]


def can_emit(computation: Computation, dtypes: Sequence[np.dtype[Any]]) -> bool:
    """Return True if an operation with dtypes, first those of its inputs, has a form in a kernel."""
    if not all(map(has_type, dtypes)):
        return False
    emit, kinds, shapes = _emitters.get(computation.type, (None, "", ()))
    kind = dtypes[0].kind if dtypes else ""
    if emit is not None:
        return all(dtype.kind in kinds for k, dtype in enumerate(dtypes) if k not in shapes)
    return find_emitter(computation.type, computation.ufunc, kind) is not None


def shape_inputs(type: str) -> tuple[int, ...]:
    """Return the positions of the inputs of an operation that determine shapes."""
    return _emitters[type][2] if type in _emitters else ()
