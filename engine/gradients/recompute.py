"""Recomputation of a part of the forward computation, for values not saved.

A region of the rerun mirrors a forward region: tensors requested there are computed again from their sources.
Operations with effects, or with results depending on when they run, are not repeated: the forward region saves their
results, as for all values where nothing is recomputed. Trip counts are saved too, so no predicate of a loop is needed.
A random operation gets the repeated instance as inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtypes import int64
from ..base.errors import GraphError
from ..base.shapes import SCALAR
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.builder import clone_operation
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rules.edges import Feedable
from ..ir.structured import (
    SavedOutput,
    is_structured,
    make_cond,
    make_while,
    new_region,
    num_results,
    save_maybe,
    save_series,
    saved_outputs,
    trip_count,
)
from ..ir.tensor import Tensor
from ..ir.topological import uses
from ..ir.traits import Effect, Role
from .forward_values import ForwardValues, counter, read_slot

_HAND_MADE = frozenset({Role.ENTER, Role.EXIT, Role.NEXT_ITERATION, Role.LOOP_COND})
_AGAIN = Effect.SHOWS | Effect.RANDOM  # a random operation gets the instance that it repeats


def is_kept(tensor: Tensor) -> bool:
    """True if a forward tensor is saved by its region and never recomputed."""
    if not is_structured(tensor.op):
        return _is_kept(tensor.op)
    extra = _saved_output_of(tensor)
    return extra is not None and (extra.value is None or is_kept(extra.value))


def _is_kept(op: Operation) -> bool:
    return op.definition.has(Feedable) or bool(op.definition.effects & ~_AGAIN)


def _saved_output_of(tensor: Tensor) -> SavedOutput | None:
    first = num_results(tensor.op)
    return saved_outputs(tensor.op)[tensor.index - first] if tensor.index >= first else None


def _is_told(op: Operation) -> bool:
    """True if a random operation already draws the numbers of another instance."""
    return len(op.inputs) > sum(not p.many for p in op.definition.signature.inputs)


def _forward_instance(region: Region) -> list[Tensor]:
    """Return the frame and the iteration in which the operations of a region run."""
    while region.owner is not None and region.owner.is_cond:
        assert region.parent is not None
        region = region.parent
    if region.parent is None:
        return [constant(0, int64), constant(0, int64)]  # rule 24
    # Kept at the first parameter: one Instance serves all random operations of a region.
    derived = region.params[0]._derived
    if "frame" not in derived:
        with scopes.inside(region):
            derived["frame"], _ = apply("Instance")
    outputs: list[Tensor] = derived["frame"].op.outputs
    return outputs


class Recompute(ForwardValues):
    """Recomputes tensors of `forward` in `region`.

    Parameters
    ----------
    region, forward : Region
        As for :class:`ForwardValues`.
    index : Tensor, optional
        For a body: the forward iteration to repeat.
    """

    def __init__(self, region: Region, forward: Region, index: Tensor | None = None) -> None:
        super().__init__(region, forward, index)
        self.repeated: dict[Operation, _Branches | Rerun | None] = {}

    def _read_value(self, tensor: Tensor) -> Tensor:
        """Return the value of a forward tensor: computed from the iteration's number, saved, or recomputed."""
        counted = self._compute_counter(tensor)
        if counted is not None:
            return counted
        if is_kept(tensor):
            return self._read_saved(tensor)
        for op in self._find_missing_operations(tensor.op):
            self.repeated[op] = self._repeat_operation(op)
        if tensor not in self.memo:
            again = self.repeated[tensor.op]
            assert again is not None
            self.memo[tensor] = again.extra(tensor)
        return self.memo[tensor]

    def _find_missing_operations(self, last: Operation) -> list[Operation]:
        """Return the operations to repeat for an operation, itself included, in order."""
        found: dict[Operation, None] = {}
        work = [(last, False)]
        while work:  # depth first, by a stack: each operation is pushed again as ready, below its sources
            op, ready = work.pop()
            if ready:
                found[op] = None
            elif op not in found and op not in self.repeated:
                work += [(op, True), *((source, False) for source in uses(op) if self._is_mine(source))]
        return list(found)

    def _is_mine(self, op: Operation) -> bool:
        return op.region is self.forward and (is_structured(op) or not _is_kept(op))

    def _repeat_operation(self, op: Operation) -> _Branches | Rerun | None:
        """Repeat an operation in `region` and record its results; return the copy of a Cond or While, else None."""
        again = None
        if op.is_param:
            results: Sequence[Tensor] = [self._read_parameter(op.outputs[0])]
        elif op.is_constant:
            results = [constant(op.attrs["value"])]
        elif op.type in ("Identity", "Print"):
            results = [self.region.resolve(op.inputs[0])]
        elif is_structured(op):
            again = _Branches(op) if op.is_cond else Rerun.of_loop(op, self.region)
            results = again.results()
        else:
            results = self._copy_operation(op).outputs
        # A Print is not shown again: only its value is repeated. Saved values of a Cond or While follow on demand.
        self.memo.update(zip(op.outputs, results, strict=False))
        return again

    def _read_parameter(self, param: Tensor) -> Tensor:
        counted = self._compute_counter(param)
        return self.region.params[1 + self.forward.place_of(param)] if counted is None else counted

    def _copy_operation(self, op: Operation) -> Operation:
        """Copy an operation; random ones get the forward instance as inputs, so that they draw the same numbers."""
        if op.role in _HAND_MADE:
            raise GraphError(
                "a hand-made loop cannot be recomputed",
                wanted="while_loop and cond in a loop with checkpoint_every",
                got=op.type,
                operation=op,
                hint="leave checkpoint_every out, or build the inner loop with while_loop",
            )
        inputs = [*op.inputs]
        if Effect.RANDOM in op.definition.effects and not _is_told(op):
            inputs += _forward_instance(self.forward)
        return clone_operation(op, self.region, map(self.region.resolve, inputs), f"{op.name}/again")


