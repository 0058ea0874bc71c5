"""Variables: state outliving steps, kept by a session in a slot for each variable of the graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ....base import dtypes
from ....base.array_like import UnreadArray
from ....base.errors import OpError, UninitializedVariableError
from ....base.resources import Resource
from ....base.shapes import SCALAR, Shape
from ....base.turns import Turns
from ....ir.definition import REQUIRED, NotDifferentiable, define, definition_of
from ....ir.operation import Operation
from ....ir.rules.gradients import TakesSlices
from ....ir.rules.ordering import Ordered, ReturnsInput
from ....ir.rules.placing import OutlivesStep
from ....ir.tensor import Tensor
from ....ir.traits import Effect
from ....kernels.core.continuation import Continuation
from ...support import copies
from ...support.array_library import add_at
from ...support.common import same_as
from ...support.context import KernelContext, LongCall, Resources, has_succeeded, until_ended

Array = np.ndarray[Any, Any]
CONTAINER = "variables"  # container of variables in snapshots

Change = Callable[[Array | None, bool], Array]

_ROW_BY_ROW = 4  # time of scattering rows relative to copying them
# `sys.getrefcount(self._buffer)` of a buffer that only the slot holds: the slot's reference and the argument's.
_ALONE = 2


class VariableSlot(Resource):
    """Value of a variable in a session.

    A reader holds the buffer itself, read-only. An update writes in place only if the slot alone holds the buffer (a
    view counts, because it holds its base); otherwise the update fills a new buffer and swaps it in at once. A long
    update runs in a thread, while other reads and updates wait for their turns. So the variable always has its value
    before or after an update, and readers keep the value they read. Used on the session's loop thread only.

    Attributes
    ----------
    turns : Turns
        The holder of the turn alone reads or changes the value.
    """

    turns: Turns
    is_plain = True

    __slots__ = ("_buffer", "name", "turns")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self._buffer: Array | None = None
        self.turns = Turns()

    @property
    def is_initialized(self) -> bool:
        """True if a value was assigned."""
        return self._buffer is not None

    def read(self, operation: str | None = None) -> Array:
        """Return the buffer; UninitializedVariableError if no value was assigned yet (rule 22)."""
        return self._require_initialized(self._buffer, operation)

    def _require_initialized(self, buffer: Array | None, operation: str | None = None) -> Array:
        """Return `buffer`; UninitializedVariableError for None."""
        if buffer is None:
            raise UninitializedVariableError(
                f"variable '{self.name}' was read before it was initialized",
                operation=operation,
                hint="run global_variables_initializer() first, or session.write_variables({...})",
            )
        return buffer

    def read_for(self, context: KernelContext) -> Array | Awaitable[Any]:
        """Return the buffer, or an awaitable of the buffer while an update is running."""
        return self._read_later(context.operation) if self.turns.taken else self.read(context.operation)

    async def _read_later(self, operation: str) -> Continuation:
        async with self.turns.turn():
            return Continuation(functools.partial(self._require_initialized, self._buffer, operation))

    @property
    def in_host(self) -> Array | None:
        """The buffer if in host memory, else None."""
        return self._buffer if isinstance(self._buffer, np.ndarray) else None

    @property
    def label(self) -> str:
        """Label in error messages."""
        return f"variable {self.name}"

    def arrays(self) -> Sequence[Array]:
        """Return the buffer, if a value was assigned."""
        return () if self._buffer is None else (self._buffer,)

    async def aclose(self) -> None:
        """Drop the value."""
        self._buffer = None

    def snapshot(self) -> Array | None:
        """Return the buffer, if any; updates do not write to a buffer held by a snapshot."""
        return self._buffer

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return the function to assign a value; its new buffer, if any, is made now (an UnreadArray is read)."""
        return functools.partial(self.store, saved, self.made_for(saved))

    def move(self, old: Array, new: Any) -> None:
        """Replace the buffer `old` by its copy in another memory, unless the variable was written since."""
        if self._buffer is old:
            self._buffer = new

    def assign(self, value: Any, context: KernelContext | None = None) -> Any:
        """Assign a copy of `value`; return the new buffer or an awaitable (see `_update_value`)."""
        array = value if hasattr(value, "shape") else np.asarray(value)

        def fill_or_copy(buffer: Array | None, alone: bool) -> Array:
            return (
                _fill_buffer(buffer, array)
                if alone and _can_copy_into(buffer, array)
                else _freeze_buffer(_contiguous_copy(array))
            )

        return self._update_value(fill_or_copy, array.nbytes, context)

    def combine(self, function: np.ufunc, value: Any, context: KernelContext | None = None) -> Any:
        """Replace the value by ``function(old, value)``; OpError if the shapes differ."""
        operation = None if context is None else context.operation

        def combine_values(buffer: Array | None, alone: bool) -> Array:
            old = self._require_initialized(buffer, operation)
            self._check_shape(old.shape, _shape_of(value), operation)
            # In place if nobody else holds the buffer, else into a new one: readers keep their value.
            return _write_exclusively(
                old if alone else np.empty_like(old, order="C"), lambda out: function(old, value, out=out)
            )

        return self._update_value(combine_values, getattr(value, "nbytes", 0), context)

    def scatter(
        self,
        put: Callable[[Array, Any, Any], Any],
        indices: Any,
        updates: Any,
        context: KernelContext | None = None,
        by_vectors: bool = False,
    ) -> Any:
        """Apply ``put(buffer, indices, updates)`` to rows of the value; OpError if an index is out of range.

        With `by_vectors` indices are vectors naming elements or blocks, and `put` checks them before writing.
        """
        operation = None if context is None else context.operation

        def change_rows(buffer: Array | None, alone: bool) -> Array:
            old = self._require_initialized(buffer, operation)
            if not by_vectors:
                self._check_rows(old.shape, np.asarray(indices), _shape_of(updates), operation)
            return _write_exclusively(old if alone else old.copy(), lambda out: put(out, indices, updates))

        # In bytes whose copy takes as long; the number only decides whether the update runs in a thread.
        touched = _ROW_BY_ROW * (np.size(indices) * 8 + getattr(updates, "nbytes", 0))
        # A buffer with readers is copied as a whole before its rows are changed.
        copied = 0 if self._buffer is None or self._is_alone() else self._buffer.nbytes
        return self._update_value(change_rows, touched + copied, context)

    def _update_value(self, change: Change, nbytes: int, context: KernelContext | None) -> Any:
        """Replace the value by ``change(buffer, alone)``, now or after the pending updates.

        Parameters
        ----------
        change : callable
            Returns the new buffer: the old one, written in place, if the slot alone holds it (`alone`).
        nbytes : int
            Bytes read or written by the update; a thread makes large updates.
        context : KernelContext, optional
            Provides the threads; without a context the update runs now.

        Returns
        -------
        numpy.ndarray or awaitable
            The new buffer, or an awaitable.
        """
        calls = None if context is None else context.step.long_calls
        # While another update is running a short one waits for its turn too, so that updates keep their order.
        if context is not None and calls is not None and (nbytes >= copies.LARGE or self.turns.taken):
            return self._update_in_thread(context.step.later(change))
        if self.turns.taken:
            # Tried again after the wait: by then readers may hold the buffer, or further updates may be pending.
            return self._update_later(change, nbytes, context)
        alone = self._is_alone()  # before the next line, which refers to the buffer too
        self._buffer = change(self._buffer, alone)
        return self._buffer

    def _is_alone(self) -> bool:
        return sys.getrefcount(self._buffer) == _ALONE

    async def _update_in_thread(self, call: Callable[..., LongCall]) -> Continuation:
        """Run an update in a thread in its turn; a started update ends before a cancelled step does."""
        async with self.turns.turn():
            # Counted before the call, whose argument refers to the buffer too.
            alone = self._is_alone()
            running = call(self._buffer, alone)
            try:
                await until_ended(running)
                made = running.result()
            finally:
                # Also of a cancelled step: the thread may have written in place, so its update counts.
                if has_succeeded(running):
                    self._buffer = running.result()
                del running  # the traceback of its error refers to this frame
        return Continuation(lambda: made)

    async def _update_later(self, change: Change, nbytes: int, context: KernelContext | None) -> Continuation:
        """Wait for the pending updates, then try again."""
        async with self.turns.turn():
            return Continuation(functools.partial(self._update_value, change, nbytes, context))

    def made_for(self, array: Array) -> Array | None:
        """Return the new buffer for an assignment, a copy of the array; None to write the old buffer in place."""
        # Called before any slot changes, so that several variables are assigned together or not at all: a large copy is
        # made here, a small one by `store`. Without memory for a copy `store` overwrites the buffer, which cannot fail.
        in_place = self._is_alone() and _can_copy_into(self._buffer, array)
        if in_place and not copies.is_large(array):
            return None
        try:
            return _contiguous_copy(array)
        except MemoryError:
            if in_place:
                return None
            raise

    def store(self, array: Array, made: Array | None) -> Array:
        """Assign an array, with the buffer returned by `made_for`."""
        self._buffer = _freeze_buffer(made) if made is not None else _fill_buffer(self._buffer, array)
        return self._buffer

    def _check_shape(self, shape: tuple[int, ...], got: tuple[int, ...], operation: str | None) -> None:
        """Refuse an update of another shape than the variable's."""
        if shape != got:
            raise OpError(
                f"an update of variable '{self.name}' has another shape",
                wanted=shape,
                got=got,
                operation=operation,
                hint="reduce or broadcast the update to the variable's shape",
            )

    def _check_rows(
        self, shape: tuple[int, ...], indices: Array, updates: tuple[int, ...], operation: str | None
    ) -> None:
        """Refuse row indices out of range, and updates of another shape than their rows."""
        outside = indices[(indices < 0) | (indices >= shape[0])] if shape and indices.size else indices[:0]
        # A scalar variable has no rows.
        if not shape or outside.size:
            raise OpError(
                f"a row index of variable '{self.name}' is out of range",
                wanted=f"0 to {shape[0] - 1}" if shape else "a variable of rank 1 or more",
                got=outside.ravel()[:3].tolist(),
                operation=operation,
                hint="fetch the indices; rows count from 0 and negative numbers are not allowed",
            )
        # A scalar update goes to all rows.
        if updates not in ((), indices.shape + shape[1:]):
            raise OpError(
                f"updates of rows of variable '{self.name}' have another shape",
                wanted=indices.shape + shape[1:],
                got=updates,
                operation=operation,
                hint="give one row of updates for each index",
            )


