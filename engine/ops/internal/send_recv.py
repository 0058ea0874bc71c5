"""Send and Recv, the two ends of an edge between devices, and copies between a device's memory and the host's.

Compiling makes these operations, after gradients. The executors run Send and Recv; backends of devices with other
arrays than NumPy's run the copies.
"""

from __future__ import annotations

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.traits import Effect, Role
from ..support.common import infer_nothing

_AFTER = NotDifferentiable("compiling makes it after gradients are made")

define(
    "Send",
    "value: any ->",
    attrs={"channel": REQUIRED, "dead_silent": False},
    shape=infer_nothing,
    role=Role.SEND,
    kernel=None,
    gradient=_AFTER,
    effects=Effect.SHOWS,
)

define(
    "Recv",
    "-> value: @dtype",
    attrs={"channel": REQUIRED, "dtype": REQUIRED, "shape": Shape(None), "dead_silent": False},
    shape=lambda op: Shape(op.attrs["shape"]),
    role=Role.RECV,
    kernel=None,
    gradient=_AFTER,
    effects=Effect.WAITS,
)

for _type in ("ToHost", "ToDevice", "IntoDevice"):  # ToDevice leaves values for host computations on the host
    define(
        _type,
        "value: T -> copy: T",
        where={"T": dtypes.VALUES},
        shape=lambda op: op.inputs[0].shape,
        role=Role.TRANSFER,
        kernel=None,
        gradient=_AFTER,
    )
