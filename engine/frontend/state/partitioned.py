"""A variable in shards, each of which may be on a device of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.array_like import as_array
from ...base.dtypes import DType, as_dtype
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply, as_symbolic, constant, convert_to_tensor, scoped_name
from ...ir.entry import public
from ...ir.graph import Graph
from ...ir.misuse import refuses_misuse
from ...ir.operation import Operation
from ...ir.tensor import Operators, Tensor
from ...ops.control.assertions import assert_equal
from ...ops.control.weights import tensor_after_checks
from ...ops.support.common import shape_of
from .partitioners import Partitioner, known_dims
from .variables import Variable

DIV, MOD = "div", "mod"
PARTITIONED = "partitioned_variables"  # the collection of variables in shards


class PartitionedVariable(Operators):
    """A variable cut into shards along one dimension (Abadi et al., 2016, section 4.2).

    Each shard is a Variable, with its own name, device and value; training, saving and counting of variables need no
    special case for shards. `embedding_lookup` and the softmax losses read each shard on its device. As a tensor, a
    PartitionedVariable is all shards joined, on a single device.

    Parameters
    ----------
    initial_value : array-like, Tensor or callable
        The value of the whole, cut into the shards; or a callable, called with each shard's shape and returning the
        shard's initial value, so that the whole is never assembled.
    partitioner : callable
        ``partitioner(shape, dtype)`` returns the number of parts of each dimension, at most a single one above 1, as
        `fixed_size_partitioner` does.
    trainable : bool
        True to list the shards in ``trainable_variables()``.
    name : str, optional
        The shards are called ``name/part_0``, and so on.
    dtype : dtype-like, optional
        Dtype of a literal value; float32 by default for a callable.
    shape : sequence of int, optional
        Of the whole. Required with a callable.
    devices : sequence of str, optional
        Shard i is on ``devices[i % len(devices)]``. By default the surrounding scopes decide.
    partition_strategy : {'div', 'mod'}
        Assignment of rows to shards. 'div': consecutive rows, an additional row in each of the first shards if the
        division leaves a remainder. 'mod': of n shards, shard i has rows i, i + n, and so on; only for dimension 0.

    Attributes
    ----------
    shards : list of Variable
    axis : int
        The dimension cut into shards.
    rows : list of range
        Indices along `axis` in each shard.
    name : str
        Unique in the graph.
    dtype : DType
        Dtype of its values.
    shape : Shape
        Of the whole.
    op : Operation
        Computes the value of all shards before all updates except the initializers: the result of a fetch.
    partition_strategy : str

    Raises
    ------
    GraphError
        If the partitioner cuts two dimensions, or the strategy is unknown; if `shape` is missing for a callable.
    ShapeError
        If the shape is unknown, or differs from the value's.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     values, halves = np.arange(10.0).reshape(5, 2), tg.fixed_size_partitioner(2)
    ...     table = tg.PartitionedVariable(values, halves, name="table", devices=["/cpu:0", "/cpu:1"])
    ...     (rows,) = tg.gradients(tg.embedding_lookup(table, [4, 0]), table.shards[1])
    ...     init = tg.global_variables_initializer()
    >>> table.shards
    [<Variable table/part_0 float64[3,2]>, <Variable table/part_1 float64[2,2]>]
    >>> with tg.SyncSession(graph, devices=2) as session:
    ...     session.run(init)
    ...     session.run([table.as_tensor()[3], rows.indices])
    [array([6., 7.]), array([1], dtype=int32)]
    """

    _is_leaf = True
    if TYPE_CHECKING:

        def _fetched(self) -> Any: ...  # see `ir/typed.py`

    @refuses_misuse
    def __init__(
        self,
        initial_value: Any,
        partitioner: Partitioner,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        shape: Any = None,
        devices: Sequence[str] | None = None,
        partition_strategy: str = DIV,
    ) -> None:
        check_strategy(partition_strategy)
        # First, because dtype and shape of the whole may come from the value.
        whole = _convert_whole(initial_value, dtype, shape)
        self.partition_strategy: str = partition_strategy
        self.dtype: DType = as_dtype(dtype or "float32") if whole is None else as_dtype(whole.dtype)
        self.shape: Shape = Shape(known_dims(shape if whole is None else whole.shape))
        self.axis, count = _choose_axis(partitioner(self.shape, self.dtype), self.shape, partition_strategy)
        self.rows: list[range] = rows_of(self.shape[self.axis], count, partition_strategy)
        self.name: str = scoped_name(name or "PartitionedVariable")
        makers = [
            self._make_shard_initializer(initial_value if whole is None else None, whole, rows) for rows in self.rows
        ]
        # Devices are dealt out in turn: there may be fewer devices than shards, or more.
        places = [()] * count if devices is None else [(devices[i % len(devices)],) for i in range(count)]
        self.shards: list[Variable] = []
        for number, (make, place) in enumerate(zip(makers, places, strict=True)):
            # `self.name` contains the scopes already, so `part` must not be prefixed again.
            with scopes.within(device=scopes.current().device + place, name=""):
                part = f"{self.name}/part_{number}"
                self.shards.append(Variable(make, trainable=trainable, name=part, dtype=self.dtype))
        with scopes.within(region=self.graph.root, control_inputs=()):
            # In the root region: sessions fetch this operation, wherever the variable was made.
            self.op: Operation = self._join_parts([shard.op.outputs[0] for shard in self.shards]).op
        self.graph.collections.setdefault(PARTITIONED, []).append(self)

    def _make_shard_initializer(self, initialize: Any, whole: Any, rows: range) -> Callable[[], Any]:
        """Return a function without arguments that computes the initial value of the shard of `rows`."""
        # An initializer is called with a shard's shape, so that the whole never exists in memory.
        if initialize is not None:
            dims = self.shape.as_tuple()
            return lambda: initialize([*dims[: self.axis], len(rows), *dims[self.axis + 1 :]])
        return lambda: _take_rows(whole, self.axis, rows)

    @property
    def graph(self) -> Graph:
        """The variable's graph."""
        return self.shards[0].graph

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __iter__(self) -> Iterator[Variable]:  # type: ignore[override]
        """Return an iterator over the shards."""
        return iter(self.shards)

    def __len__(self) -> int:  # type: ignore[override]
        """Return the number of shards."""
        return len(self.shards)

    @public
    def as_tensor(self) -> Tensor:
        """Return all shards as a single tensor of the variable's shape and dtype, rows in order."""
        return self._join_parts([shard.value() for shard in self.shards])

    def _join_parts(self, parts: list[Tensor]) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        if self.partition_strategy == DIV:
            return apply("Concat", parts, axis=self.axis, name=self.name)
        # Rows of 'mod' shards interleave, so concatenation would permute them.
        places = [constant(np.arange(r.start, r.stop, r.step, dtype=np.int32)) for r in self.rows]
        return apply("DynamicStitch", places, parts, name=self.name)

    @public
    def assign(self, value: Any) -> list[Tensor]:
        """Replace the whole value by `value`, of the variable's dtype and shape, and return each shard's new value."""
        return self._update_shards("assign", value)

    @public
    def assign_add(self, delta: Any) -> list[Tensor]:
        """Add `delta`, of the variable's dtype and shape, and return the new value of each shard."""
        return self._update_shards("assign_add", delta)

    @public
    def assign_sub(self, delta: Any) -> list[Tensor]:
        """Subtract `delta`, of the variable's dtype and shape, and return the new value of each shard."""
        return self._update_shards("assign_sub", delta)

    def _update_shards(self, method: str, value: Any) -> list[Tensor]:
        """Cut a value into the parts of the shards and call a method of each shard with its part."""
        tensor = convert_to_tensor(value, self.dtype)
        if not self.shape.is_compatible_with(tensor.shape):
            raise _misfit_error(self.shape, tensor.shape)
        if not tensor.shape.is_fully_known:  # slices would silently drop the rows beyond the last shard's
            expected = constant(np.array(self.shape.as_tuple(), np.int32))
            tensor = tensor_after_checks(tensor, [assert_equal(shape_of(tensor), expected, "shape of the new value")])
            tensor.set_shape(self.shape)
        return [
            getattr(shard, method)(_take_rows(tensor, self.axis, rows))
            for shard, rows in zip(self.shards, self.rows, strict=True)
        ]

    def _as_tensor(self) -> Tensor:
        return self.as_tensor()

    def _as_graph_element(self) -> Tensor:
        return self.op.outputs[0]

    def __repr__(self) -> str:
        return f"<PartitionedVariable {self.name} {self.dtype}{self.shape} in {len(self)} shards>"


