"""Variables: state that outlives a step, kept by a session in one slot for each variable of the graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_like import as_array
from ...base.errors import GraphError, OpError, ShapeError, UninitializedVariableError
from ...base.resources import Resource
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ..support.array_library import add_at
from ..support.common import same_as
from ..support.context import KernelContext, Resources

Array = np.ndarray[Any, Any]
CONTAINER = "variables"  # what this kind of resources is called in snapshots

# `sys.getrefcount(self._buffer)` of a buffer that only the slot holds: the slot's reference and the argument's.
_ALONE = 2


class VariableSlot(Resource):
    """The value of one variable in one session.

    Whoever reads holds the buffer itself, read-only. An update writes in place only if the slot alone holds the
    buffer (a view counts, it holds its base); otherwise it fills a new buffer and swaps it in at once. So the
    variable always has its value before or after an update, and a reader keeps the value it read. Used on the
    session's loop thread only, hence without a lock.
    """

    __slots__ = ("_buffer", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._buffer: Array | None = None

    @property
    def is_initialized(self) -> bool:
        """Whether a value was assigned."""
        return self._buffer is not None

    def read(self, operation: str | None = None) -> Array:
        """Return the buffer; UninitializedVariableError when nothing was assigned yet (rule 22)."""
        if self._buffer is None:
            raise UninitializedVariableError(
                f"variable '{self.name}' was read before it was initialized",
                operation=operation,
                hint="run global_variables_initializer() first, or session.write_variables({...})",
            )
        return self._buffer

    @property
    def in_host(self) -> Array | None:
        """The buffer if it is an array in the host's memory."""
        return self._buffer if isinstance(self._buffer, np.ndarray) else None

    @property
    def label(self) -> str:
        """What it is called in errors."""
        return f"variable {self.name}"

    def arrays(self) -> Sequence[Array]:
        """Return the buffer, if a value was assigned."""
        return () if self._buffer is None else (self._buffer,)

    async def aclose(self) -> None:
        """Drop the value."""
        self._buffer = None

    def copied(self) -> Array:
        """Return a copy of the value; on another device the buffer, which is not written as long as somebody has it."""
        value = self.read()
        return value.copy() if isinstance(value, np.ndarray) else value

    def snapshot(self) -> Array | None:
        """Return a copy of the value, if there is one."""
        return self.copied() if self.is_initialized else None

    def restore(self, saved: Array) -> Callable[[], object]:
        """Make the buffer for a value, unless it can be copied into the one that is there."""
        return functools.partial(self.store, saved, self.made_for(saved))

    def move(self, old: Array, new: Any) -> None:
        """Hold a copy of the buffer in its place, in another memory, unless it was written since."""
        if self._buffer is old:
            self._buffer = new

    def assign(self, value: Any) -> Array:
        """Take a copy of `value` as the new value, and return it."""
        array = value if hasattr(value, "shape") else np.asarray(value)
        return self.store(array, self.made_for(array))

    def made_for(self, array: Array) -> Array | None:
        """Return the new buffer that assigning takes, a copy of the array; None if it can be done in place."""
        fits = self._buffer is not None and self._buffer.shape == array.shape and self._buffer.dtype == array.dtype
        fits = fits and isinstance(self._buffer, np.ndarray) == isinstance(array, (np.ndarray, np.generic))
        return None if fits and sys.getrefcount(self._buffer) == _ALONE else _copied(array)

    def store(self, array: Array, made: Array | None) -> Array:
        """Assign an array, for which `made_for` has made what it takes."""
        if made is not None:
            return self._write(made, lambda buffer: None)
        return self._write(self._buffer, lambda buffer: np.copyto(buffer, array))  # type: ignore[arg-type]

    def combine(self, function: np.ufunc, value: Any, operation: str | None = None) -> Array:
        """Replace the value by ``function(value now, value)``; OpError when the shapes differ."""
        shape, got = self.read(operation).shape, _shape_of(value)
        if shape != got:
            raise OpError(
                f"an update of variable '{self.name}' has another shape",
                wanted=shape,
                got=got,
                operation=operation,
                hint="reduce or broadcast the update to the variable's shape",
            )
        if sys.getrefcount(self._buffer) == _ALONE:
            return self._write(self._buffer, lambda buffer: function(buffer, value, out=buffer))  # type: ignore[arg-type]
        old = self.read()
        return self._write(np.empty_like(old, order="C"), lambda buffer: function(old, value, out=buffer))

    def scatter(
        self, change: Callable[[Array, Any, Any], Any], indices: Any, updates: Any, operation: str | None = None
    ) -> Array:
        """Apply ``change(buffer, indices, updates)`` to rows of the value; OpError when an index is out of range."""
        self._check_rows(self.read(operation).shape, np.asarray(indices), _shape_of(updates), operation)
        alone = sys.getrefcount(self._buffer) == _ALONE
        buffer = self.read() if alone else self.read().copy()
        return self._write(buffer, lambda buffer: change(buffer, indices, updates))

    def _check_rows(
        self, shape: tuple[int, ...], indices: Array, updates: tuple[int, ...], operation: str | None
    ) -> None:
        outside = indices[(indices < 0) | (indices >= shape[0])] if shape and indices.size else indices[:0]
        if not shape or outside.size:
            raise OpError(
                f"a row index of variable '{self.name}' is out of range",
                wanted=f"0 to {shape[0] - 1}" if shape else "a variable of rank 1 or more",
                got=outside.ravel()[:3].tolist(),
                operation=operation,
                hint="fetch the indices; rows count from 0 and negative numbers are not allowed",
            )
        if updates not in ((), indices.shape + shape[1:]):
            raise OpError(
                f"updates of rows of variable '{self.name}' have another shape",
                wanted=indices.shape + shape[1:],
                got=updates,
                operation=operation,
                hint="give one row of updates for each index",
            )

    def _write(self, buffer: Array, fill: Callable[[Array], Any]) -> Array:
        if isinstance(buffer, np.ndarray):
            buffer.flags.writeable = True
        try:
            fill(buffer)
        finally:
            if isinstance(buffer, np.ndarray):
                buffer.flags.writeable = False
        self._buffer = buffer
        return buffer


