"""Vectorization of a While.

With a common predicate the loop stays as built, and its loop variables are batched where they differ between examples.
With a predicate of each example, the loop runs until the predicate holds for no example; examples keep their values
once they are done.

Examples run the body with the others after they are done. So that the body neither fails nor has an infinite slope
there, they repeat their last iteration: next to the value of each loop variable the loop carries the value with which
the example last ran the body. In the gradient all repetitions but the last get cotangents of zero. Examples without an
iteration take the place of an example with some. Where the body is total (see `safety.py`), a choice after the body is
enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import bool_, int64
from ..base.errors import VectorizationError
from ..base.shapes import Shape
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.examples import batched_shape, join_sizes, known_rank, spread
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.structured import SavedOutput, make_while, new_region, num_results, save_series, saved_outputs, trip_count
from ..ir.tensor import Tensor
from .batched import is_ragged
from .conditionals import first_of, replace_others, select, take_place
from .safety import captured, draws, effects_of, is_total
from .walk import RULES, Vectorization


def vectorize_while(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Build a While for all examples."""
    return _RaggedLoop(walk, op).build() if is_ragged(walk.batched, op) else _build_common(walk, op)


def _loop_attributes(op: Operation) -> dict[str, Any]:
    return {key: value for key, value in op.own_attrs.items() if key not in ("saved_outputs", "dtypes")}


