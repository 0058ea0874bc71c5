"""The gradient of a Cond: a Cond on the same predicate (seed 000, section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtypes import resource, series
from ..base.errors import GraphError
from ..ir import scopes
from ..ir.build import apply, constant
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.structured import Extra, extras, make_cond, new_region, num_results, save_maybe
from ..ir.tensor import Tensor
from ..ops.common import shape_of, zeros_like
from ..ops.slices import IndexedSlices
from .backward import RULES, Backward, Cotangents
from .cotangents import Lazy, Maybe, Slot, add_up, densify
from .mirror import Mirror


def cond_gradient(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    """Build the gradient of a Cond, and contribute to what its branches capture."""
    pred = scopes.current_region().resolve(op.inputs[0])
    first = num_results(op)
    results = [cotangents.sum(t) for t in op.outputs[:first]]
    saved = [(e, cotangents.take(t)) for e, t in zip(extras(op), op.outputs[first:], strict=True)]
    regions = [new_region(f"gradient of the {r.role}") for r in op.regions]
    inner = [_branch(walk, op, i, region, results, saved) for i, region in enumerate(regions)]
    gradient = _CondGradient(walk, op, regions, inner)
    gradient.build(pred)
    gradient.contribute(cotangents)


def _branch(
    walk: Backward, op: Operation, i: int, region: Region, results: Sequence[Any], saved: Sequence[tuple[Extra, Any]]
) -> Cotangents:
    forward = op.regions[i]
    Mirror(region, forward)
    inner = Cotangents()
    with scopes.inside(region):
        for tensor, cotangent in zip(forward.results, results, strict=True):
            if cotangent is not None:
                walk.contribute(inner, tensor, cotangent)
        for extra, contributions in saved:
            if extra.branch == i and extra.value is not None:
                for contribution in contributions:
                    walk.contribute(inner, extra.value, contribution)
        walk.walk(forward.operations, inner)
    inner.parts = {t: c for t, c in inner.parts.items() if t.region is not forward}
    return inner


class _CondGradient:
    """Brings the cotangents of captures out of the branches of the gradient."""

    def __init__(self, walk: Backward, op: Operation, regions: list[Region], inner: list[Cotangents]) -> None:
        self.walk = walk
        self.op = op
        self.regions = regions
        self.inner = inner
        captures = dict.fromkeys(t for branch in inner for t in branch.parts)
        self.tokens = [t for t in captures if any(self._is_token(b.parts.get(t, ())) for b in inner)]
        self.values = [t for t in captures if t not in self.tokens]
        self.sparse: set[Tensor] = set()

    @staticmethod
    def _is_token(contributions: Sequence[Any]) -> bool:
        return any(isinstance(c, (Slot, *Lazy)) for c in contributions)

    def build(self, pred: Tensor) -> None:
        """Make the Cond whose results are the captures' cotangents."""
        sums = [self._sums(branch, region) for branch, region in zip(self.inner, self.regions, strict=True)]
        for k, tensor in enumerate(self.values):
            column = [s[k] for s in sums]
            if any(isinstance(c, IndexedSlices) for c in column) and all(
                c is None or isinstance(c, IndexedSlices) for c in column
            ):
                self.sparse.add(tensor)
            for region, cotangent in zip(self.regions, column, strict=True):
                with scopes.inside(region):
                    region.results += self._leaves(tensor, cotangent, column)
        shapes = [self._shape(i) for i in range(len(self.regions[0].results))]
        self.gradient = make_cond(pred, self.regions, shapes, name=f"{self.op.name}_grad", source=self.op.source)

    def _sums(self, branch: Cotangents, region: Region) -> list[Any]:
        with scopes.inside(region):
            return [branch.sum(t) for t in self.values]

    def _leaves(self, tensor: Tensor, cotangent: Any, column: Sequence[Any]) -> list[Tensor]:
        if tensor in self.sparse:
            slices = cotangent or _no_slices(next(c for c in column if c is not None))
            return [slices.values, apply("Cast", slices.indices, dtype="int64")]
        return [zeros_for(tensor) if cotangent is None else densify(cotangent)]

    def _shape(self, i: int) -> Any:
        shape = self.regions[0].results[i].shape
        for region in self.regions[1:]:
            shape = shape.relax(region.results[i].shape)
        return shape

    def contribute(self, cotangents: Cotangents) -> None:
        """Hand the results, and what is live in one branch only, to the captures."""
        outputs = iter(self.gradient.outputs)
        for tensor in self.values:
            if tensor in self.sparse:
                slices = IndexedSlices(next(outputs), next(outputs), shape_of_value(tensor))
                self.walk.contribute(cotangents, tensor, slices)
            else:
                self.walk.contribute(cotangents, tensor, next(outputs))
        for tensor in self.tokens:
            for i, branch in enumerate(self.inner):
                for contribution in branch.take(tensor):
                    self.walk.contribute(cotangents, tensor, self._outside(i, tensor, contribution))

    def _outside(self, i: int, tensor: Tensor, contribution: Any) -> Any:
        if isinstance(contribution, Slot):
            return Slot(self._save(i, contribution.index), self._save(i, contribution.value))
        if isinstance(contribution, Maybe):
            return Maybe(self._save(i, contribution.value))
        if isinstance(contribution, Lazy):
            return contribution
        with scopes.inside(self.regions[i]):
            return Maybe(self._save(i, densify(add_up([contribution], tensor))))

    def _save(self, i: int, tensor: Tensor) -> Tensor:
        if scopes.current_region().sees(tensor):
            return tensor
        return save_maybe(self.gradient, i, tensor)


def _no_slices(like: IndexedSlices) -> IndexedSlices:
    shape = like.values.shape
    if shape.rank is None or not shape[1:].is_fully_known:
        raise GraphError(
            "a sparse cotangent of unknown row shape can not leave a cond", hint="set the shape of the table"
        )
    rows = constant([0, *shape[1:].as_tuple()], "int32")
    values = apply("Fill", rows, apply("Cast", constant(0), dtype=like.values.dtype))
    return IndexedSlices(values, apply("Fill", constant([0], "int32"), constant(0, "int64")), like.dense_shape)


def zeros_for(tensor: Tensor) -> Tensor:
    """Return a zero cotangent for a capture: of a variable's handle, zeros of the variable's shape."""
    if tensor.dtype is series:
        return apply("SeriesEmpty")  # type: ignore[no-any-return]
    if tensor.dtype is not resource:
        return zeros_like(tensor)
    dims = shape_of_value(tensor)
    return apply("Fill", dims, apply("Cast", constant(0), dtype=tensor.op.attrs["dtype"]))  # type: ignore[no-any-return]


def shape_of_value(tensor: Tensor) -> Tensor:
    """Return the run-time shape of a tensor, or of the variable a handle stands for."""
    if tensor.dtype is not resource:
        return shape_of(tensor)
    shape = tensor.op.attrs.get("shape")
    if tensor.op.type != "VariableHandle" or shape is None or not shape.is_fully_known:
        raise GraphError(
            "the gradient of a variable of unknown shape can not leave a branch or loop", operation=tensor.op,
            hint="give the variable a fully known shape",
        )  # fmt: skip
    return constant(list(shape.as_tuple()), "int32")


RULES["Cond"] = cond_gradient
