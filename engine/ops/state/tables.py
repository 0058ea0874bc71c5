"""Lookup tables: values by keys, strings or integers; users build them with the classes of `frontend/state/tables.py`.

A table with constant content never changes, is filled on the first lookup of a step, and is in no snapshot.
A table changed by steps begins empty, is in snapshots and checkpoints, and its operations run in building order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base.deferred import Deferred
from ...base.dtypes import DType
from ...base.errors import GraphError
from ...base.shapes import SCALAR, Shape
from ...base.turns import Turns
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.rules.ordering import Ordered
from ...ir.rules.placing import OutlivesStep
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.memory.contexts import outside
from ..support.common import infer_nothing, infer_scalar
from ..support.context import KernelContext, until_ended
from ..support.shared import SharedKind, SharedResource

Array = np.ndarray[Any, Any]
CONTAINER = "tables"
_LONG = 20_000  # keys from which on a lookup, some milliseconds, would hold up the event loop


class Content(Protocol):
    """The content of a table that never changes."""

    def read(self, key: DType, value: DType) -> tuple[list[Any], Array]:
        """Return keys and values; callable from any thread."""
        ...


class TableSpec(NamedTuple):
    """Description of a table; all users of a shared name must agree on it.

    Attributes
    ----------
    key, value : DType
    shape : tuple of int
        Shape of a value.
    default : object
        Value of a missing key: nested lists.
    content : Content or None
        None for a table changed by steps.
    """

    key: DType
    value: DType
    shape: tuple[int, ...]
    default: Any
    content: Content | None


class TableStorage(SharedResource):
    """The keys and values of a table in a session.

    Row `i` of `values` is the value of ``keys[i]``; `rows` has the row of each key. `values` may have rows to spare.

    Attributes
    ----------
    name : str
    spec : TableSpec
    turns : Turns
        Taken while a thread reads or changes the table.
    """

    __slots__ = ("_default", "_is_filled", "_keys", "_rows", "_values", "name", "spec", "turns")
    turns: Turns

    def __init__(self, name: str, spec: TableSpec) -> None:
        self.name: str = name
        self.spec: TableSpec = spec
        self.turns = Turns()
        self._is_filled = spec.content is None
        self._default: Array = np.asarray(spec.default, spec.value.numpy)
        self._put_in([], np.empty((0, *spec.shape), spec.value.numpy))

    def _put_in(self, keys: list[Any], values: Array) -> None:
        self._keys, self._values = keys, values
        self._rows: dict[Any, int] = {key: row for row, key in enumerate(keys)}

    @property
    def label(self) -> str:
        """Label in error messages."""
        return f"table {self.name}"

    @property
    def is_filled(self) -> bool:
        """True if the content has been read; always true of a table changed by steps."""
        return self._is_filled

    def arrays(self) -> Iterable[Any]:
        """Return the array of the values."""
        return (self._values,)

    def fill(self) -> None:
        """Read the content, once.

        Raises
        ------
        ValueError
            If a key has two values.
        OSError
            If a file cannot be read.
        """
        if self._is_filled:
            return
        assert self.spec.content is not None
        keys, values = self.spec.content.read(self.spec.key, self.spec.value)
        rows: dict[Any, int] = {}
        for row, key in enumerate(keys):
            # A repeated key with the same value is harmless, and stored once.
            first = rows.setdefault(key, row)
            if first != row and not np.array_equal(values[first], values[row]):
                raise ValueError(
                    f"table {self.name} has two values for key {key!r}: {values[first]!r} in row {first} and "
                    f"{values[row]!r} in row {row}"
                )
        if len(rows) < len(keys):
            keys, values = list(rows), values[list(rows.values())]
        self._put_in(keys, values)
        # Set last: from here on the event loop looks keys up without a turn.
        self._is_filled = True

    def find(self, keys: Array) -> Array:
        """Return the value of each key, the default for missing keys."""
        rows = self._rows_of(keys)
        # Row -1, of missing keys, reads the last row for now; an empty table has no last row.
        found = self._values[rows] if self._keys else np.empty((len(rows), *self.spec.shape), self._values.dtype)
        found[rows < 0] = self._default
        return found.reshape((*keys.shape, *self.spec.shape))

    def _rows_of(self, keys: Array) -> Array:
        rows = self._rows
        return np.fromiter((rows.get(key, -1) for key in keys.ravel().tolist()), np.intp, keys.size)

    def insert(self, keys: Array, values: Array) -> None:
        """Insert values; of a repeated key the last value counts.

        Raises
        ------
        ValueError
            If there is not a value for each key.
        """
        if values.shape != (*keys.shape, *self.spec.shape):
            raise ValueError(
                f"table {self.name} wants a value for each key: keys of shape {list(keys.shape)} have values of shape "
                f"{[*keys.shape, *self.spec.shape]}, got {list(values.shape)}"
            )
        # A dict keeps the last place of a repeated key.
        last = {key: place for place, key in enumerate(keys.ravel().tolist())}
        new = [key for key in last if key not in self._rows]
        self._make_room(len(new))
        for key in new:
            self._rows[key] = len(self._keys)
            self._keys.append(key)
        if last:
            flat = values.reshape((keys.size, *self.spec.shape))
            self._values[[self._rows[key] for key in last]] = flat[list(last.values())]

    def _make_room(self, count: int) -> None:
        wanted, there = len(self._keys) + count, len(self._values)
        if wanted > there:
            # Doubling, so that inserting n keys one by one copies at most 2 n rows.
            grown = np.empty((max(wanted, 2 * there), *self.spec.shape), self._values.dtype)
            grown[: len(self._keys)] = self._values[: len(self._keys)]
            self._values = grown

    def remove(self, keys: Array) -> None:
        """Remove keys, ignoring missing ones; the last row moves to the place of each removed key."""
        for key in keys.ravel().tolist():
            row = self._rows.pop(key, None)
            if row is None:
                continue
            last = self._keys.pop()
            if row < len(self._keys):
                self._keys[row], self._values[row] = last, self._values[len(self._keys)]
                self._rows[last] = row

    def export(self) -> tuple[Array, Array]:
        """Return all keys and their values, as copies."""
        return np.array(self._keys, self.spec.key.numpy), self._values[: len(self._keys)].copy()

    def __len__(self) -> int:
        return len(self._keys)

    def snapshot(self) -> Any:
        """Return keys and values; None for a constant table."""
        if self.spec.content is not None:
            return None
        # The list is copied now; the user of the snapshot converts it to an array, perhaps in a thread.
        keys, dtype = list(self._keys), self.spec.key.numpy
        return {
            "keys": Deferred(lambda: {"array": np.array(keys, dtype)}),
            "values": self._values[: len(keys)].copy(),
        }

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a function replacing all keys and values by saved ones; GraphError for unsuitable ones."""
        values_are = f"{self.spec.value}{list(self.spec.shape)}"
        try:
            # Deferred in a snapshot of this process, an array in one read from a file.
            held = saved["keys"]
            keys = (held.make() if isinstance(held, Deferred) else held)["array"]
            values = saved["values"]
            wanted = (self.spec.key.numpy, self.spec.value.numpy, (len(keys), *self.spec.shape))
            got: Any = (keys.dtype, values.dtype, values.shape)
            listed = keys.tolist()
            fits = self.spec.content is None and got == wanted and keys.ndim == 1 and len(set(listed)) == len(listed)
        except (KeyError, TypeError, AttributeError, IndexError):
            fits, got = False, str(saved)[:100]
        if not fits:
            raise GraphError(
                f"this is no state of {self.label}",
                wanted=f"different keys of {self.spec.key}, and a value of {values_are} for each",
                got=got,
                hint="restore into a table of the same dtypes and shape of values",
            )
        # A copy: later changes of the table must not reach the caller's snapshot.
        return partial(self._put_in, listed, values.copy())


