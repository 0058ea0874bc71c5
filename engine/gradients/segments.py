"""The gradient of a While saving its loop variables in every k-th iteration only.

A loop over segments of k iterations, last first: each iteration reruns a segment from the variables saved at its
beginning (``recompute.py``), and then walks the segment backward. Only the values of one segment, and the
variables at the beginnings of all, are alive at a time (Chen et al., 2016, "Training Deep Nets with
Sublinear Memory Cost").
"""

from __future__ import annotations

from ..base.dtypes import int64
from ..ir.apply import apply, constant
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from .backward import RULES, Backward
from .cotangents import Cotangents
from .loops import WhileGradient
from .recompute import Rerun, SegmentMirror


def while_gradient(walk: Backward, op: Operation, cotangents: Cotangents) -> None:
    """Build the gradient of a While, and contribute to its initial values and captures."""
    if op.attrs.get("back_prop", True):
        kind = WhileGradient if op.attrs.get("checkpoint_every") is None else _Segments
        kind(walk, op, cotangents).build()


class _Segments(WhileGradient):
    """The loop over segments. Running sums pass from one segment to the next, which adds terms in order."""

    def __init__(self, walk: Backward, op: Operation, outside: Cotangents) -> None:
        super().__init__(walk, op, outside)
        self.every: int = op.attrs["checkpoint_every"]
        self.attrs |= {"parallel_iterations": 1, "checkpoint_every": 1}  # one segment's values at a time
        self.sums: list[tuple[Tensor, int]] = []

    def _count_iterations(self) -> Tensor:
        self.trips = super()._count_iterations()
        # Rounded up: the last segment, the first one to be walked, may be shorter.
        return self.trips if self.every == 1 else (self.trips + (self.every - 1)) // self.every

    def _walk_body(self) -> Cotangents:
        """Build the body: rerun the segment with the counted number, then its backward loop."""
        inner = Cotangents()
        number = self.body.params[0] - constant(1, int64)
        self.body.results.append(number)
        first = number * constant(self.every, int64)
        # The trip count bounds only the last segment.
        stop = apply("Minimum", first + constant(self.every, int64), self.trips)
        rerun = Rerun.of_segment(self.op, first, stop)
        self.segment = _Segment(self, inner, rerun, first, stop)
        self.segment.build()
        for loop in (rerun.op, self.segment.gradient):
            loop.note(is_segment=True)
        return inner

    def _leave_variables(self, inner: Cotangents) -> None:
        super()._leave_variables(inner)
        # Sums follow the cotangents as loop variables, in the order in which `carry` appended them.
        for (tensor, position), last in zip(self.sums, self.segment.sums, strict=True):
            self.body.results.append(self.segment.gradient.outputs[last])
            self._last_sum(tensor, position)

    def carry(self, tensor: Tensor) -> Tensor:
        """Return the sum of the cotangents of a capture at the beginning of a segment."""
        init = self._first_sum(tensor)
        self.sums.append((tensor, len(self.inits)))
        return self._add_variable(init, init.shape, "sum")


class _Segment(WhileGradient):
    """The backward loop of one segment, in the body of the loop over segments."""

    def __init__(self, around: _Segments, inner: Cotangents, rerun: Rerun, first: Tensor, stop: Tensor) -> None:
        super().__init__(around.walk, around.op, inner)
        self.around = around
        self.rerun = rerun
        self.first = first
        self.stop = stop
        # The last cotangents belong to the variables at the segment's beginning, which the body around carries on.
        self.starts = self.forward.params
        self.totals = [None] * len(self.op.outputs)
        # Cotangents of the variables after this segment: the walk of the next segment left them in the body around.
        for k, i in enumerate(self.variables):
            self.totals[i] = around.body.params[1 + k]
        self.saved = around.saved
        self.sums: list[int] = []

    def _count_iterations(self) -> Tensor:
        return self.stop - self.first

    def _mirror_iteration(self, index: Tensor) -> Tensor:
        number = self.first + index
        SegmentMirror(self.body, self.forward, number, index, self.rerun)
        return number

    def _first_sum(self, tensor: Tensor) -> Tensor:
        return self.around.carry(tensor)

    def _last_sum(self, tensor: Tensor, position: int) -> None:
        self.sums.append(position)


RULES["While"] = while_gradient