def check_strategy(strategy: str) -> None:
    """Raise GraphError for an unknown partition strategy."""
    if not isinstance(strategy, str) or strategy not in (DIV, MOD):
        raise GraphError(
            "no such partition strategy",
            wanted="'mod' or 'div'",
            got=repr(strategy),
            hint="'div' has rows that follow each other in a shard, 'mod' deals them out in turn",
        )


def rows_of(size: int, count: int, strategy: str) -> list[range]:
    """Return the rows of each of `count` shards of `size` rows."""
    if strategy == MOD:
        return [range(i, size, count) for i in range(count)]
    # The first `remainder` shards have an additional row.
    quotient, remainder = divmod(size, count)
    starts = [i * quotient + min(i, remainder) for i in range(count + 1)]
    return [range(a, b) for a, b in pairwise(starts)]


def _convert_whole(initial_value: Any, dtype: Any, shape: Any) -> Any:
    """Return the value of all shards, an array or a tensor; None if `initial_value` is called for each shard."""
    if callable(initial_value) and not isinstance(initial_value, Tensor):
        if shape is None:
            raise GraphError(
                "what makes the shards of a variable has to be told their shape",
                wanted="shape=, that of the whole",
                got="none",
                hint="PartitionedVariable(tg.zeros, partitioner, shape=[rows, width])",
            )
        return None
    # Arrays stay NumPy arrays, so that the graph has a constant for each shard, but none for the whole.
    known = convert_to_tensor(initial_value, dtype) if as_symbolic(initial_value) else None
    whole: Any = as_array(initial_value, None if dtype is None else as_dtype(dtype)) if known is None else known
    if shape is not None and not Shape(shape).is_compatible_with(Shape(whole.shape)):
        raise _misfit_error(Shape(shape), Shape(whole.shape))
    return whole


