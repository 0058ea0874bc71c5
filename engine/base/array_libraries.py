"""Array libraries with which kernels compute: NumPy, or one of the same functions."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_numpy(xp: Any) -> bool:
    """Return True for NumPy, and for what stands for it while a kernel is traced (kernels/native/tracing/kernel.py)."""
    return xp is np or is_traced(xp)


def is_traced(xp: Any) -> bool:
    """Return True for what stands for NumPy while a kernel is traced, with arrays whose elements it cannot look at."""
    return bool(getattr(xp, "stands_for_numpy", False))
