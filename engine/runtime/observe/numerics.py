"""The guard of ``Session(check_numerics=True)``."""

from __future__ import annotations

from typing import Any

import numpy as np


def require_finite(array: np.ndarray[Any, Any]) -> None:
    """Raise FloatingPointError for NaN and infinity.

    Parameters
    ----------
    array : numpy.ndarray
        Result of a kernel, of a floating or complex dtype.

    Raises
    ------
    FloatingPointError
        If `array` holds NaN or infinity; the text counts them.
    """
    if np.isfinite(array).all():
        return
    counts = {"NaN": np.count_nonzero(np.isnan(array)), "Inf": np.count_nonzero(np.isinf(array))}
    found = " and ".join(f"{count} {word}" for word, count in counts.items() if count)
    raise FloatingPointError(f"gave {found} in an array of {array.dtype}{list(array.shape)}")
