"""Translation of the operations on TensorArrays to instructions of native programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.operation import Operation
from ...ir.rules.native import RunsAs
from ...kernels.native.program import Code
from .eligible import NotNative, check_dtype

if TYPE_CHECKING:
    from .translate import Translator

ACCESSES = frozenset({"GET", "PUT", "GATHER", "SCATTER", "STACK", "UNSTACK"})  # errors about them name the iteration
_FLOWS = {Code.GET: 2, Code.GATHER: 2, Code.STACK: 1}  # numbers of the inputs that order reads after writes


def translate_access(t: Translator, op: Operation) -> None:
    """Translate an operation on a TensorArray; NotNative without a kernel of the device, or for handles that vary."""
    code = _code_of(t, op)
    if code in _FLOWS:
        _read(t, op, code)
    elif code is Code.NEW:
        _make(t, op)
    else:
        # The flow stays the same.
        *inputs, flow = t.values(op.inputs)
        t.add(code, [*inputs, t.count], name=op.name)
        t.bind(op.outputs, [flow])


def _code_of(t: Translator, op: Operation) -> Code:
    instruction = op.rule(RunsAs)
    assert instruction is not None
    code = Code[instruction.code]
    if not t.rules.generator.has_code(code):
        raise NotNative(op, f"has no kernel in {t.rules.generator.language}")
    return code


def _read(t: Translator, op: Operation, code: Code) -> None:
    """Translate a read of elements; zeros for unwritten elements may have their sizes in an input."""
    result = t.new(op.outputs[0].dtype, op.name, op)
    inputs = list(t.values(op.inputs))  # all: the flow orders the read after writes
    del inputs[_FLOWS[code]]
    shape = op.outputs[0].shape if code is Code.GET else op.outputs[0].shape[1:]
    known = shape.as_tuple() if shape.is_fully_known else None
    t.add(code, [*inputs, t.count], [result], name=op.name, shape=known)
    t.bind(op.outputs, [result])


def _make(t: Translator, op: Operation) -> None:
    """Translate the making of an array, which stays in the program."""
    handle = t.new(op.outputs[0].dtype, op.name, op)
    first, *flow = t.values(op.inputs)
    options: tuple[Any, ...] = ()
    if "sums" in op.attrs:
        attrs = op.attrs
        if attrs["swappable"] or attrs["dtype"].numpy is None:
            raise NotNative(op, "makes an array of elements that may be elsewhere")
        pattern = _pattern_of(Shape(attrs["element_shape"]))
        adds, clears = attrs["sums"], attrs["clear_after_read"]
        check_dtype(attrs["dtype"], op, t.rules)
        options = (attrs["dtype"].name, pattern, attrs["dynamic_size"], clears, adds)
    elif op.attrs["source"] is not None:
        raise NotNative(op, "makes a gradient array with a name")
    t.add(Code.NEW, [first], [handle], name=op.name, options=options)
    t.bind(op.outputs, [handle, *(flow or [t.zero(dtypes.float32)])])


def _pattern_of(shape: Shape) -> tuple[int | None, ...] | None:
    """Return the sizes of a shape, None where unknown; None for a shape of unknown rank."""
    return None if shape.rank is None else shape.dims
