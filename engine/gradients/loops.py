"""The gradient of a While: a While counting down (Yu et al., 2018, section 5.1).

Its loop variables are the count, the cotangent of each active loop variable, and a running sum for the cotangent
of each captured value, which keeps at most a window of partial gradients alive. Sparse cotangents of a capture, and
cotangents of possibly dead values, are collected in series and joined after the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtypes import int64, series
from ..base.shapes import SCALAR, Shape
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.structured import make_while, new_region, num_results, save_series, saved_outputs, trip_count
from ..ir.tensor import Tensor
from ..ir.topological import topological_order
from ..ops.support.common import shape_of, with_static_shape
from ..ops.support.indexed_slices import IndexedSlices
from .backward import Backward
from .cotangents import Cotangents, Slot, add, densify
from .forward_values import ForwardValues
from .liveness import may_be_dead
from .series import sum_of
from .zeros import shape_of_value, zeros_for


class WhileGradient:
    """The gradient of a While, which contributes to its initial values and captures.

    Parameters
    ----------
    walk : Backward
    op : Operation
        The While.
    outside : Cotangents
        Cotangents of the tensors around the loop.
    """

    def __init__(self, walk: Backward, op: Operation, outside: Cotangents) -> None:
        self.walk = walk
        self.op = op
        self.outside = outside
        self.forward: Region = op.regions[1]
        self.totals: list[Any] = [walk.total(outside, t) for t in op.outputs]
        self.saved: list[tuple[Any, Any]] = list(zip(saved_outputs(op), self.totals[num_results(op) :], strict=True))
        self.variables: list[int] = [i for i in range(num_results(op)) if self.forward.params[i] in walk.active]
        self.inits: list[Tensor] = []
        self.cond: Region = new_region("gradient of the loop predicate")
        self.body: Region = new_region("gradient of the loop body")
        self.starts: list[Tensor] = op.inputs  # the tensors that receive the loop's last cotangents
        # The backward loop overlaps iterations and swaps as the forward loop does.
        self.attrs: dict[str, Any] = {
            "parallel_iterations": op.attrs["parallel_iterations"],
            "swap_memory": op.attrs["swap_memory"],
        }
        # Contributions that need the finished loop: known only once `make_while` has made its outputs.
        self.finish: list[tuple[Tensor, Callable[[], Any]]] = []

    def build(self) -> None:
        """Build the loop and contribute its results."""
        # The order of variables is fixed: the count, cotangents by variable, then sums in the order of captures.
        self._add_variable(self._count_iterations(), SCALAR, "count")
        for i in self.variables:
            total, output = self.totals[i], self.op.outputs[i]
            init = zeros_for(output) if total is None else densify(total)
            self._add_variable(init, self.forward.params[i].shape, "cotangent")
        with scopes.inside(self.body):
            self._leave_loop(self._walk_body())
        with scopes.inside(self.cond):
            self.cond.results.append(self.cond.params[0] > 0)
        self.gradient: Operation = make_while(
            self.inits,
            self.cond,
            self.body,
            name=f"{self.op.name}_grad",
            source=self.op.source,
            back_prop=True,
            **self.attrs,
        )
        for k, i in enumerate(self.variables):
            self.walk.contribute(self.outside, self.starts[i], self.gradient.outputs[1 + k])
        for tensor, finish in self.finish:
            self.walk.contribute(self.outside, tensor, finish())

    def _count_iterations(self) -> Tensor:
        return scopes.current_region().resolve(trip_count(self.op))

    def _add_variable(self, init: Tensor, shape: Shape, name: str) -> Tensor:
        # A While has equal parameters in both regions, although the predicate reads only the count.
        self.inits.append(init)
        self.cond.add_param(init.dtype, shape, f"{self.op.name}_grad/{name}")
        return self.body.add_param(init.dtype, shape, f"{self.op.name}_grad/{name}")

    def _walk_body(self) -> Cotangents:
        """Build the body up to its cotangents: count down, mirror the iteration, contribute, and walk backward."""
        inner = Cotangents()
        # The count runs from the trip count down to 1, iterations are numbered from 0.
        index = self.body.params[0] - constant(1, int64)
        self.body.results.append(index)
        index = self._mirror_iteration(index)
        for k, i in enumerate(self.variables):
            self.walk.contribute(inner, self.forward.results[i], self.body.params[1 + k])
        for extra, total in self.saved:
            if extra.value is not None and total is not None:
                at = index if extra.index is None else self.body.resolve(extra.index)
                self.walk.contribute(inner, extra.value, _read_back(total, at, extra.value))
        self.walk.walk(topological_order(self.forward.operations), inner)
        return inner

    def _mirror_iteration(self, index: Tensor) -> Tensor:
        """Provide the values of forward iteration `index` to the body; return the iteration's number."""
        ForwardValues(self.body, self.forward, index)
        return index

    def _leave_loop(self, inner: Cotangents) -> None:
        self._leave_variables(inner)
        self._leave_captures(inner)

    def _leave_variables(self, inner: Cotangents) -> None:
        for i in self.variables:
            param = self.forward.params[i]
            total = inner.dense(param)
            self.body.results.append(zeros_for(param) if total is None else total)

    def _leave_captures(self, inner: Cotangents) -> None:
        """Route the cotangents of captures out of the body: slots apart, the others as one sum for each tensor."""
        for tensor, parts in inner.parts.items():
            if tensor.region is self.forward:
                continue
            for slot in (p for p in parts if isinstance(p, Slot)):
                self._collect_slot(tensor, slot)
            inner.parts[tensor] = [p for p in parts if not isinstance(p, Slot)]
            if inner.parts[tensor]:
                self._accumulate_capture(tensor, inner.sum(tensor))

    def _accumulate_capture(self, tensor: Tensor, total: Any) -> None:
        if isinstance(total, IndexedSlices):
            self._collect_rows(tensor, total)
        # A dead term would end a running sum for good, so these are collected and added after the loop.
        elif may_be_dead(tensor):
            self.finish.append((tensor, lambda: sum_of(save_series(self.gradient, total), tensor)))
        else:
            self._running_sum(tensor, total)

    def _collect_slot(self, tensor: Tensor, slot: Slot) -> None:
        # Deferred, as `gradient` is made only once its body is complete.
        self.finish.append((tensor, lambda: save_series(self.gradient, slot.value, slot.index)))

    def _running_sum(self, tensor: Tensor, total: Tensor) -> None:
        """Add the cotangents of all iterations up in a loop variable."""
        init = self._first_sum(tensor)
        before = self._add_variable(init, init.shape, "sum")
        position = len(self.inits) - 1
        with scopes.within(device=(total.op.device, *self.walk.devices)):  # the sum stays where its terms are made
            # Series are added slot by slot: iterations may contribute to different slots.
            after = apply("SeriesAdd", before, total) if tensor.dtype is series else add(before, total)
        self.body.results.append(after)
        self._last_sum(tensor, position)

    def _first_sum(self, tensor: Tensor) -> Tensor:
        assert self.body.parent is not None
        with scopes.inside(self.body.parent):
            return zeros_for(tensor)

    def _last_sum(self, tensor: Tensor, position: int) -> None:
        self.finish.append((tensor, lambda: self.gradient.outputs[position]))

    def _collect_rows(self, tensor: Tensor, slices: IndexedSlices) -> None:
        indices = apply("Cast", slices.indices, dtype=int64)
        self.finish.append((tensor, lambda: self._join_rows(tensor, slices.values, indices)))

    def _join_rows(self, tensor: Tensor, values: Tensor, indices: Tensor) -> IndexedSlices:
        """Return the rows of all iterations as slices, their values and indices concatenated after the loop."""
        shape = shape_of_value(tensor)
        rows = save_series(self.gradient, values)
        places = save_series(self.gradient, indices)
        return IndexedSlices(
            apply("SeriesConcat", rows, shape, dtype=values.dtype, shape=values.shape),
            apply("SeriesConcat", places, constant([0], "int32"), dtype=int64, shape=indices.shape),
            shape,
        )


def _read_back(total: Tensor, index: Tensor, value: Tensor) -> Tensor:
    """Return the cotangent of `value` in one iteration: a slot, maybe empty, of the cotangent of its series."""
    if value.dtype is series:
        return apply("SeriesReadSeries", total, index)
    return with_static_shape(apply("SeriesReadOrZeros", total, index, shape_of(value), dtype=value.dtype), value)