def _choose_axis(parts: Sequence[int], shape: Shape, strategy: str) -> tuple[int, int]:
    """Return the dimension to cut, and its number of parts."""
    counts = [int(n) for n in parts]
    if len(counts) != len(shape) or any(n < 1 for n in counts) or sum(n > 1 for n in counts) > 1:
        raise GraphError(
            "a variable is cut along one dimension",
            wanted=f"{len(shape)} numbers, one of which may be more than 1",
            got=counts,
            hint="use fixed_size_partitioner(num_shards, axis)",
        )
    # A partitioner may leave the variable whole: a single shard along dimension 0.
    axis = next((i for i, n in enumerate(counts) if n > 1), 0)
    if not counts:
        raise ShapeError(
            "a scalar cannot be cut into shards", wanted="rank 1 or more", got=shape, hint="make a Variable"
        )
    if strategy == MOD and axis:
        raise GraphError(
            "rows are dealt out in turn along dimension 0 only",
            wanted="a partitioner of axis 0",
            got=f"axis {axis}",
            hint="use partition_strategy='div'",
        )
    return axis, counts[axis]


def _take_rows(value: Any, axis: int, rows: range) -> Any:
    """Return some rows along an axis: a view of an array, a tensor of a tensor."""
    return value[(*[slice(None)] * axis, slice(rows.start, rows.stop, rows.step))]


def _misfit_error(wanted: Shape, got: Shape) -> ShapeError:
    return ShapeError(
        "the value does not fit a variable in shards",
        wanted=wanted,
        got=got,
        hint="the value is that of all shards together, in the order of rows",
    )
