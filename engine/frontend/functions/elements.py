"""Elements along the first dimension, in the order of a higher-order function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base import nest
from ...base.dtypes import DType
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ops.array.binning import searchsorted
from ...ops.array.concat import stack, unstack
from ...ops.array.gather import gather
from ...ops.array.sorting import argsort
from ...ops.math.casting import cast
from ...ops.sparse.sparse_tensor import SparseTensor
from ...ops.support.indexed_slices import IndexedSlices
from ..control.loops import while_loop
from ..control.scopes import control_dependencies
from ..state.tensor_array import TensorArray
from ..tracing.leaves import is_literal


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Arguments of a higher-order function for its loop, as those of `while_loop`."""

    parallel_iterations: int | str
    back_prop: bool
    swap_memory: bool
    checkpoint_every: int | None


class Elements:
    """The elements of a higher-order function: an array for each tensor of `elems`, in order or reversed."""

    def __init__(self, elems: Any, function: str, reverse: bool = False, from_first: bool = False) -> None:
        self.function = function
        self.reverse = reverse
        self.tensors: Any = as_leaves(elems, function)
        tensors = nest.flatten(self.tensors)
        self.count: int | Tensor = common_length(tensors, function)
        if from_first and isinstance(self.count, int) and self.count == 0:
            raise ShapeError(
                f"{function} was given no elements and no initializer",
                wanted="at least one element",
                got=0,
                hint="give it an initializer",
            )
        self.rows_given: list[Any] = tensors
        self.rows: list[Any] = [
            t if isinstance(t, SparseRows) else TensorArray(t.dtype, self.count).unstack(t) for t in tensors
        ]

    def index_of(self, k: Any) -> Any:
        """Return the index of the k-th element in the order of the loop."""
        return self.count - 1 - k if self.reverse else k

    def read(self, k: Any) -> Any:
        """Return the k-th element, in the structure of `elems`."""
        return nest.pack_as(self.tensors, [rows.read(self.index_of(k)) for rows in self.rows])

    def start(self, initializer: Any) -> tuple[int, Any]:
        """Return the number of the first element of the loop, and the accumulated value before the loop."""
        if initializer is not None:
            # Literals are kept, so that the body may still choose their dtype.
            return 0, nest.map_structure(
                lambda leaf: leaf if is_literal(leaf) else convert_to_tensor(leaf), initializer
            )
        return 1, self.read(0)

    def loop(
        self,
        step: Callable[..., Any],
        start: int,
        rest: tuple[Any, ...],
        options: LoopOptions,
    ) -> Any:
        """Run `step` for every element, beginning with number `start`."""
        return while_loop(
            lambda k, *_: k < self.count,
            step,
            (start, *rest),
            parallel_iterations=options.parallel_iterations,
            back_prop=options.back_prop,
            swap_memory=options.swap_memory,
            checkpoint_every=options.checkpoint_every,
        )


class SparseRows:
    """A sparse tensor as the rows along its first dimension, each a sparse tensor of rank lower by 1."""

    _is_leaf = True

    def __init__(self, sparse: SparseTensor) -> None:
        self.dtype: DType = sparse.values.dtype
        self.shape: Shape = sparse.shape
        self.rank: int | None = self.shape.rank
        self.op: Operation = sparse.values.op
        numbers = sparse.indices[:, 0]
        order = argsort(numbers, stable=True)
        self.length: Tensor = cast(sparse.dense_shape[0], "int32")
        self.indices: Tensor = gather(sparse.indices, order)[:, 1:]
        # Sorted once by row, so that reading a row is a binary search and a slice; stable, to preserve the entries'
        # order within each row.
        self.values: Tensor = gather(sparse.values, order)
        self.sizes: Tensor = sparse.dense_shape[1:]
        self._sorted = gather(numbers, order)

    def read(self, k: Any) -> SparseTensor:
        """Return row number `k`; entries keep their order in the whole tensor."""
        number = cast(convert_to_tensor(k), self._sorted.dtype)
        begin, end = unstack(searchsorted(self._sorted, stack([number, number + 1])), 2)
        return SparseTensor(self.indices[begin:end], self.values[begin:end], self.sizes)


def as_leaves(elems: Any, function: str) -> Any:
    """Return elements as a structure of tensors, and of sparse rows for `map_fn`."""
    if isinstance(elems, SparseTensor):
        if function != "map_fn":
            raise GraphError(
                f"{function} does not go through a SparseTensor",
                wanted="tensors",
                got=elems,
                hint="make it dense with sparse_tensor_to_dense; map_fn goes through its rows",
            )
        return SparseRows(elems)
    if isinstance(elems, IndexedSlices):
        return convert_to_tensor(elems)  # rows of the dense tensor, rather than the slices' parts
    parts = nest.children(elems)
    if parts is None:
        return convert_to_tensor(elems)
    return nest.rebuild_as(elems, [as_leaves(child, function) for _, child in parts])


def common_length(tensors: list[Tensor], function: str) -> int | Tensor:
    """Return the number of elements of `tensors`, checked during construction if known, else in the step.

    Errors name the `function` that goes through them.
    """
    if not tensors:
        raise GraphError(
            f"{function} was given nothing to go through",
            wanted="at least one tensor",
            got="none",
            hint="pass a tensor, or a structure with some",
        )
    for tensor in tensors:
        if tensor.rank == 0:
            raise ShapeError(
                f"{function} goes along the first dimension, and was given a scalar",
                wanted="rank 1 or more",
                got=tensor.shape,
                operation=tensor.op,
                hint="stack a list of scalars first",
            )
    known = {t.shape[0] for t in tensors} - {None}
    if len(known) > 1:
        raise ShapeError(
            f"{function} was given different numbers of elements",
            got=[t.shape for t in tensors],
            wanted="one first dimension",
            hint="slice the longer ones",
        )
    if not any(t.shape[0] is None for t in tensors):
        return int(known.pop())
    # The length of a sparse tensor is in its dense shape, the length of a tensor in its shape.
    return _checked_length([t.length if isinstance(t, SparseRows) else apply("Shape", t)[0] for t in tensors], function)


def _checked_length(lengths: list[Tensor], function: str) -> Tensor:
    same = [apply("Equal", n, lengths[0]) for n in lengths[1:]]
    message = f"{function} was given different numbers of elements"
    with control_dependencies([apply("Assert", s, lengths, message=message) for s in same]):
        return apply("Identity", lengths[0]) if same else lengths[0]
