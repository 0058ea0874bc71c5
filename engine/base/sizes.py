"""Numbers of bytes in human-readable form: ``512MiB``."""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

from .errors import GraphError
from .wording import format_number

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)
_HINT = "write bytes as an int, or '512MiB', '1.5 GiB', '800 MB' (kB, MB, GB, TB: powers of 1000; KiB ... of 1024)"


def parse_size(size: SupportsIndex | str, name: str = "size", least: int = 1) -> int:
    """Parse a number of bytes.

    Parameters
    ----------
    size : int or str
        Bytes, or a number with a unit in upper or lower case.
    name : str
        Name of the quantity, for the error.
    least : int
        The smallest size allowed, 0 or 1.

    Returns
    -------
    int
        Bytes; fractions of a byte are dropped.

    Raises
    ------
    GraphError
        If the value is no size, or less than `least`.

    Examples
    --------
    >>> parse_size("512MiB")
    536870912
    """
    try:
        found = _parse_size(size) if isinstance(size, str) else operator.index(size)
    except (TypeError, ValueError, OverflowError):
        found = -1
    # True is an int in Python, but no size.
    if isinstance(size, bool) or not least <= found < 1 << 63:
        wanted = "a number above zero" if least else "zero, or a number above it"
        raise GraphError(f"not a size in bytes: {name}", wanted=wanted, got=repr(size), hint=_HINT)
    return found


def _parse_size(text: str) -> int:
    """Return the number of bytes in a text, -1 if malformed."""
    match = _FORM.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        return -1
    # Whole numbers avoid float, which rounds above 2**53.
    return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


def format_size(size: int) -> str:
    """Format a number of bytes in the largest binary unit with a value of at least 1, to three digits.

    Examples
    --------
    >>> format_size(1536), format_size(300), format_size(-5 << 20)
    ('1.5 KiB', '300 B', '-5 MiB')
    """
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1000 or unit == "TiB":
            break
        value /= 1024
    return f"{format_number(value)} {unit}"