def _can_copy_into(buffer: Array | None, array: Array) -> bool:
    """Return True if an array can be copied into a buffer."""
    if buffer is None or isinstance(array, UnreadArray):
        return False
    same = buffer.shape == array.shape and buffer.dtype == array.dtype
    # Both on the host or both on a device: `np.copyto` does not cross between memories.
    return same and isinstance(buffer, np.ndarray) == isinstance(array, (np.ndarray, np.generic))


def _fill_buffer(buffer: Any, array: Array) -> Array:
    return _write_exclusively(buffer, lambda buffer: np.copyto(buffer, array))


def _freeze_buffer(buffer: Array) -> Array:
    return _write_exclusively(buffer, lambda buffer: None)


def _write_exclusively(buffer: Array, fill: Callable[[Array], Any]) -> Array:
    """Fill a buffer without other writers; afterwards it is read-only."""
    # Readers hold the buffer itself; the flag makes their writes an error. CuPy has no such flag.
    if isinstance(buffer, np.ndarray):
        buffer.flags.writeable = True
    try:
        fill(buffer)
    finally:
        if isinstance(buffer, np.ndarray):
            buffer.flags.writeable = False
    return buffer


def _contiguous_copy(array: Any) -> Array:
    """Return a C-contiguous copy in the memory of the array."""
    return np.array(array, order="C") if isinstance(array, (np.ndarray, np.generic)) else array.copy()


