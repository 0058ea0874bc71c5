"""Kernels registered for operations of existing types, by dtype and device kind, and the place where each type runs.

A definition fixes the meaning of a type, and its kernel computes with any array library. A package may register
further kernels of the same meaning; see docs/design/0052-device-kinds.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base.dtypes import PORTABLE, VALUES, DType
from ..base.errors import DtypeError, GraphError, ShapeError
from ..base.registrations import Registration, Registry
from ..base.shapes import Shape
from ..base.source_lines import Source, user_source
from .definition import OpDefinition, definition_of
from .operation import Operation
from .tensor import Tensor

CPU = "CPU"

# Dtype and static shape of each output, and the shape's dimensions, None if their number is unknown.
Declared = Sequence[tuple[DType, Shape, tuple[int | None, ...] | None]]
HasOwnKernel = Callable[[Operation], bool]  # True for operations that a registered kernel computes


@dataclass(frozen=True, slots=True)
class OwnKernel:
    """A registered kernel.

    Attributes
    ----------
    kernel : callable
        As the kernel of the definition: ``kernel(xp, *arrays, **attrs)``, with a context after `xp` if the type has
        effects.
    what : str
        Description for errors.
    source : Source or None
        Line of the registering call.
    """

    kernel: Callable[..., Any]
    what: str
    source: Source | None

    def bind(self, op: Operation, xp: Any) -> Callable[..., Any]:
        """Return the kernel for an operation, bound to attributes and array library, with checked results."""
        attrs = {key: op.attrs[key] for key in op.definition.attrs}
        wanted = [(t.dtype, t.shape, None if t.rank is None else t.shape.dims) for t in op.outputs]
        return partial(_call_checked, self, op.name, wanted, partial(self.kernel, xp, **attrs))


_KERNELS: Registry[OwnKernel] = Registry("kernel")


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The kernels of a device.

    Attributes
    ----------
    kind : str
        Name of the device kind, in capitals.
    dtypes : tuple of DType
        Dtypes of arrays in the device's memory, if its array library is not NumPy; values of others stay with the host.
    needs_kernels : bool
        True if the device computes nothing but operations with a kernel registered for the kind; the host computes
        the others, and keeps all state and saved values.
    """

    kind: str = CPU
    dtypes: tuple[DType, ...] = PORTABLE
    needs_kernels: bool = False

    def find(self, op: Operation) -> OwnKernel | None:
        """Return the kernel registered for an operation on this kind; None if the definition's kernel computes."""
        kernels = _KERNELS.entries
        if not kernels:
            return None
        dtype = _dtype_of(op)
        # The device says more about a kernel than the dtype: it decides which arrays the kernel is called with.
        keys = [(op.type, dtype, self.kind), (op.type, None, self.kind), (op.type, dtype, None), (op.type, None, None)]
        return next((kernels[key] for key in keys if key in kernels), None)

    def place_of(self, op: Operation) -> str:
        """Return where an operation runs on a device of the kind whose array library is not NumPy.

        Returns
        -------
        {'executor', 'store', 'host', 'device'}
            As `OpDefinition.runs_on`; "host" also if the device has no kernel, or arrays of another dtype only.
        """
        where = op.definition.runs_on
        if where == "executor":
            return where
        if where == "device" and not all(t.dtype in self.dtypes for t in _values_on_device(op)):
            return "host"
        if self.needs_kernels and (where == "store" or not self._has_kernel(op)):
            return "host"
        return where

    def _has_kernel(self, op: Operation) -> bool:
        """Return True if a kernel is registered for the kind itself, not for kinds of any array library."""
        kernels = _KERNELS.entries
        return (op.type, _dtype_of(op), self.kind) in kernels or (op.type, None, self.kind) in kernels


def has_no_own_kernel(op: Operation) -> bool:
    """Return False: the answer where no kernels are registered."""
    return False


def any_registered() -> bool:
    """Return True if a kernel is registered for any type."""
    return bool(_KERNELS.entries)


ON_HOST = KernelSource()  # of computations with NumPy, also beside other devices


def bound_kernel(op: Operation, xp: Any, source: KernelSource) -> Callable[..., Any]:
    """Return the kernel of an operation, bound to its attributes and to an array library.

    A kernel registered for the dtype or the device kind precedes the kernel of the definition.
    """
    definition = op.definition
    assert definition.kernel is not None, op
    own = source.find(op)
    kernel: Callable[..., Any]
    if own is not None:
        kernel = own.bind(op, xp)
    else:
        attrs = {key: op.attrs[key] for key in definition.attrs}
        kernel = partial(definition.kernel, xp, **attrs)
    return take_single_output(definition, len(op.outputs), kernel)


