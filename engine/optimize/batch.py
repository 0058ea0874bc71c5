"""Sums of products made in a loop: save the factors and multiply them all at once after the loop.

The gradient of weights used in a loop is a sum over iterations, ``total + a.T @ b``. The sum over iterations is the
product of all rows of `a` with all rows of `b`, one large product instead of many small ones, and nothing as large
as the weights moves in the loop. The same holds for a bias: ``total + sum of the rows of b``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from ..base import dtypes
from ..base.shapes import Shape
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rewrite import Program, copy_program
from ..ir.structured import Extra, extras, num_results, save_series
from ..ir.tensor import Tensor
from .substitute import substitute


def batch_products(program: Program) -> Program:
    """Return the program with running sums of products moved behind their loops; the given one is used up."""
    moved: dict[Tensor, Tensor] = {}
    joined: dict[Tensor, Tensor] = {}
    for op in [op for op in program.graph.root.walk() if op.type == "While"]:
        for index, term in running_sums(op):
            total = _after(op, term, joined)
            if total is not None:
                moved[op.outputs[index]] = _plus(op.inputs[index], total)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def running_sums(op: Operation) -> Iterator[tuple[int, Tensor]]:
    """Yield the loop variables that only have a term added to in each iteration, and that term; products first."""
    found = []
    cond, body = op.regions
    kept = Counter([*body.results, *(t for e in extras(op) for t in (e.value, e.index))])
    for i in range(num_results(op)):
        before, total = body.params[i], body.results[i]
        terms = [t for t in total.op.inputs if t is not before]
        once = kept[total] == 1 and not kept[before] and not total._consumers and not cond.params[i]._consumers
        if total.op.type != "Add" or total.op.control_inputs or len(terms) != 1:
            continue
        if not once or list(before._consumers) != [total.op]:
            continue
        term = terms[0]
        if term.region is body and len(term._consumers) == 1 and not kept[term] and not term.op.control_inputs:
            found.append((i, term))
    return iter(sorted(found, key=lambda each: each[1].op.type != "MatMul"))


def _after(op: Operation, term: Tensor, joined: dict[Tensor, Tensor]) -> Tensor | None:
    """Return the sum of a term over all iterations, computed behind the loop, or None if that does not pay."""
    made = term.op
    if made.type == "MatMul" and made.attrs["transpose_a"] and not made.attrs["transpose_b"]:
        rows = _Rows(op, made.inputs, _bytes(term) // 4)
        return _emit(op.region, "MatMul", rows.joined(joined), term, made) if rows.pay() else None
    if made.type == "SumTo" and _sums_rows(made):
        rows = _Rows(op, made.inputs[:1], 0)
        shape = _constant(op.region, term.shape.as_tuple())
        return _emit(op.region, "SumTo", [*rows.joined(joined), shape], term, made) if rows.pay() else None
    return None


def _sums_rows(op: Operation) -> bool:
    x, y = op.inputs[0].shape, op.outputs[0].shape
    return x.is_fully_known and y.is_fully_known and x.rank == 2 and y.rank == 1 and x.as_tuple()[1:] == y.as_tuple()


def _bytes(tensor: Tensor) -> int:
    known = tensor.shape.num_elements
    return 0 if known is None or tensor.dtype.numpy is None else known * tensor.dtype.numpy.itemsize


class _Rows:
    """Factors of a product in the body of a loop, to be joined behind it.

    Parameters
    ----------
    op : Operation
        The While.
    factors : list of Tensor
        Matrices of the body; live in every iteration, since the loop goes on.
    allowed : int
        How many bytes may be saved in each iteration that are not saved yet.
    """

    def __init__(self, op: Operation, factors: list[Tensor], allowed: int) -> None:
        self.op = op
        self.factors = factors
        self.allowed = allowed
        reads = [t.op for t in factors if _reads_all(op, t)]
        self.index = reads[0].inputs[1] if reads else self._known_index()

    def pay(self) -> bool:
        """Whether joining them is possible and saves more than it costs."""
        for t in self.factors:
            fits = t.region is self.op.regions[1] and t.shape.is_fully_known and t.rank == 2
            if not fits or t.dtype not in (dtypes.float32, dtypes.float64):
                return False
        new = [t for t in self.factors if not self._is_saved(t)]
        return sum(map(_bytes, new)) <= self.allowed

    def joined(self, known: dict[Tensor, Tensor]) -> list[Tensor]:
        """Return all rows of each factor, in the order of one index; `known` are those of series joined before."""
        found = [(self._series(t), t) for t in self.factors]
        for series, factor in found:
            if series not in known:
                known[series] = _joined(self.op.region, series, factor)
        return [known[series] for series, _ in found]

    def _series(self, factor: Tensor) -> Tensor:
        if _reads_all(self.op, factor) and factor.op.inputs[1] is self.index:
            return factor.op.inputs[0]
        return save_series(self.op, factor, self.index)

    def _is_saved(self, factor: Tensor) -> bool:
        if _reads_all(self.op, factor):
            return factor.op.inputs[1] is self.index
        return any(e.value is factor and e.index is self.index for e in extras(self.op))

    def _known_index(self) -> Tensor | None:
        saved = [e for e in extras(self.op) if e.kind == "series" and e.value in self.factors]
        return saved[0].index if saved else None


def _reads_all(op: Operation, tensor: Tensor) -> bool:
    """Whether a tensor of the body of `op` is what another loop saved, read back slot by slot, every slot once."""
    read = tensor.op
    if read.type != "SeriesRead" or read.attrs["maybe"] or read.region is not op.regions[1]:
        return False
    writer = read.inputs[0].op
    if writer.type != "While" or writer.region is not op.region:
        return False
    return _extra(read.inputs[0]).index is None and _counts_down(op, read.inputs[1], writer)


def _counts_down(op: Operation, index: Tensor, writer: Operation) -> bool:
    """Whether a tensor of the body of `op` counts from the last iteration of `writer` to its first."""
    body = op.regions[1]
    if index.op.type != "Sub" or index not in body.results:
        return False
    count, one = index.op.inputs
    if one.op.type != "Const" or one.op.attrs["value"] != 1 or count is not body.params[body.results.index(index)]:
        return False
    start = op.inputs[body.params.index(count)]
    return start.op is writer and start.index >= num_results(writer) and _extra(start).kind == "trip"


def _extra(output: Tensor) -> Extra:
    return extras(output.op)[output.index - num_results(output.op)]


def _joined(region: Region, series: Tensor, like: Tensor) -> Tensor:
    dims = like.shape.as_tuple()
    shape = Shape([None, *dims[1:]])
    name = region.graph.unique_name(f"{like.op.name}/rows")
    op = Operation(
        region, "SeriesConcat", name, [series, _constant(region, dims)],
        [(like.dtype, shape)], attrs={"dtype": like.dtype, "shape": like.shape}, source=like.op.source,
    )  # fmt: skip
    return op.outputs[0]


def _plus(start: Tensor, total: Tensor) -> Tensor:
    return total if _is_zero(start.op) else _emit(total.region, "Add", [start, total], total)


def _is_zero(op: Operation) -> bool:
    if op.type == "Fill":
        return _is_zero(op.inputs[1].op)
    return op.type == "Const" and not op.attrs["value"].any()


def _constant(region: Region, dims: Sequence[int]) -> Tensor:
    value = np.asarray(dims, np.int32)
    op = Operation(
        region, "Const", region.graph.unique_name("shape"), (), [(dtypes.int32, Shape(value.shape))],
        attrs={"value": value},
    )  # fmt: skip
    return op.outputs[0]


def _emit(region: Region, type: str, inputs: list[Tensor], output: Tensor, like: Operation | None = None) -> Tensor:
    like = like or output.op
    attrs = dict(like.attrs) if like.type == type else {}
    op = Operation(
        region, type, region.graph.unique_name(f"{like.name}/batched"), inputs, [(output.dtype, output.shape)],
        attrs=attrs, device=like.device, source=like.source,
    )  # fmt: skip
    return op.outputs[0]
