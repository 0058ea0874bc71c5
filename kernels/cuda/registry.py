"""Which operations have a kernel in CUDA C, by type and dtype.

As with the kernels in C for CPUs, the definition block of an operation gives its meaning; a kernel here computes the
same in one launch, and leaves to the definition's what it was not made for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .fused import FusedKernel
from .launching import REALS, can_compile
from .rows import NAMES, RowKernel, SparseKernel
from .writing import KNOWN

TYPES = frozenset({"Fused", "SparseSoftmaxCrossEntropyWithLogits", *NAMES})
Compiled = FusedKernel | RowKernel | SparseKernel


def find_compiled(
    xp: Any, type: str, attrs: Mapping[str, Any], outputs: Sequence[np.dtype[Any]], otherwise: Callable[..., Any]
) -> Compiled | None:
    """Return the compiled kernel of an operation, None if there is none.

    Parameters
    ----------
    xp : module
        The array library whose arrays it takes and gives.
    type, attrs
        Of the operation.
    outputs : sequence of dtype
    otherwise : callable
        Its kernel by definition, with attributes.
    """
    if type not in TYPES or not can_compile(xp) or outputs[0].char not in REALS:
        return None
    if type == "Fused":
        known = all(name in KNOWN for name, *_ in attrs["steps"])
        return FusedKernel(xp, attrs, outputs[0], otherwise) if known else None
    if type in NAMES:
        return RowKernel(xp, NAMES[type], outputs[0], attrs["axis"], otherwise)
    return SparseKernel(xp, outputs[0], otherwise)