def _act_on_table(context: KernelContext, table: TableStorage, size: int, function: Callable[[], Any]) -> Any:
    """Call a function on a table; a long call runs in a thread, in turn with others."""
    if context.step.threads is None:
        table.fill()
        return function()
    # Without a thread only if no earlier call is pending, so that calls keep their order.
    if table.is_filled and size <= _LONG and not table.turns.taken:
        return function()
    return AsyncResult(_act_later(context, table, size, function), lambda found: found)


async def _act_later(context: KernelContext, table: TableStorage, size: int, function: Callable[[], Any]) -> Any:
    """Call the function in its turn, in a thread if the call is long or the table is not filled yet."""
    async with table.turns.turn():
        # Asked again: an earlier turn may have filled the table.
        if table.is_filled and size <= _LONG:
            return function()

        def fill_and_act() -> Any:
            table.fill()
            return function()

        assert context.step.threads is not None
        call: Any = outside(context.step.threads, fill_and_act)
        # A cancelled step waits for its thread too: the next turn must not find the table in use.
        await until_ended(call)
        return call.result()


_TABLES = SharedKind(CONTAINER, TableStorage, "dtypes, default and content")


def _table_handle(xp: Any, context: KernelContext, *, shared_name: str, spec: TableSpec) -> TableStorage:
    """Return the session's table of a shared name; OpError if its description differs."""
    return _TABLES.get(context.step.resources, shared_name, spec, context.operation)


