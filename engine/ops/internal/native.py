"""A region as a native program, made of loops by ``engine/compile/native``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.shapes import SCALAR
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...kernels.scheduler.series import Series


def _report_not_run(xp: Any, *inputs: Any, dtypes: tuple[DType, ...], **_: Any) -> list[Any]:
    """Return ok = False, because no program ran: the original operations run instead, and the results are ignored."""
    return [np.asarray(False), *(Series() if d.numpy is None else np.zeros((), d.numpy) for d in dtypes)]


def _infer_native_shapes(op: Operation) -> list[Any]:
    return [SCALAR, *op.attrs["shapes"]]


define(
    "Native",
    "inputs: *any -> ok: host bool, results: *@dtypes",
    attrs={
        "program": REQUIRED,  # NativeProgram.to_attribute()
        "dtypes": REQUIRED,  # of the results
        "shapes": REQUIRED,
    },
    shape=_infer_native_shapes,
    kernel=_report_not_run,
    gradient=NotDifferentiable("it is made after gradients are"),
)
