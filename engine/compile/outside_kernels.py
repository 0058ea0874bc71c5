"""Registration of kernels of outside packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtypes import DType, as_dtype
from ..base.errors import GraphError
from ..base.registrations import Registration
from ..ir.definition import definition_of
from ..ir.own_kernels import add_kernel
from ..streams.kinds import find_kind
from .outside_passes import check_kind


def register_kernel(
    type: str,
    kernel: Callable[..., Any],
    *,
    dtype: DType | str | None = None,
    device_kind: str | None = None,
) -> Registration:
    """Register another kernel for the operations of an existing type.

    The definition fixes the meaning of a type: shapes, gradient, and results up to rounding. A registered kernel
    computes the same in another way, for a dtype or a device kind, and precedes the definition's kernel. Of several, a
    kernel for the device kind precedes a kernel for all kinds, and then a kernel for the dtype precedes a kernel for
    all dtypes. An operation with such a kernel runs by itself: it is not computed while compiling, fused or part of a
    native program. The registration holds for the whole process, both executors, and all steps from their next run on,
    until taken back.

    Parameters
    ----------
    type : str
        Name of the operation type: "MatMul".
    kernel : callable
        ``kernel(xp, *arrays, **attrs)``, as in :func:`define`: `xp` is the device's array library, `attrs` has all
        attributes of the type, and a type with effects passes its context after `xp`. It returns arrays of the
        declared dtypes, changes no input, and may be called in several threads at once.
    dtype : DType or str, optional
        Dtype of the type's first type variable, `T` as a rule. By default all dtypes.
    device_kind : str, optional
        Kind of the devices: "gpu". By default all kinds. Small scalars and shapes beside another device are computed by
        the host, with the kernels of the kind "cpu".

    Returns
    -------
    Registration

    Raises
    ------
    GraphError
        If there is no such type or device kind, the executors implement the type, such a kernel is registered
        already, or the type keeps values and the kind needs kernels. A step raises OpError whose cause names the
        registering line if the kernel returns other dtypes or shapes.
    DtypeError
        If operations of the type never have the dtype.

    Examples
    --------
    Sums of products in double precision, also for float32:

    >>> import numpy as np, tagloom as tg
    >>> from tagloom import operations
    >>> def precise(xp, a, b, transpose_a, transpose_b):
    ...     a, b = (xp.asarray(x.T if turned else x, "float64") for x, turned in ((a, transpose_a), (b, transpose_b)))
    ...     return (a @ b).astype("float32")
    >>> x = np.float32([[1e8, 1.0, -1e8]])
    >>> with operations.register_kernel("MatMul", precise, dtype="float32"):
    ...     float(tg.function(lambda: tg.matmul(x, np.ones((3, 1), np.float32))).sync()[0, 0])
    1.0
    """
    kind = None if device_kind is None else check_kind(device_kind, f"the kernel of {type}")
    found = find_kind(kind)
    if found is not None and found.kernels.needs_kernels and definition_of(type).runs_on == "store":
        raise GraphError(
            f"{type} keeps or passes on values, which stay with the host on devices of the kind {kind}",
            wanted="a type that computes with arrays",
            got=type,
            hint="a kind registered without needs_kernels keeps such values on the device",
        )
    return add_kernel(type, kernel, None if dtype is None else as_dtype(dtype), kind)
