"""Helpers of string kernels: Python functions applied to each element."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from ...base import dtypes
from ..support.interpreter import BLOCK, iterate_elements

Array = np.ndarray[Any, Any]


def _iterate_blocks(values: Iterable[Any]) -> Iterator[list[Any]]:
    remaining = iter(values)
    # `iter` ends at the first empty block.
    return iter(lambda: list(islice(remaining, BLOCK)), [])


def make_strings(values: Iterable[str], shape: tuple[int, ...]) -> Array:
    """Return an array of strings, of which at most a block exist as Python strings at once."""
    result = np.empty(shape, dtypes.string.numpy)
    flat = result.reshape(-1)
    for i, block in enumerate(_iterate_blocks(values)):
        flat[i * BLOCK : i * BLOCK + len(block)] = block
    return result


def make_string_vector(values: Iterable[str]) -> Array:
    """Return a vector of the strings of an iterable of unknown length."""
    kind = dtypes.string.numpy
    return np.concatenate([np.empty(0, kind), *(np.array(block, kind) for block in _iterate_blocks(values))])


def make_numbers(values: Iterable[Any], dtype: Any, shape: tuple[int, ...]) -> Array:
    """Return an array of numbers."""
    return np.fromiter(values, dtype, math.prod(shape)).reshape(shape)


def join_texts(texts: Iterable[str], separator: str) -> str:
    """Join strings, a block at a time."""
    return separator.join([separator.join(block) for block in _iterate_blocks(texts)])


def python_calls(x: Array, *_: Any, **__: Any) -> int:
    """Return the cost of a Python call for each element of `x`, in elements of an array operation."""
    return 100 * x.size


def kernel_for_each(function: Callable[[str], str]) -> Callable[..., Array]:
    """Return a kernel applying a Python function to each string."""
    return lambda xp, x: make_strings((function(text) for text in iterate_elements(x)), x.shape)


def cut_text(text: str, start: int, length: int, as_bytes: bool) -> str:
    """Return a substring; ValueError for a start outside, a negative length, or a character cut in two."""
    whole: Any = text.encode() if as_bytes else text
    if not -len(whole) <= start <= len(whole) or length < 0:
        raise ValueError(f"substr: there are no {length} from {start} in {text!r}, which has {len(whole)}")
    first = start + len(whole) if start < 0 else start
    part = whole[first : first + length]
    try:
        return str(part.decode() if as_bytes else part)
    except UnicodeDecodeError:
        raise ValueError(
            f"substr: {length} bytes from {start} end inside a character of {text!r}; try unit='UTF8_CHAR'"
        ) from None


def replace_matches(pattern: re.Pattern[str], template: str, text: str, count: int) -> str:
    """Replace the matches of a pattern, except an empty match directly after another, which Python would replace."""
    end = -1

    def expand_match(match: re.Match[str]) -> str:
        nonlocal end
        # RE2, and so TensorFlow, has no empty match where the previous match ended.
        is_again = match.start() == match.end() == end
        end = match.end()
        return "" if is_again else match.expand(template)

    return pattern.sub(expand_match, text, count)


def split_text(text: str, separators: str, skip_empty: bool) -> list[str]:
    """Split a string at each of the separators, or into characters without separators."""
    found = re.split(f"[{re.escape(separators)}]", text) if separators else list(text)
    return [piece for piece in found if piece] if skip_empty else found
