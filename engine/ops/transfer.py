"""Send and Recv: the two ends of an edge between devices. Partition makes them, the executors do them."""

from __future__ import annotations

from ..base.shapes import Shape
from ..ir.definition import REQUIRED, NotDifferentiable, define
from .common import nothing

_AFTER = NotDifferentiable("partition makes it after gradients are made")

define(
    "Send",
    "value: any ->",
    attrs={"channel": REQUIRED, "dead_silent": False},
    shape=nothing,
    kernel=None,
    gradient=_AFTER,
    stateful=True,
)

define(
    "Recv",
    "-> value: @dtype",
    attrs={"channel": REQUIRED, "dtype": REQUIRED, "shape": Shape(None), "dead_silent": False},
    shape=lambda op: Shape(op.attrs["shape"]),
    kernel=None,
    gradient=_AFTER,
    stateful=True,
)
