"""Several elementwise operations as one, as ``engine/compile/fuse/groups.py`` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ..support.literals import f64

Step = tuple[str, tuple[int, ...], Any]


def _shapes(op: Operation) -> list[Shape]:
    return [Shape([*op.attrs["lead"], width]) for width in op.attrs["widths"]]


def _run(
    xp: Any,
    *arrays: Any,
    steps: Sequence[Step],
    constants: Any,
    results: Sequence[int],
    full: Sequence[bool],
    lead: Sequence[Any],
    **_: Any,
) -> list[Any]:
    registers = [*arrays, *(c[()] for c in constants)]  # scalars, which are in nobody's memory
    rows = next((x.shape[:-1] for x, whole in zip(arrays, full, strict=True) if whole), tuple(lead))
    for name, operands, detail in steps:
        registers.append(_step(xp, name, [registers[i] for i in operands], detail, rows))
    return [xp.ascontiguousarray(registers[i]) for i in results]


def _step(xp: Any, name: str, operands: list[Any], detail: Any, rows: tuple[int, ...]) -> Any:
    if name == "cut":
        return operands[0][..., slice(*detail)]
    if name == "join":
        return xp.concatenate(operands, axis=-1)
    if name == "sigmoid":
        return 1 / (1 + xp.exp(-operands[0]))
    if name == "spread" and isinstance(operands[0], np.generic):
        return xp.full((*rows, detail[1]), operands[0], dtype=operands[0].dtype)
    if name == "spread":
        return xp.broadcast_to(operands[0], (*(operands[0].shape[:-1] or rows), detail[1]))
    if name in _REDUCTIONS:
        return getattr(xp, name)(operands[0], axis=-1, keepdims=True)
    return getattr(xp, name)(*operands)


_REDUCTIONS = frozenset({"sum", "mean", "max", "min"})
_X = np.arange(6.0).reshape(2, 3)

define(
    "Fused",
    "inputs: *T -> outputs: num*T",
    where={"T": (dtypes.float32, dtypes.float64)},
    attrs={
        "num": REQUIRED,  # of outputs
        "steps": REQUIRED,  # (what, registers it takes, columns of a cut): registers are inputs, constants, steps
        "full": REQUIRED,  # for each input: whether it has all rows
        "constants": (),  # arrays of no dimensions
        "results": REQUIRED,  # registers that are outputs
        "lead": REQUIRED,  # dimensions before the last, the same for all; None where not known
        "widths": REQUIRED,  # last dimension of each output
    },
    shape=_shapes,
    kernel=_run,
    gradient=NotDifferentiable("it is made after gradients are"),
    samples=[
        Sample(
            [[_X, f64([1, 2, 3])]],
            lambda arrays: ((arrays[0] + arrays[1]) * 2, np.hstack([arrays[0][:, 1:] + arrays[1][1:]] * 2)),
            {
                "num": 2,
                "constants": (f64(2),),
                "results": (4, 6),
                "lead": (2,),
                "widths": (3, 4),
                "full": (True, False),
                "steps": (
                    ("add", (0, 1), ()),
                    ("multiply", (3, 2), ()),
                    ("cut", (3,), (1, 3)),
                    ("join", (5, 5), ()),
                ),
            },
        ),
    ],
)
