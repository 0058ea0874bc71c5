"""The gradient of a Cond: a Cond on the same predicate (Yu et al., 2018, section 5.1).

Its results are the cotangents of the tensors captured by the branches, zeros from a branch without that capture. A
slot of a series leaves its branch as a saved value, written only if the branch ran. For a Cond
with the attribute ``recompute`` (see `recompute_grad`), a branch of the gradient recomputes forward values instead of
reading saved ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..base.dtypes import int64
from ..ir import scopes
from ..ir.apply import apply
from ..ir.operation import Operation
from ..ir.structured import SavedOutput, make_cond, new_region, num_results, recomputes, save_maybe, saved_outputs
from ..ir.tensor import Tensor
from ..ir.topological import topological_order
from ..ops.support.indexed_slices import IndexedSlices
from .backward import RULES, Backward
from .cotangents import Cotangents, Slot, densify
from .forward_values import ForwardValues
from .liveness import may_be_dead
from .recompute import Recompute
from .zeros import no_slices, shape_of_value, zeros_for


def cond_gradient(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    """Build the gradient of a Cond, and contribute to the tensors captured by its branches."""
    totals = [walk.total(cotangents, t) for t in op.outputs]
    pred = _read_predicate(op, totals)
    saved = list(zip(saved_outputs(op), totals[num_results(op) :], strict=True))
    branches = [_Branch(walk, op, i, totals, saved) for i in range(len(op.regions))]
    _CondGradient(walk, op, branches).build(pred, cotangents)


def _read_predicate(op: Operation, totals: Sequence[Any]) -> Tensor:
    """Return the predicate here; for recomputation an Identity of it, which waits for the cotangents."""
    pred = scopes.current_region().resolve(op.inputs[0])
    if not recomputes(op):
        return pred
    given = [t.values if isinstance(t, IndexedSlices) else t for t in totals[: num_results(op)] if t is not None]
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *(t.op for t in given))):
        return apply("Identity", pred)


class _Branch:
    """A branch of the gradient, with its cotangents of the tensors captured by the forward branch."""

    def __init__(
        self, walk: Backward, op: Operation, i: int, totals: Sequence[Any], saved: Sequence[tuple[SavedOutput, Any]]
    ) -> None:
        self.region = new_region(f"gradient of the {op.regions[i].role}")
        self.forward = op.regions[i]
        self.slots: dict[Tensor, list[Slot]] = {}
        self.sums: dict[Tensor, Any] = {}
        (Recompute if recomputes(op) else ForwardValues)(self.region, self.forward)
        with scopes.inside(self.region):
            inner = Cotangents()
            for tensor, total in zip(self.forward.results, totals, strict=False):
                if total is not None:
                    walk.contribute(inner, tensor, total)
            self._contribute_saved(walk, inner, [(e.value, total) for e, total in saved if e.branch == i])
            walk.walk(topological_order(self.forward.operations), inner)
            self._separate_series_slots(inner)

    def _contribute_saved(self, walk: Backward, inner: Cotangents, saved: Sequence[tuple[Tensor | None, Any]]) -> None:
        # The cotangent of a saved value is dead where another branch ran, and MaybeGet asserts that this one did. A
        # value that may be dead within its branch keeps a cotangent that may be dead.
        for value, total in saved:
            if value is not None and total is not None:
                total = densify(total)
                walk.contribute(inner, value, total if may_be_dead(value) else apply("MaybeGet", total))

    def _separate_series_slots(self, inner: Cotangents) -> None:
        """Separate the slots of captured series from the other cotangents of captures, which are summed."""
        # Slots cannot be added up: each leaves the branch by itself, apart from the sum of the other parts.
        for tensor, parts in inner.parts.items():
            if tensor.region is self.forward:
                continue
            self.slots[tensor] = [p for p in parts if isinstance(p, Slot)]
            inner.parts[tensor] = [p for p in parts if not isinstance(p, Slot)]
            if inner.parts[tensor]:
                self.sums[tensor] = inner.sum(tensor)


class _CondGradient:
    """Builds the Cond of the gradient, whose results are the cotangents of captures."""

    def __init__(self, walk: Backward, op: Operation, branches: list[_Branch]) -> None:
        self.walk = walk
        self.op = op
        self.branches = branches
        self.values = list(dict.fromkeys(t for b in branches for t in b.sums))
        # Sparse only if no branch contributes densely; a branch without a contribution returns no rows.
        self.sparse = {t for t in self.values if all(_is_sparse(b.sums.get(t)) for b in branches)}

    def build(self, pred: Tensor, cotangents: Cotangents) -> None:
        """Build the Cond and contribute its results."""
        # The order of results must be the same in all branches: they become the outputs of the Cond.
        for tensor in self.values:
            for branch in self.branches:
                with scopes.inside(branch.region):
                    branch.region.results += self._branch_results_for(tensor, branch.sums.get(tensor))
        regions = [b.region for b in self.branches]
        shapes = [self._relax_result_shape(i) for i in range(len(regions[0].results))]
        attrs = {"recompute": True} if recomputes(self.op) else {}  # so that a second derivative saves as little
        name = f"{self.op.name}_grad"
        self.gradient = make_cond(pred, regions, shapes, name=name, source=self.op.source, **attrs)
        for tensor, total in self._gradients_of_captures():
            self.walk.contribute(cotangents, tensor, total)
        for i, branch in enumerate(self.branches):
            for tensor, slots in branch.slots.items():
                for slot in slots:
                    self.walk.contribute(
                        cotangents,
                        tensor,
                        Slot(self._save_in_branch(i, slot.index), self._save_in_branch(i, slot.value)),
                    )

    def _branch_results_for(self, tensor: Tensor, total: Any) -> list[Tensor]:
        if tensor not in self.sparse:
            return [zeros_for(tensor) if total is None else densify(total)]
        like = next(b.sums[tensor] for b in self.branches if tensor in b.sums)
        slices = total or no_slices(like, shape_of_value(tensor))
        return [slices.values, apply("Cast", slices.indices, dtype=int64)]

    def _relax_result_shape(self, i: int) -> Any:
        shape, *others = [b.region.results[i].shape for b in self.branches]
        for other in others:
            shape = shape.relax(other)
        return shape

    def _gradients_of_captures(self) -> Iterator[tuple[Tensor, Any]]:
        outputs = iter(self.gradient.outputs)
        for tensor in self.values:
            if tensor in self.sparse:
                yield tensor, IndexedSlices(next(outputs), next(outputs), shape_of_value(tensor))
            else:
                yield tensor, next(outputs)

    def _save_in_branch(self, i: int, tensor: Tensor) -> Tensor:
        if scopes.current_region().sees(tensor):
            return tensor
        return save_maybe(self.gradient, i, tensor)


def _is_sparse(total: object) -> bool:
    return total is None or isinstance(total, IndexedSlices)


RULES["Cond"] = cond_gradient