def _shape_of(value: Any) -> tuple[int, ...]:
    return value.shape if hasattr(value, "shape") else np.shape(value)


def slots_of(resources: Resources, names: Iterable[str]) -> list[VariableSlot]:
    """Return the slots of variables in a session, each made on first use."""
    return [resources.get_or_create(CONTAINER, name, VariableSlot) for name in names]


def prepare_slots(slots: Iterable[VariableSlot], arrays: Mapping[str, Array]) -> Callable[[], None]:
    """Prepare the assignment of arrays by name, which must fit (see `fitting`); return the assigning function."""
    # All buffers are made before the first assignment, so that an error leaves every variable as it was.
    changes = [slot.restore(arrays[slot.name]) for slot in slots]

    def apply_changes() -> None:
        for each in changes:
            each()

    return apply_changes


def updates_variable(type: str) -> bool:
    """Return True if operations of a type change a variable."""
    definition = definition_of(type)
    return uses_variable(type) and Effect.WRITES in definition.effects


def uses_variable(type: str) -> bool:
    """Return True if operations of a type read or change a variable."""
    ordered = definition_of(type).rule(Ordered)
    return ordered is not None and ordered.key is _order_key


def variable_key(handle: Tensor) -> tuple[str, str] | None:
    """Return the key ordering reads and writes of a variable; None for a handle not made by VariableHandle."""
    return (CONTAINER, handle.op.attrs["shared_name"]) if handle.op.type == "VariableHandle" else None


def _order_key(op: Operation) -> tuple[str, str] | None:
    return variable_key(op.inputs[0]) if op.attrs.get("ordered", True) else None


