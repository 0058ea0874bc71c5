"""Vectorization of a Cond: kept for a common predicate, all branches and a choice for predicates of each example."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..base.dtypes import bool_
from ..base.errors import VectorizationError
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.examples import batched_shape, join_sizes, known_rank
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.structured import make_cond, new_region, num_results, save_maybe, saved_outputs
from ..ir.tensor import Tensor
from ..ops.support.vectorizing.families import raise_rank
from .safety import captured, effects_of, is_total
from .walk import RULES, Vectorization


def select(mask: Tensor, yes: Tensor, no: Tensor, rank: int) -> Tensor:
    """Choose between two values of rank `rank` for each example."""
    return apply("Where", raise_rank(mask, rank), yes, no)


def vectorize_cond(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Build a Cond for all examples."""
    if op.inputs[0] in walk.batched:
        return _build_all_branches(walk, op)
    regions = [_build_branch(walk, op, region) for region in op.regions]
    first = num_results(op)
    shapes = [batched_shape(t.shape, walk.count) if t in walk.batched else t.shape for t in op.outputs[:first]]
    attrs = {"recompute": True} if op.attrs.get("recompute") else {}
    name = op.name.rpartition("/")[2]
    made = make_cond(walk.value(op.inputs[0]), regions, shapes, name=name, source=op.source, **attrs)
    ordinary = list(made.outputs)
    for extra in saved_outputs(op):
        assert extra.value is not None
        ordinary.append(save_maybe(made, extra.branch, walk.inner_value(extra.value)))
    return ordinary


def _build_branch(walk: Vectorization, op: Operation, region: Region) -> Region:
    """Build a branch whose results differ between examples where the Cond's do."""
    made = new_region(region.role)
    with scopes.inside(made):
        walk.walk(region)
        for result, output in zip(region.results, op.outputs, strict=False):
            made.results.append(walk.spread_value(result) if output in walk.batched else walk.value(result))
    return made


def _build_all_branches(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Build all branches, and choose the results of each example."""
    effect = effects_of(op.regions)
    if effect is not None:
        raise VectorizationError(
            f"{effect.type}, which has effects, is in a branch that only some examples take",
            wanted="branches that only compute, or a predicate that all examples share",
            got=effect.name,
            operation=effect,
            source=effect.source,
            hint="move it out of the branch, or use map_fn",
        )
    taken = _find_taken(walk, op)
    saved: dict[int, Tensor] = {}
    branches = [_BranchForSome(walk, op, i, taken[i], saved).results() for i in range(len(op.regions))]
    outputs = list(branches[-1])
    for i in range(len(branches) - 2, -1, -1):
        for k, old in enumerate(op.outputs[: num_results(op)]):
            outputs[k] = select(taken[i], branches[i][k], outputs[k], known_rank(old))
    return [*outputs, *(saved[k] for k in range(len(saved_outputs(op))))]


def _find_taken(walk: Vectorization, op: Operation) -> list[Tensor]:
    """Return for each branch which examples take it; the last branch of several is the default."""
    pred = walk.value(op.inputs[0])
    if pred.dtype is bool_:
        return [apply("LogicalNot", pred), pred]
    number = len(op.regions)
    taken = [apply("Equal", pred, constant(np.asarray(i, pred.dtype.numpy))) for i in range(number - 1)]
    rest = constant(np.asarray(True)) if not taken else apply("LogicalNot", taken[0])
    for each in taken[1:]:
        rest = apply("LogicalAnd", rest, apply("LogicalNot", each))
    return [*taken, rest]


class _BranchForSome:
    """A branch taken by some examples; the others compute with the values of an example among these."""

    def __init__(
        self, walk: Vectorization, op: Operation, number: int, taken: Tensor, saved: dict[int, Tensor]
    ) -> None:
        self.walk = walk
        self.op = op
        self.number = number
        self.region = op.regions[number]
        self.taken = taken
        self.saved = saved

    def results(self) -> list[Tensor]:
        """Build the branch and return its results for all examples."""
        if is_total(self.region):
            results = self._build()
            self._save(lambda value: value)
            return results
        shapes = [t.shape for t in self.region.results]
        if not all(shape.is_fully_known for shape in shapes):
            with self.walk.replaced(replace_others(self.walk, self.taken, captured([self.region]))):
                results = self._build()
            self._save(lambda value: value)
            return results
        return self._build_if_any()

    def _build(self) -> list[Tensor]:
        self.walk.walk(self.region)
        return [self.walk.spread_value(t) for t in self.region.results]

    def _build_if_any(self) -> list[Tensor]:
        """Build the branch in a Cond, which runs the branch if any example takes this branch."""
        nobody, some = new_region("branch without examples"), new_region(self.region.role)
        with (
            scopes.inside(some),
            self.walk.replaced(replace_others(self.walk, self.taken, captured([self.region]))),
        ):
            some.results = self._build()
        with scopes.inside(nobody):
            nobody.results = [_zeros_like(t, self.walk.count) for t in self.region.results]
        shapes = [batched_shape(t.shape, self.walk.count) for t in self.region.results]
        taken = apply("Any", self.taken, axis=None, keepdims=False)
        name = self.op.name.rpartition("/")[2]
        made = make_cond(taken, [nobody, some], shapes, name=name, source=self.op.source)
        results = list(made.outputs)
        self._save(lambda value: save_maybe(made, 1, value))
        return results

    def _save(self, save: Callable[[Tensor], Tensor]) -> None:
        for k, extra in enumerate(saved_outputs(self.op)):
            if extra.branch == self.number:
                assert extra.value is not None
                self.saved[k] = save(self.walk.inner_value(extra.value))


def _zeros_like(like: Tensor, count: Tensor) -> Tensor:
    zero = constant(np.zeros((), like.dtype.numpy))
    return apply("Fill", join_sizes(count, *like.shape.as_tuple()), zero)


def replace_others(walk: Vectorization, taken: Tensor, tensors: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    """Return replacements of tensors in which the first example of `taken` stands for the others."""
    moving = [t for t in tensors if t in walk.batched and t.dtype.is_value]
    if not moving:
        return {}
    first = first_of(taken)
    return {t: take_place(taken, first, walk.value(t), known_rank(t)) for t in moving}


def first_of(taken: Tensor) -> Tensor:
    """Return the number of the first example for which a predicate holds; 0 for none."""
    return apply("ArgMax", apply("Cast", taken, dtype="int32"), axis=0)


def take_place(taken: Tensor, first: Tensor, value: Tensor, rank: int) -> Tensor:
    """Return values in which example `first` stands for the examples not in `taken`."""
    return select(taken, value, apply("Gather", value, first, axis=0), rank)


RULES["Cond"] = vectorize_cond