def _build_common(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Build a loop with a common number of iterations."""
    inits = [
        walk.spread_value(init) if output in walk.batched else walk.value(init)
        for init, output in zip(op.inputs, op.outputs, strict=False)
    ]
    regions = []
    for region in op.regions:
        made = new_region(region.role)
        for param in region.params:
            shape = batched_shape(param.shape, walk.count) if param in walk.batched else param.shape
            walk.set_value(param, add_param(made, param, shape))
        with scopes.inside(made):
            walk.walk(region)
            if region is op.regions[0]:
                made.results.append(walk.value(region.results[0]))
            else:
                pairs = zip(region.results, region.params, strict=True)
                made.results += [walk.spread_value(r) if p in walk.batched else walk.value(r) for r, p in pairs]
        regions.append(made)
    name = op.name.rpartition("/")[2]
    loop = make_while(inits, *regions, name=name, source=op.source, **_loop_attributes(op))
    ordinary = list(loop.outputs)
    return [*ordinary, *(_save_value(walk, loop, extra) for extra in saved_outputs(op))]


def _save_value(walk: Vectorization, loop: Operation, extra: SavedOutput, spreads: bool = False) -> Tensor:
    """Return the saved value of a loop for all examples; with `spreads` common values are repeated."""
    if extra.value is None:
        return trip_count(loop)
    if extra.index is not None and extra.index in walk.batched:
        raise nested_saving(loop)
    index = None if extra.index is None else walk.inner_value(extra.index)
    value = walk.inner_value(extra.value)
    if spreads and extra.value not in walk.batched and value.dtype.is_value:
        with scopes.inside(loop.regions[1]):
            value = spread(value, walk.count)
    return save_series(loop, value, index)


def nested_saving(op: Operation) -> VectorizationError:
    """Return the error for saved values of loops in loops, or of some iterations only."""
    return VectorizationError(
        "the gradient of a loop is vectorized whose number of iterations differs between examples, and which has loops "
        "or conditionals in its body, or checkpoint_every",
        wanted="a loop with the same number of iterations for all examples, or a gradient taken outside",
        got=op.name,
        operation=op,
        source=op.source,
        hint="vectorize the function first, and take the gradient of the sum of its results",
    )


def add_param(region: Region, like: Tensor, shape: Shape) -> Tensor:
    """Append a parameter in place of a parameter of the function."""
    param = region.add_param(like.dtype, shape, like.op.name)
    param.op.source = like.op.source
    param.op.note(label=like.op.notes.label)
    return param


class _RaggedLoop:
    """A loop left by examples at different iterations.

    Its variables are: which examples are active; the number of iterations of each, if saved; for each variable of
    the function its value, and for guarded loops the value with which the example last ran the body.
    """

    def __init__(self, walk: Vectorization, op: Operation) -> None:
        self.walk = walk
        self.op = op
        self.cond_of_one, self.body_of_one = op.regions
        self.number = num_results(op)
        self.moving: list[bool] = [op.outputs[i] in walk.batched for i in range(self.number)]
        self.guarded: bool = not is_total(*op.regions)
        self.repeats: bool = self.guarded and not draws(*op.regions)
        self.values: list[Tensor] = []  # the variables of the body
        self.counts: bool = any(extra.value is None for extra in saved_outputs(op))
        effect = effects_of(op.regions)
        if effect is not None:
            raise VectorizationError(
                f"{effect.type}, which has effects, is in a loop that examples leave at different iterations",
                wanted="a body that only computes, or a predicate that all examples share",
                got=effect.name,
                operation=effect,
                source=effect.source,
                hint="move it out of the loop, or use map_fn",
            )

    def build(self) -> Sequence[Tensor]:
        """Build the loop; return its results and saved values."""
        walk, op = self.walk, self.op
        pairs = list(zip(op.inputs, self.moving, strict=True))
        inits = [walk.spread_value(t) if moving else walk.value(t) for t, moving in pairs]
        active = self._predicate(inits)
        if not self.guarded:
            return self._build_loop(inits, active)
        first, starts = first_of(active), list(inits)
        for i, moving in enumerate(self.moving):
            if moving:
                starts[i] = take_place(active, first, inits[i], known_rank(op.outputs[i]))
        with walk.replaced(replace_others(walk, active, captured(op.regions))):
            outputs = self._build_loop(starts, active)
        for i, moving in enumerate(self.moving):
            if moving:
                outputs[i] = select(active, outputs[i], inits[i], known_rank(op.outputs[i]))
        return outputs

    def _predicate(self, values: Sequence[Tensor]) -> Tensor:
        """Build the predicate for some values of the loop variables in the current region."""
        for param, value in zip(self.cond_of_one.params, values, strict=True):
            self.walk.set_value(param, value)
        self.walk.walk(self.cond_of_one)
        return self.walk.spread_value(self.cond_of_one.results[0])

    def _build_loop(self, inits: list[Tensor], active: Tensor) -> list[Tensor]:
        """Build the While, and return the results of the function's loop and its saved values."""
        walk, op = self.walk, self.op
        cond, body = new_region("loop predicate"), new_region("loop body")
        starts = [active]
        flags = [
            region.add_param(bool_, batched_shape(Shape(()), walk.count), f"{op.name}/active")
            for region in (cond, body)
        ]
        if self.counts:
            starts.append(apply("Fill", join_sizes(walk.count), constant(np.int64(0))))
            count = [
                r.add_param(int64, batched_shape(Shape(()), walk.count), f"{op.name}/iterations") for r in (cond, body)
            ]
        values = self.values = self._add_variables(cond, body, inits, starts)
        kept = self._add_variables(cond, body, inits, starts, only_moving=True) if self.guarded else values
        with scopes.inside(cond):
            cond.results.append(apply("Any", flags[0], axis=None, keepdims=False))
        with scopes.inside(body):
            arguments = self._arguments(flags[1], values, kept)
            results = self._run_body(flags[1], arguments)
            body.results.append(apply("LogicalAnd", flags[1], self._predicate(results)))
            if self.counts:
                body.results.append(count[1] + apply("Cast", flags[1], dtype=int64))
            body.results += results
            if self.guarded:
                body.results += [a for a, moving in zip(arguments, self.moving, strict=True) if moving]
        name = op.name.rpartition("/")[2]
        loop = make_while(starts, cond, body, name=name, source=op.source, **_loop_attributes(op))
        before = 1 + self.counts
        outputs = list(loop.outputs[before : before + self.number])
        for extra in saved_outputs(op):
            # The number of iterations is the variable after `active`.
            outputs.append(loop.outputs[1] if extra.value is None else _save_value(walk, loop, extra, True))
        return outputs

    def _add_variables(
        self, cond: Region, body: Region, inits: list[Tensor], starts: list[Tensor], only_moving: bool = False
    ) -> list[Tensor]:
        """Append a variable for each variable of the function, and return the parameters of the body."""
        made = []
        for param, init, moving in zip(self.body_of_one.params, inits, self.moving, strict=True):
            if only_moving and not moving:
                continue
            shape = batched_shape(param.shape, self.walk.count) if moving else param.shape
            made.append([add_param(region, param, shape) for region in (cond, body)][1])
            starts.append(init)
        return made

    def _arguments(self, active: Tensor, values: list[Tensor], kept: list[Tensor]) -> list[Tensor]:
        """Return the values with which examples run the body, of the last iteration for examples without another."""
        if not self.guarded:
            return values
        last = iter(kept)
        return [
            select(active, value, next(last), known_rank(param)) if moving else value
            for value, param, moving in zip(values, self.body_of_one.params, self.moving, strict=True)
        ]

    def _run_body(self, active: Tensor, arguments: list[Tensor]) -> list[Tensor]:
        """Build the body, and return the next values, unchanged for examples without another iteration."""
        for param, value in zip(self.body_of_one.params, arguments, strict=True):
            self.walk.set_value(param, value)
        self.walk.walk(self.body_of_one)
        results = []
        for i, result in enumerate(self.body_of_one.results):
            if not self.moving[i]:
                results.append(self.walk.value(result))
                continue
            value = self.walk.spread_value(result)
            # A repeated iteration has the results that it had, except those of draws.
            if not self.repeats:
                value = select(active, value, self._before(i, arguments), known_rank(result))
            results.append(value)
        return results

    def _before(self, i: int, arguments: list[Tensor]) -> Tensor:
        """Return the value of a variable before the iteration."""
        return self.values[i] if self.guarded else arguments[i]


RULES["While"] = vectorize_while
