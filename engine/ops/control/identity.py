"""Identity of several tensors at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import PassesInputs
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.literals import f64
from ..support.tangents import LINEAR
from ..support.vectorizing.families import spread_pointwise


def _input_shapes(op: Operation) -> list[Shape]:
    return [t.shape for t in op.inputs]


define(
    "IdentityN",
    "input: *any -> output: *@dtypes",
    attrs={"dtypes": REQUIRED},
    shape=_input_shapes,
    rules=[Vectorize(spread_pointwise), LINEAR, PassesInputs()],
    kernel=lambda xp, *arrays, dtypes: arrays,
    gradient=lambda op, *gs: list(gs),
    samples=[
        Sample(
            [[f64([1, 2]), np.int32(3)]],
            (f64([1, 2]), np.int32(3)),
            {"dtypes": ("float64", "int32")},
        )
    ],
)


@public
def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """Return tensors with the values of `input`, all available only after all inputs.

    Parameters
    ----------
    input : sequence of Tensor of any dtypes and shapes

    Returns
    -------
    list of Tensor
        Same dtypes and shapes.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.identity_n([1, True, 2.5])).sync()
    [array(1, dtype=int32), array(True), array(2.5, dtype=float32)]
    """
    tensors = [convert_to_tensor(t) for t in input]
    return apply("IdentityN", tensors, name=name, dtypes=tuple(t.dtype for t in tensors))
