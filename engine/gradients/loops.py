"""The gradient of a While: a While that counts down (seed 000, section 5.1).

Its loop variables are the count, the cotangent of each active loop variable, and a running sum for the cotangent
of each captured value, so that at most a window of partial gradients is alive. Sparse cotangents of a capture are
collected in series and joined once, behind the loop.
"""

from __future__ import annotations

from typing import Any

from ..base.dtypes import int64, resource, series
from ..base.shapes import SCALAR, UNKNOWN
from ..ir import scopes
from ..ir.build import apply, constant
from ..ir.operation import Operation
from ..ir.structured import Extra, extras, make_while, new_region, num_results, save_series, trip_count
from ..ir.tensor import Tensor
from ..ops.common import zeros_like
from ..ops.slices import IndexedSlices
from .backward import RULES, Backward, Cotangents
from .conditional import shape_of_value, zeros_for
from .cotangents import Lazy, Maybe, Slot, SlotRead, SumOf, add_up, densify, is_maybe
from .mirror import Mirror


def while_gradient(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    """Build the gradient of a While, and contribute to its initial values and captures."""
    if op.attrs.get("back_prop", True):
        _WhileGradient(walk, op, cotangents).build()


class _WhileGradient:
    def __init__(self, walk: Backward, op: Operation, outside: Cotangents) -> None:
        self.walk = walk
        self.op = op
        self.outside = outside
        self.forward = op.regions[1]
        self.variables = [i for i in range(num_results(op)) if self.forward.params[i] in walk.active]
        self.inits: list[Tensor] = []
        self.cond = new_region("gradient of the loop predicate")
        self.body = new_region("gradient of the loop body")
        self.captured: list[tuple[Tensor, Any]] = []

    def build(self) -> None:
        """Make the loop and contribute its results."""
        first = num_results(self.op)
        saved = [(e, t, self.outside.take(t)) for e, t in zip(extras(self.op), self.op.outputs[first:], strict=True)]
        here = scopes.current_region()
        self._variable(here.resolve(trip_count(self.op)), SCALAR, "count")
        for i in self.variables:
            output = self.op.outputs[i]
            init = self.outside.dense(output)
            self._variable(zeros_like(output) if init is None else init, self.forward.params[i].shape, "cotangent")
        inner = self._walk_body(saved)
        self._next_variables(inner)
        self._capture(inner)
        with scopes.inside(self.cond):
            self.cond.results.append(self.cond.params[0] > 0)
        self.gradient = make_while(
            self.inits, self.cond, self.body, name=f"{self.op.name}_grad", source=self.op.source,
            parallel_iterations=self.op.attrs["parallel_iterations"], back_prop=True,
            swap_memory=self.op.attrs["swap_memory"],
        )  # fmt: skip
        for k, i in enumerate(self.variables):
            self.walk.contribute(self.outside, self.op.inputs[i], self.gradient.outputs[1 + k])
        for tensor, finish in self.captured:
            self.walk.contribute(self.outside, tensor, finish())

    def _variable(self, init: Tensor, shape: Any, name: str) -> tuple[Tensor, int]:
        self.inits.append(init)
        self.cond.add_param(init.dtype, shape, f"{self.op.name}_grad/{name}")
        return self.body.add_param(init.dtype, shape, f"{self.op.name}_grad/{name}"), len(self.inits) - 1

    def _walk_body(self, saved: list[tuple[Extra, Tensor, list[Any]]]) -> Cotangents:
        inner = Cotangents()
        with scopes.inside(self.body):
            index = self.body.params[0] - constant(1, int64)
            self.body.results.append(index)
            Mirror(self.body, self.forward, index)
            for k, i in enumerate(self.variables):
                self.walk.contribute(inner, self.forward.results[i], self.body.params[1 + k])
            for extra, output, contributions in saved:
                if extra.value is not None and contributions:
                    at = index if extra.index is None else self.body.resolve(extra.index)
                    self._read_back(inner, extra.value, add_up(contributions, output), at)
            self.walk.walk(self.forward.operations, inner)
        return inner

    def _read_back(self, inner: Cotangents, value: Tensor, total: Any, at: Tensor) -> None:
        read = SlotRead(total, at)
        self.walk.contribute(inner, value, read if is_maybe(value) else read.dense(value))

    def _next_variables(self, inner: Cotangents) -> None:
        with scopes.inside(self.body):
            for i in self.variables:
                param = self.forward.params[i]
                total = inner.dense(param)
                self.body.results.append(zeros_like(param) if total is None else total)

    def _capture(self, inner: Cotangents) -> None:
        for tensor, contributions in list(inner.parts.items()):
            if tensor.region is self.forward or not contributions:
                continue
            slots = [c for c in contributions if isinstance(c, Slot)]
            lazy = [c for c in contributions if isinstance(c, Lazy)]
            plain = [c for c in contributions if not isinstance(c, (Slot, *Lazy))]
            for slot in slots:
                self._slot(tensor, slot)
            for token in lazy:
                self._token(tensor, token)
            if plain:
                with scopes.inside(self.body):
                    total = add_up(plain, tensor)
                if isinstance(total, IndexedSlices):
                    self._rows(tensor, total)
                else:
                    self._running_sum(tensor, total)

    def _slot(self, tensor: Tensor, slot: Slot) -> None:
        self.captured.append((tensor, lambda: save_series(self.gradient, slot.value, slot.index)))

    def _token(self, tensor: Tensor, token: Any) -> None:
        assert isinstance(token, Maybe)
        self.captured.append((tensor, lambda: SumOf(save_series(self.gradient, token.value))))

    def _running_sum(self, tensor: Tensor, cotangent: Tensor) -> None:
        shape = UNKNOWN if tensor.dtype is resource else tensor.shape
        init = zeros_for(tensor)
        total, position = self._variable(init, init.shape if tensor.dtype is resource else shape, "sum")
        with scopes.inside(self.body):
            add = "SeriesAdd" if tensor.dtype is series else "Add"
            self.body.results.append(apply(add, total, densify(cotangent)))
        self.captured.append((tensor, lambda: self.gradient.outputs[position]))

    def _rows(self, tensor: Tensor, slices: IndexedSlices) -> None:
        with scopes.inside(self.body):
            indices = apply("Cast", slices.indices, dtype=int64)
        self.captured.append((tensor, lambda: self._join(tensor, slices.values, indices)))

    def _join(self, tensor: Tensor, values: Tensor, indices: Tensor) -> IndexedSlices:
        shape = shape_of_value(tensor)
        rows = save_series(self.gradient, values)
        places = save_series(self.gradient, indices)
        return IndexedSlices(
            apply("SeriesConcat", rows, shape, dtype=values.dtype, shape=values.shape),
            apply("SeriesConcat", places, constant([0], "int32"), dtype=int64, shape=indices.shape),
            shape,
        )


RULES["While"] = while_gradient