def _adopt_array(context: KernelContext, array: Array) -> Array:
    pool = context.step.contexts.pool
    return array if pool is None else pool.adopt(array)


def _find_keys(xp: Any, context: KernelContext, table: TableStorage, keys: Any, **_: Any) -> Any:
    keys = np.asarray(keys)
    return _act_on_table(context, table, keys.size, lambda: _adopt_array(context, table.find(keys)))


def _insert_keys(xp: Any, context: KernelContext, table: TableStorage, keys: Any, values: Any, **_: Any) -> Any:
    keys, values = np.asarray(keys), np.asarray(values)
    return _act_on_table(context, table, keys.size, lambda: table.insert(keys, values))


def _remove_keys(xp: Any, context: KernelContext, table: TableStorage, keys: Any, **_: Any) -> Any:
    keys = np.asarray(keys)
    return _act_on_table(context, table, keys.size, lambda: table.remove(keys))


def _count_keys(xp: Any, context: KernelContext, table: TableStorage, **_: Any) -> Any:
    return _act_on_table(context, table, 1, lambda: np.int64(len(table)))


def _export_table(xp: Any, context: KernelContext, table: TableStorage, **_: Any) -> Any:
    return _act_on_table(
        context, table, len(table), lambda: tuple(_adopt_array(context, each) for each in table.export())
    )


def _initialize_table(xp: Any, context: KernelContext, table: TableStorage, **_: Any) -> Any:
    return _act_on_table(context, table, 1, lambda: None)


def _found_shape(op: Operation) -> Shape:
    keys: Shape = op.inputs[1].shape
    return Shape(None) if keys.rank is None else Shape([*keys, *op.attrs["shape"]])


def _exported_shapes(op: Operation) -> Sequence[Shape]:
    return [Shape([None]), Shape([None, *op.attrs["shape"]])]


_REASON = NotDifferentiable("a table is looked up by discrete keys")
_ACCESS = Effect.READS | Effect.WAITS
_CHANGE = _ACCESS | Effect.WRITES

define(
    "TableHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "spec": REQUIRED},
    shape=lambda op: SCALAR,
    kernel=_table_handle,
    gradient=_REASON,
    effects=Effect.READS,
    rules=[OutlivesStep(from_outside=True)],
)

for _type, _signature, _attrs, _shape, _kernel, _effects in (
    (
        "TableFind",
        "handle: resource, keys: host any -> values: host @dtype",
        {"dtype": REQUIRED, "shape": ()},
        _found_shape,
        _find_keys,
        _ACCESS,
    ),
    ("TableInsert", "handle: resource, keys: host any, values: host any ->", {}, infer_nothing, _insert_keys, _CHANGE),
    ("TableRemove", "handle: resource, keys: host any ->", {}, infer_nothing, _remove_keys, _CHANGE),
    ("TableSize", "handle: resource -> size: host int64", {}, infer_scalar, _count_keys, _ACCESS),
    (
        "TableExport",
        "handle: resource -> keys: host @key_dtype, values: host @dtype",
        {"key_dtype": REQUIRED, "dtype": REQUIRED, "shape": ()},
        _exported_shapes,
        _export_table,
        _ACCESS,
    ),
    ("TableInitialize", "handle: resource ->", {}, infer_nothing, _initialize_table, _ACCESS),
):
    define(
        _type,
        _signature,
        attrs={"key": None, **_attrs},
        shape=_shape,
        kernel=_kernel,
        gradient=_REASON,
        effects=_effects,
        rules=[Ordered(lambda op: op.attrs["key"])],
    )