def _copied(array: Any) -> Array:
    """Return a copy in the memory that the array is in; its rows follow each other."""
    return np.array(array, order="C") if isinstance(array, (np.ndarray, np.generic)) else array.copy()


def _shape_of(value: Any) -> tuple[int, ...]:
    return value.shape if hasattr(value, "shape") else np.shape(value)


def slots_of(resources: Resources, names: Iterable[str]) -> list[VariableSlot]:
    """Return the slots of variables in a session, each made when first asked for."""
    return [resources.get_or_create(CONTAINER, name, VariableSlot) for name in names]


def write_slots(resources: Resources, arrays: Mapping[str, Array]) -> None:
    """Assign copies of arrays by name, which must fit (see `fitting`): all, or none if there is no memory."""
    changes = [slot.restore(arrays[slot.name]) for slot in slots_of(resources, arrays)]
    for change in changes:
        change()


def fitting(values: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Array]:
    """Return values as arrays that fit the variables of their names.

    Parameters
    ----------
    values : mapping of str to array-like
    variables : mapping of str to Variable
        The graph's variables by name: their dtype and shape say what fits.

    Raises
    ------
    GraphError, DtypeError, ShapeError
        If a name is not known, or a value does not fit its variable.
    """
    return {name: _fitting(name, value, variables) for name, value in values.items()}


def _fitting(name: str, value: Any, variables: Mapping[str, Any]) -> Array:
    if name not in variables:
        raise no_such_variable(name, variables)
    variable = variables[name]
    array = as_array(value, variable.dtype)
    if not variable.shape.includes(Shape(array.shape)):
        raise ShapeError(
            f"a value does not fit variable '{name}'",
            wanted=variable.shape,
            got=Shape(array.shape),
            operation=variable.op,
            hint="reshape the value, or make the variable with shape=None dimensions",
        )
    return array


def no_such_variable(name: object, known: Iterable[str]) -> GraphError:
    """Return the error about a name that is none of the known variables'."""
    return GraphError(
        "the graph has no variable of this name",
        wanted=", ".join(known) or "none",
        got=name,
        hint="use the names that read_variables gives",
    )


def variable_key(handle: Tensor) -> tuple[str, str] | None:
    """Return what reads and writes of a variable are in order by; None for a handle that came by hand-made ways."""
    return (CONTAINER, handle.op.attrs["shared_name"]) if handle.op.type == "VariableHandle" else None