_STATE = NotDifferentiable("it changes state; gradients flow through the values that variables are read as")


def _variable_handle(xp: Any, context: KernelContext, *, shared_name: str, **_: Any) -> VariableSlot:
    return context.step.resources.get_or_create(CONTAINER, shared_name, VariableSlot)


define(
    "VariableHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "dtype": REQUIRED, "shape": Shape(None)},
    shape=lambda op: SCALAR,
    kernel=_variable_handle,
    gradient=NotDifferentiable("a handle has no inputs; a variable's gradient is the cotangent of its handle"),
    effects=Effect.READS,
    rules=[OutlivesStep()],
)

define(
    "ReadVariable",
    "handle: resource -> value: @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None)},
    shape=lambda op: Shape(op.attrs["shape"]),
    rules=[TakesSlices(), Ordered(_order_key)],
    kernel=lambda xp, context, slot, **_: slot.read_for(context),
    gradient=lambda op, g: [g],
    effects=Effect.READS,
)

define(
    "IsInitialized",
    "handle: resource -> result: host bool",
    shape=lambda op: SCALAR,
    kernel=lambda xp, context, slot: np.bool_(slot.is_initialized),
    gradient=NotDifferentiable("its result is a bool"),
    effects=Effect.READS,
    rules=[Ordered(_order_key)],
)


def _compute_assign(xp: Any, context: KernelContext, slot: VariableSlot, value: Any, *, shape: Shape, **_: Any) -> Any:
    """Assign a value; OpError if its shape does not fit the declared shape."""
    if not shape.includes(Shape(_shape_of(value))):
        raise OpError(
            f"variable '{slot.name}' was assigned a value of another shape",
            wanted=shape,
            got=Shape(_shape_of(value)),
            operation=context.operation,
            hint="reshape the value, or make the variable with shape=None dimensions",
        )
    return slot.assign(value, context)


define(
    "AssignVariable",
    "handle: resource, value: T -> result: T",
    attrs={"shape": Shape(None), "ordered": True},
    shape=lambda op: Shape(op.attrs["shape"]).merge(op.inputs[1].shape),
    kernel=_compute_assign,
    rules=[ReturnsInput(1), Ordered(_order_key)],
    gradient=_STATE,
    effects=Effect.WRITES,
)


def _state_shape(op: Operation) -> Shape:
    return Shape(op.attrs["shape"])


def _define_update(type: str, function: np.ufunc) -> None:
    """Declare the operation `type`, which combines a variable with a value of the same shape."""
    define(
        type,
        "handle: resource, value: T -> result: T",
        where={"T": dtypes.NUMERIC},
        attrs={"ordered": True},
        shape=same_as(1),
        kernel=lambda xp, context, slot, value, **_: slot.combine(function, value, context),
        gradient=_STATE,
        effects=Effect.WRITES,
        rules=[Ordered(_order_key)],
    )


_define_update("AssignAddVariable", np.add)
_define_update("AssignSubVariable", np.subtract)


def define_scatter(
    type: str,
    allowed: tuple[dtypes.DType, ...],
    change: Callable[[Any, Array, Any, Any], Any],
    by_vectors: bool = False,
) -> None:
    """Declare the operation `type`, which updates a variable, of `allowed` dtypes, at indices.

    Parameters
    ----------
    change : callable
        ``change(xp, buffer, indices, updates)`` writes to the buffer.
    by_vectors : bool
        Whether indices are vectors naming elements or blocks (checked by `change`), instead of row numbers.
    """

    def scatter_rows(xp: Any, context: KernelContext, slot: VariableSlot, indices: Any, updates: Any, **_: Any) -> Any:
        def put_rows(buffer: Array, indices: Any, updates: Any) -> Any:
            return change(xp, buffer, xp.asarray(indices), updates)

        return slot.scatter(put_rows, indices, updates, context, by_vectors)

    define(
        type,
        "handle: resource, indices: host I, updates: T -> result: T",
        where={"I": dtypes.INDEX, "T": allowed},
        attrs={"shape": Shape(None), "ordered": True},
        shape=_state_shape,
        kernel=scatter_rows,
        gradient=_STATE,
        effects=Effect.WRITES,
        rules=[Ordered(_order_key)],
    )


def _set_rows(xp: Any, buffer: Array, indices: Any, updates: Any) -> None:
    buffer[indices] = updates


define_scatter("ScatterUpdate", dtypes.VALUES, _set_rows)
define_scatter("ScatterAdd", dtypes.NUMERIC, add_at)
define_scatter("ScatterSub", dtypes.NUMERIC, functools.partial(add_at, function="subtract"))
