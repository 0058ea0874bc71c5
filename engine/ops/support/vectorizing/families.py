"""Vectorization of the large families: elementwise operations, operations along axes, stacks of matrices, images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....base.dtypes import int64
from ....base.errors import GraphError
from ....base.settings import WINDOW
from ....base.shapes import SCALAR, Shape
from ....ir import scopes
from ....ir.apply import apply, build, constant
from ....ir.definition import host_inputs
from ....ir.examples import Examples, join_sizes, known_rank, multiply_sizes, sizes_of
from ....ir.structured import make_while, new_region, save_series
from ....ir.tensor import Tensor

Rule = Callable[[Examples], Sequence[Tensor]]


def raise_rank(x: Tensor, ones: int) -> Tensor:
    """Return a batched tensor with dimensions of size 1 after the dimension of the examples."""
    if not ones:
        return x
    dims = x.shape.dims
    unknown = [i for i, d in enumerate(dims) if d is None]
    if unknown in ([], [0]) and 0 not in dims:
        return _reshape(x, [-1 if unknown else dims[0], *[1] * ones, *dims[1:]])
    for _ in range(ones):
        x = apply("ExpandDims", x, axis=1)
    return x


def _reshape(x: Tensor, dims: Sequence[int | None]) -> Tensor:
    return apply("Reshape", x, constant(np.asarray(dims, np.int32)))


def merge_first(x: Tensor) -> Tensor:
    """Return a batched tensor with the examples' dimension merged into the first dimension of an example."""
    sizes = sizes_of(x)
    return apply("Reshape", x, join_sizes(multiply_sizes(sizes[:2]), sizes[2:]))


def split_first(x: Tensor, examples: Examples, size: Tensor) -> Tensor:
    """Undo `merge_first`, for examples with a first dimension of `size`."""
    return apply("Reshape", x, join_sizes(examples.count, size, sizes_of(x)[1:]))


def pointwise(examples: Examples) -> Sequence[Tensor]:
    """Vectorize an elementwise operation: operands are broadcast as for a single example."""
    ranks = [known_rank(t) for t in examples.op.inputs]
    rank = max(ranks, default=0)
    triples = zip(examples.operands, ranks, examples.batched, strict=True)
    return examples.copy(*(raise_rank(x, rank - r) if b else x for x, r, b in triples))


def spread_pointwise(examples: Examples) -> Sequence[Tensor]:
    """Vectorize an elementwise operation whose operands have equal shapes, without broadcasting."""
    return examples.copy(*(examples.spread(i) for i in range(len(examples.operands))))


def shift_axis(axis: Any, rank: int) -> Any:
    """Return axes of an example as axes of all examples."""
    if axis is None:
        return tuple(range(1, rank + 1))
    if isinstance(axis, tuple | list | range):
        return tuple(a % rank + 1 for a in axis)
    return axis % rank + 1


def _operands(examples: Examples) -> list[Tensor]:
    """Return arrays for all examples, and operands in host memory, which are the same for all examples."""
    hosts = host_inputs(examples.op)
    return [examples.shared(i) if host else examples.spread(i) for i, host in enumerate(hosts)]


def along(attr: str = "axis", new_axes: int = 0) -> Rule:
    """Return the rule of an operation along axes of its arrays; `new_axes` counts axes added by the operation."""

    def vectorize_along(examples: Examples) -> Sequence[Tensor]:
        axis = shift_axis(examples.op.attrs[attr], examples.rank() + new_axes)
        return examples.copy(*_operands(examples), **{attr: axis})

    return vectorize_along


def leading(examples: Examples) -> Sequence[Tensor]:
    """Vectorize an operation on the last dimensions of its arrays, such as stacks of matrices."""
    return examples.copy(*_operands(examples))


def leading_with_host(examples: Examples) -> Sequence[Tensor]:
    """Vectorize an operation on the last dimensions of its operands, in host memory too."""
    return examples.copy(*(examples.spread(i) for i in range(len(examples.operands))))


def merged(*arrays: int, sizes: Sequence[int] = ()) -> Rule:
    """Return the rule of an operation on each element of the first dimension alone, such as images.

    Parameters
    ----------
    *arrays : int
        Numbers of the operands, with this dimension, as all outputs have; others must be shared.
    sizes : sequence of int
        Numbers of operands with shapes of such arrays.
    """

    def vectorize_merged(examples: Examples) -> Sequence[Tensor]:
        first = examples.spread(arrays[0])
        size = sizes_of(first)[1]
        operands = []
        for i in range(len(examples.operands)):
            if i in arrays:
                operands.append(merge_first(examples.spread(i)))
            elif i in sizes:
                shape = examples.shared(i)
                merged_size = apply("Mul", examples.count, size)
                operands.append(join_sizes(merged_size, shape[1:]))
            else:
                operands.append(examples.shared(i))
        return [split_first(y, examples, size) for y in examples.copy(*operands)]

    return vectorize_merged


def merged_or_one_by_one(*arrays: int, sizes: Sequence[int] = ()) -> Rule:
    """Return the rule of `merged`, or of a loop over the examples where another operand differs between them."""
    at_once = merged(*arrays, sizes=sizes)

    def vectorize_merged_or_each(examples: Examples) -> Sequence[Tensor]:
        others = (b for i, b in enumerate(examples.batched) if i not in arrays)
        return one_by_one(examples) if any(others) else at_once(examples)

    return vectorize_merged_or_each


def one_by_one(examples: Examples) -> Sequence[Tensor]:
    """Vectorize any operation by a loop over the examples, whose results must have equal shapes."""
    op = examples.op
    if not op.outputs:
        raise GraphError(f"{op.type} has no result to stack", operation=op, source=op.source, hint="use map_fn")
    cond, body = new_region("loop predicate"), new_region("loop body")
    for region in (cond, body):
        region.add_param(int64, SCALAR, f"{op.name}/example")
    count = apply("Cast", examples.count, dtype=int64)
    with scopes.inside(cond):
        cond.results.append(cond.params[0] < count)
    with scopes.inside(body):
        index = body.params[0]
        pairs = zip(examples.operands, examples.batched, strict=True)
        operands = [apply("Gather", x, index, axis=0) if batched else x for x, batched in pairs]
        outputs = build(op.type, operands, **op.own_attrs).outputs
        for made, old in zip(outputs, op.outputs, strict=True):
            made.shape = made.shape.merge(old.shape)
        rows = [apply("ExpandDims", y, axis=0) for y in outputs]
        body.results.append(index + 1)
    loop = make_while(
        [constant(0, int64)],
        cond,
        body,
        name=op.name,
        source=op.source,
        parallel_iterations=WINDOW,
        back_prop=True,
        swap_memory=False,
    )
    return [_stack_rows(save_series(loop, row), row) for row in rows]


def _stack_rows(series: Tensor, row: Tensor) -> Tensor:
    """Return the rows saved by a loop over the examples; without examples unknown sizes are 0."""
    sizes = [0, *((d or 0) for d in (() if row.rank is None else row.shape.dims[1:]))]
    shape: Shape = row.shape
    return apply("SeriesConcat", series, constant(np.asarray(sizes, np.int32)), dtype=row.dtype, shape=shape)
