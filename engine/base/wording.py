"""Numbers and names in human-readable form, for errors and reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_HERE = re.compile(r"(?:/job:localhost)?(?:/replica:0)?(?:/task:0)?/device:([A-Z]+):(\d+)")
_NAMED = 3  # things listed by name; the rest is counted
_LONGEST = 120  # characters of a line of source


def format_number(value: float) -> str:
    """Format a number to three digits, or with all digits before the point.

    Examples
    --------
    >>> [format_number(value) for value in (1030.4, 12.345, 0.5)]
    ['1030', '12.3', '0.5']
    """
    # From 1000 on, `.3g` would switch to an exponent.
    return f"{value:.0f}" if 99.95 <= abs(value) < 1e15 else f"{value:.3g}"


def short_device(name: object) -> str:
    """Shorten the name of a device of this process; return the name of any other device unchanged.

    Examples
    --------
    >>> short_device("/job:localhost/task:0/device:CPU:1"), short_device("/job:worker/task:1/device:GPU:0")
    ('cpu:1', '/job:worker/task:1/device:GPU:0')
    """
    found = _HERE.fullmatch(str(name))
    return f"{found[1].lower()}:{found[2]}" if found else str(name)


def shorten_line(line: str) -> str:
    """Return a line of source, truncated if very long."""
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def by_reason(reasons: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Group things by their reason.

    Examples
    --------
    >>> by_reason({"a": "is late", "b": "is lost", "c": "is late"})
    {'is late': ('a', 'c'), 'is lost': ('b',)}
    """
    found: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        found.setdefault(reason, []).append(name)
    return {reason: tuple(names) for reason, names in found.items()}


def sentences(reasons: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a sentence for each reason, with a few of its things by name.

    Examples
    --------
    >>> list(sentences({"is late": "abcde", "is lost": "f"}))
    ['a, b, c and 2 more, each of which is late', 'f is lost']
    """
    for reason, names in reasons.items():
        first, more = ", ".join(names[:_NAMED]), len(names) - _NAMED
        subject = f"{first} and {more} more" if more > 0 else first
        yield f"{subject}, each of which {reason}" if len(names) > 1 else f"{subject} {reason}"
