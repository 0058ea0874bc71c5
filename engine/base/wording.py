"""How numbers and names are written for people, in errors and reports."""

from __future__ import annotations

import re

_HERE = re.compile(r"(?:/job:localhost)?(?:/replica:0)?(?:/task:0)?/device:([A-Z]+):(\d+)")
_LONGEST = 120  # characters of a line of source


def format_number(value: float) -> str:
    """Write a number to three digits, or all in front of the point.

    Examples
    --------
    >>> [format_number(value) for value in (1030.4, 12.345, 0.5)]
    ['1030', '12.3', '0.5']
    """
    return f"{value:.0f}" if 99.95 <= abs(value) < 1e15 else f"{value:.3g}"


def short_device(name: object) -> str:
    """Write the name of a device of this process without what they all have in common, any other in full.

    Examples
    --------
    >>> short_device("/job:localhost/task:0/device:CPU:1"), short_device("/job:worker/task:1/device:GPU:0")
    ('cpu:1', '/job:worker/task:1/device:GPU:0')
    """
    found = _HERE.fullmatch(str(name))
    return f"{found[1].lower()}:{found[2]}" if found else str(name)


def shortened(line: str) -> str:
    """Return a line of source, cut where it is very long."""
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