def take_single_output(definition: OpDefinition, num_outputs: int, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that returns an array, not a list of one, where an operation has a single output."""
    first = definition.signature.outputs[0] if num_outputs == 1 else None
    return partial(_unwrap_single_output, kernel) if first is not None and (first.many or first.count) else kernel


def _unwrap_single_output(kernel: Any, *arguments: Any) -> Any:
    """Call a kernel declared for any number of outputs, here one: executors expect an array for a single output."""
    result = kernel(*arguments)
    return result[0] if isinstance(result, (list, tuple)) else result


def add_kernel(type: str, kernel: Callable[..., Any], dtype: DType | None, kind: str | None) -> Registration:
    """Register a kernel; the caller has checked the device kind.

    Raises
    ------
    GraphError
        If the type is not defined, is implemented by the executors, or has such a kernel already.
    DtypeError
        If the type's first type variable does not take the dtype.
    """
    definition = definition_of(type)
    if definition.kernel is None:
        raise GraphError(
            f"{type} has no kernel: the executors implement it",
            wanted="a type whose operations are computed by a kernel",
            got=type,
            hint="operations.OpDefinition documents the kernels of types",
        )
    if not callable(kernel):
        raise GraphError(
            f"the kernel of {type} cannot be called",
            wanted="a function kernel(xp, *arrays, **attrs)",
            got=repr(kernel),
            hint="pass the function itself, not its result",
        )
    if dtype is not None:
        _check_dtype(type, dtype)
    parts = [f"for {dtype.name}" if dtype else "", f"on devices of the kind {kind}" if kind else ""]
    what = " ".join(["the kernel of", type, *filter(None, parts)])
    return _KERNELS.add((type, dtype, kind), OwnKernel(kernel, what, user_source()), what)


def _check_dtype(type: str, dtype: DType) -> None:
    """Refuse a dtype that operations of a type never have."""
    variable, allowed = _first_variable(type)
    if variable is None:
        raise DtypeError(
            f"{type} takes no dtype to choose a kernel by: the dtypes of its signature are fixed",
            wanted="dtype=None",
            got=dtype.name,
            hint="leave dtype= out",
        )
    if dtype not in allowed:
        raise DtypeError(
            f"{type} is not defined for {dtype.name}, so no kernel can be registered for it",
            wanted=" or ".join(each.name for each in allowed),
            got=dtype.name,
            hint="define an operation type of your own for this dtype",
        )


def _first_variable(type: str) -> tuple[str | None, tuple[DType, ...]]:
    """Return the first type variable in the signature of a type, inputs first, and its dtypes."""
    signature = definition_of(type).signature
    for parameter in (*signature.inputs, *signature.outputs):
        if signature.is_variable(parameter.type) or parameter.type.startswith("@"):
            return parameter.type, signature.where.get(parameter.type, VALUES)
    return None, ()


def _dtype_of(op: Operation) -> DType | None:
    """Return the dtype of an operation's first type variable; None without one."""
    signature = op.definition.signature
    for parameter, tensor in zip(signature.flat(len(op.inputs)), op.inputs):
        if signature.is_variable(parameter.type):
            return tensor.dtype
    attribute = next((p.type[1:] for p in signature.outputs if p.type.startswith("@")), None)
    return op.outputs[0].dtype if attribute is not None and op.outputs else None


def _values_on_device(op: Operation) -> list[Tensor]:
    """Return the inputs and outputs with values in the device's memory where the operation runs there."""
    signature = op.definition.signature
    inputs = [t for p, t in zip(signature.flat(len(op.inputs)), op.inputs, strict=True) if not p.is_host]
    return [t for t in (*inputs, *op.outputs) if t.dtype.is_value]


def _call_checked(own: OwnKernel, operation: str, wanted: Declared, kernel: Any, *args: Any) -> Any:
    """Call a registered kernel and check the number, dtypes and static shapes of its results."""
    result = kernel(*args)
    if hasattr(type(result), "__await__"):
        return _check_awaited(own, operation, wanted, result)
    return _check_results(own, operation, wanted, result)


async def _check_awaited(own: OwnKernel, operation: str, wanted: Declared, result: Any) -> Any:
    return _check_results(own, operation, wanted, await result)


def _check_results(own: OwnKernel, operation: str, wanted: Declared, result: Any) -> Any:
    """Return the result of a kernel; an error that names the registering line for anything else than was declared."""
    results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
    if len(results) != len(wanted):
        raise _wrong_result(own, operation, GraphError, f"{len(wanted)} results", f"{len(results)}")
    for value, (dtype, shape, dims) in zip(results, wanted, strict=True):
        if not dtype.is_value:
            continue
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            raise _wrong_result(own, operation, DtypeError, f"an array of {dtype.name}", type(value).__name__)
        if value.dtype != dtype.numpy:
            raise _wrong_result(own, operation, DtypeError, f"an array of {dtype.name}", f"one of {value.dtype}")
        # Comparing tuples is enough for most results.
        if value.shape != dims and not shape.includes(Shape(value.shape)):
            raise _wrong_result(own, operation, ShapeError, f"an array of shape {shape}", f"shape {list(value.shape)}")
    return result


def _wrong_result(own: OwnKernel, operation: str, kind: type[GraphError], wanted: str, got: str) -> GraphError:
    """Return the error of a registered kernel's result, with the registering line as its source."""
    return kind(
        f"{own.what}, registered at {own.source or 'an unknown line'}, returned something else than the type declares",
        wanted=wanted,
        got=got,
        operation=operation,
        source=own.source,
        hint="return arrays of the dtypes and shapes that the definition's own kernel returns",
    )
