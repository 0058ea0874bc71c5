"""Several elementwise operations as one, made by ``engine/compile/fuse/groups.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.operation import Operation
from ...kernels.steps import STEPS, Step, find_batch_dims
from ..support.literals import f64


def _infer_fused_shapes(op: Operation) -> list[Shape]:
    return [Shape([*op.attrs["batch_dims"], last_dim]) for last_dim in op.attrs["last_dims"]]


def _run_fused_steps(
    xp: Any,
    *arrays: Any,
    steps: Sequence[Step],
    constants: Any,
    results: Sequence[int],
    has_rows: Sequence[bool],
    batch_dims: Sequence[Any],
    **_: Any,
) -> list[Any]:
    """Run the steps with NumPy: the reference for the kernels of fused groups."""
    registers = [*arrays, *(c[()] for c in constants)]  # NumPy scalars, without a buffer in the pool
    rows = find_batch_dims(zip((x.shape for x in arrays), has_rows, strict=True), tuple(batch_dims))
    for name, operands, columns in steps:
        registers.append(STEPS[name].numpy(xp, [registers[i] for i in operands], columns, rows))
    return [xp.ascontiguousarray(registers[i]) for i in results]


_X = np.arange(6.0).reshape(2, 3)

define(
    "Fused",
    "inputs: *T -> outputs: num*T",
    where={"T": (dtypes.float32, dtypes.float64)},
    attrs={
        "num": REQUIRED,  # of outputs
        "steps": REQUIRED,  # (name, operand registers, columns); registers are inputs, constants, results of steps
        "has_rows": REQUIRED,  # for each input: True if it has all rows, False if one row is broadcast
        "constants": (),  # arrays of rank 0
        "results": REQUIRED,  # registers of the outputs
        "batch_dims": REQUIRED,  # dimensions before the last, equal for all outputs; None if unknown
        "last_dims": REQUIRED,  # last dimension of each output
    },
    shape=_infer_fused_shapes,
    kernel=_run_fused_steps,
    gradient=NotDifferentiable("it is made after gradients are"),
    samples=[
        Sample(
            [[_X, f64([1, 2, 3])]],
            lambda arrays: ((arrays[0] + arrays[1]) * 2, np.hstack([arrays[0][:, 1:] + arrays[1][1:]] * 2)),
            {
                "num": 2,
                "constants": (f64(2),),
                "results": (4, 6),
                "batch_dims": (2,),
                "last_dims": (3, 4),
                "has_rows": (True, False),
                "steps": (
                    ("add", (0, 1), ()),
                    ("multiply", (3, 2), ()),
                    ("slice", (3,), (1, 3)),
                    ("concat", (5, 5), ()),
                ),
            },
        ),
    ],
)
