"""Array libraries with which kernels compute: NumPy, or one of the same functions."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_numpy(xp: Any) -> bool:
    """Return True for NumPy, and for what stands for it while a kernel is traced (kernels/native/tracing/kernel.py)."""
    return xp is np or getattr(xp, "stands_for_numpy", False)