def _ordered(op: Operation) -> tuple[str, str] | None:
    return variable_key(op.inputs[0]) if op.attrs.get("ordered", True) else None


_STATE = NotDifferentiable("it changes state; gradients flow through the values that variables are read as")


def _handle(xp: Any, context: KernelContext, *, shared_name: str, **_: Any) -> VariableSlot:
    return context.step.resources.get_or_create(CONTAINER, shared_name, VariableSlot)


define(
    "VariableHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "dtype": REQUIRED, "shape": Shape(None)},
    shape=lambda op: SCALAR,
    kernel=_handle,
    gradient=NotDifferentiable("a handle has no inputs; a variable's gradient is the cotangent of its handle"),
    effects=Effect.READS,
    outlives_step=True,
)

define(
    "ReadVariable",
    "handle: resource -> value: @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None)},
    shape=lambda op: Shape(op.attrs["shape"]),
    sparse_gradient=True,
    kernel=lambda xp, context, slot, **_: slot.read(context.operation),
    gradient=lambda op, g: [g],
    effects=Effect.READS,
    ordered=_ordered,
)

define(
    "IsInitialized",
    "handle: resource -> result: host bool",
    shape=lambda op: SCALAR,
    kernel=lambda xp, context, slot: np.bool_(slot.is_initialized),
    gradient=NotDifferentiable("its result is a bool"),
    effects=Effect.READS,
    ordered=_ordered,
)


def _assign(xp: Any, context: KernelContext, slot: VariableSlot, value: Any, *, shape: Shape, **_: Any) -> Array:
    if not shape.includes(Shape(_shape_of(value))):
        raise OpError(
            f"variable '{slot.name}' was assigned a value of another shape",
            wanted=shape,
            got=Shape(_shape_of(value)),
            operation=context.operation,
            hint="reshape the value, or make the variable with shape=None dimensions",
        )
    return slot.assign(value)


define(
    "AssignVariable",
    "handle: resource, value: T -> result: T",
    attrs={"shape": Shape(None), "ordered": True},
    shape=lambda op: Shape(op.attrs["shape"]).merge(op.inputs[1].shape),
    kernel=_assign,
    result_is_input=1,
    gradient=_STATE,
    effects=Effect.WRITES,
    ordered=_ordered,
)


def _state_shape(op: Operation) -> Shape:
    return Shape(op.attrs["shape"])


def _define_update(type: str, function: np.ufunc) -> None:
    define(
        type,
        "handle: resource, value: T -> result: T",
        where={"T": dtypes.NUMERIC},
        attrs={"ordered": True},
        shape=same_as(1),
        kernel=lambda xp, context, slot, value, **_: slot.combine(function, value, context.operation),
        gradient=_STATE,
        effects=Effect.WRITES,
        ordered=_ordered,
    )


_define_update("AssignAddVariable", np.add)
_define_update("AssignSubVariable", np.subtract)


Change = Callable[[Any, Array, Any, Any], Any]


def _define_scatter(type: str, allowed: tuple[dtypes.DType, ...], change: Change) -> None:
    def kernel(xp: Any, context: KernelContext, slot: VariableSlot, indices: Any, updates: Any, **_: Any) -> Array:
        def put(buffer: Array, indices: Any, updates: Any) -> Any:
            return change(xp, buffer, xp.asarray(indices), updates)

        return slot.scatter(put, indices, updates, context.operation)

    define(
        type,
        "handle: resource, indices: host I, updates: T -> result: T",
        where={"I": dtypes.INDEX, "T": allowed},
        attrs={"shape": Shape(None), "ordered": True},
        shape=_state_shape,
        kernel=kernel,
        gradient=_STATE,
        effects=Effect.WRITES,
        ordered=_ordered,
    )


def _set_rows(xp: Any, buffer: Array, indices: Any, updates: Any) -> None:
    buffer[indices] = updates


_define_scatter("ScatterUpdate", dtypes.VALUES, _set_rows)
_define_scatter("ScatterAdd", dtypes.NUMERIC, add_at)
_define_scatter("ScatterSub", dtypes.NUMERIC, functools.partial(add_at, function="subtract"))