class _Branches:
    """A Cond repeating a forward Cond."""

    def __init__(self, op: Operation) -> None:
        pred = scopes.current_region().resolve(op.inputs[0])
        self.mirrors = [Recompute(new_region(r.role), r) for r in op.regions]
        for mirror in self.mirrors:
            with scopes.inside(mirror.region):
                mirror.region.results = [mirror.region.resolve(t) for t in mirror.forward.results]
        shapes = [t.shape for t in op.outputs[: num_results(op)]]
        self.op = make_cond(pred, [m.region for m in self.mirrors], shapes, name=f"{op.name}/again", source=op.source)
        self.op.device = op.device

    def results(self) -> Sequence[Tensor]:
        """Return the repeated results of the forward Cond."""
        return self.op.outputs[: num_results(self.op)]

    def extra(self, tensor: Tensor) -> Tensor:
        """Return the repeated value of a tensor saved by the forward Cond."""
        extra = _saved_output_of(tensor)
        assert extra is not None
        assert extra.value is not None
        return save_maybe(self.op, extra.branch, self.mirrors[extra.branch].resolve(extra.value))


class Rerun:
    """A loop repeating iterations of a forward loop.

    Parameters
    ----------
    op : Operation
        The forward While.
    inits : sequence of Tensor
        The forward loop variables in iteration `first`.
    first, stop : Tensor
        int64 scalars: the first iteration, and the one after the last.
    attrs
        Attributes of the new While.
    """

    def __init__(self, op: Operation, inits: Sequence[Tensor], first: Tensor, stop: Tensor, attrs: Any) -> None:
        cond, body = new_region("recomputed loop predicate"), new_region("recomputed loop body")
        for region in (cond, body):
            # Variable 0 of a rerun is the number of the forward iteration; the forward variables follow it.
            region.add_param(int64, SCALAR, f"{op.name}/again/index")
            for param in op.regions[1].params:
                region.add_param(param.dtype, param.shape, f"{param.op.name}/again")
        index = body.params[0]
        self.mirror: Recompute = Recompute(body, op.regions[1], index)
        with scopes.inside(cond):
            cond.results = [cond.params[0] < stop]
        with scopes.inside(body):
            body.results = [index + constant(1, int64), *map(body.resolve, op.regions[1].results)]
        self.op: Operation = make_while([first, *inits], cond, body, name=f"{op.name}/again", source=op.source, **attrs)
        self.op.device = op.device

    @staticmethod
    def of_segment(op: Operation, first: Tensor, stop: Tensor) -> Rerun:
        """Repeat a segment of a loop with variables saved at the beginning of each segment."""
        # Without checkpoint_every: a rerun saves the values of each of its iterations.
        kept = ("parallel_iterations", "back_prop", "swap_memory")
        inits = [_at_start(op, param, first) for param in op.regions[1].params]
        return Rerun(op, inits, first, stop, {key: op.attrs[key] for key in kept})

    @staticmethod
    def of_loop(op: Operation, region: Region) -> Rerun:
        """Repeat an entire loop, in a region repeating the region around the loop."""
        attrs = {key: value for key, value in op.attrs.items() if key != "saved_outputs"}
        inits = [region.resolve(t) for t in op.inputs]
        return Rerun(op, inits, constant(0, int64), region.resolve(trip_count(op)), attrs)

    def results(self) -> Sequence[Tensor]:
        """Return the repeated results of the forward While."""
        # Output 0 is the index of the rerun.
        return self.op.outputs[1 : num_results(self.op)]

    def extra(self, tensor: Tensor) -> Tensor:
        """Return the repeated series saved by the forward While."""
        extra = _saved_output_of(tensor)
        assert extra is not None
        assert extra.value is not None
        index = None if extra.index is None else self.mirror.resolve(extra.index)
        return save_series(self.op, self.mirror.resolve(extra.value), index)

    def save(self, value: Tensor) -> Tensor:
        """Return the series of a forward value in the iterations repeated."""
        return save_series(self.op, self.mirror.resolve(value))


class SegmentMirror(ForwardValues):
    """Provides the values of one segment to a backward loop: recomputed values, and values saved by the forward loop.

    Parameters
    ----------
    region, forward : Region
        As for :class:`ForwardValues`.
    index, slot : Tensor
        The forward iteration, and the number of the iteration in the segment.
    rerun : Rerun
        The rerun of the segment.
    """

    def __init__(self, region: Region, forward: Region, index: Tensor, slot: Tensor, rerun: Rerun) -> None:
        super().__init__(region, forward, index)
        self.slot = slot
        self.rerun = rerun

    def _read_saved(self, tensor: Tensor) -> Tensor:
        if is_kept(tensor):
            return super()._read_saved(tensor)
        return read_slot(self.rerun.save(tensor), self.slot, tensor)


def _at_start(op: Operation, param: Tensor, first: Tensor) -> Tensor:
    """Return a loop variable at the start of iteration `first`, the beginning of a segment."""
    counted = counter(param, first)
    if counted is not None:
        return counted
    series = scopes.current_region().resolve(_find_checkpoints(op, param))
    return apply("SeriesRead", series, first, dtype=param.dtype, shape=param.shape)


def _find_checkpoints(op: Operation, param: Tensor) -> Tensor:
    """Return the series of a loop variable, with a value at the beginning of each segment."""
    if op.attrs["checkpoint_every"] == 1:
        return save_series(op, param)
    with scopes.inside(op.regions[1]):
        return save_series(op, save_maybe(_find_segment_beginnings(op), 1, param))


def _find_segment_beginnings(op: Operation) -> Operation:
    """Return the Cond in the body of a While whose second branch runs at the beginning of a segment."""
    body = op.regions[1]
    derived = body.params[0]._derived
    if "begins" not in derived:
        _, iteration = _forward_instance(body)
        place = iteration % constant(op.attrs["checkpoint_every"], int64)
        derived["begins"] = apply("Equal", place, constant(0, int64))
        branches = [new_region("middle of a segment"), new_region("beginning of a segment")]
        make_cond(derived["begins"], branches, [], name=f"{op.name}/begins", source=op.source)
    # Found through its predicate, which the Cond is the first to consume.
    choice: Operation = derived["begins"].consumers()[0]
    return choice
