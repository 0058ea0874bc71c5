"""Real text without a download: the help topics shipped with Python, as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2026", "''\"\"--.")  # quotes, dashes, ellipsis
_UNPRINTABLE = re.compile(r"[^\n -~]")  # all but newlines and printable ASCII, from space to tilde
_TABLE_LINE = re.compile(r"^ *[+|].*[+|]\n", re.M)  # a row, or the border between rows
_GAP = re.compile(" {5,}")


def load_text() -> str:
    """Return the topics of ``help()`` in alphabetical order, about 430,000 characters of English.

    Lines of tables are removed, and longer runs of spaces are shortened to four. Typographic quotes, dashes and
    ellipses become plain, and other characters outside of printable ASCII become ``?``.
    """
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name] for name in sorted(topics))
    return to_printable(_GAP.sub(" " * 4, _TABLE_LINE.sub("", text)))


def to_printable(text: str) -> str:
    """Return text in printable ASCII and newlines, of the same length."""
    return _UNPRINTABLE.sub("?", text.translate(_PLAIN))


@dataclass(frozen=True)
class Alphabet:
    """Characters known to a model, in the order of their numbers."""

    characters: str

    @classmethod
    def of(cls, text: str) -> Alphabet:
        """Return the characters of a text, sorted."""
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Array:
        """Return the numbers of characters, int32; ValueError lists unknown characters."""
        numbers = {c: i for i, c in enumerate(self.characters)}
        unknown = sorted(set(text) - set(numbers))
        if unknown:
            raise ValueError(f"the model has not seen these characters: {''.join(unknown)!r}")
        return np.array([numbers[c] for c in text], np.int32)

    def decode(self, numbers: Array) -> str:
        """Return the characters of numbers."""
        return "".join(self.characters[i] for i in numbers)


def split_held_out(numbers: Array, held_out: float = 0.05) -> tuple[Array, Array]:
    """Split a text into a head for training and a tail, a share `held_out`, for validation."""
    split = int(len(numbers) * (1 - held_out))
    return numbers[:split], numbers[split:]


@dataclass(frozen=True)
class Window:
    """A piece of several streams of text.

    Attributes
    ----------
    inputs, targets : int32 array of shape [length, batch]
        Numbers of characters, and of the characters after them.
    continues : bool
        True if the streams continue those of the window before.
    """

    inputs: Array
    targets: Array
    continues: bool


def cut_windows(numbers: Array, batch: int, length: int, offset: int = 0) -> Iterator[Window]:
    """Cut a text into parallel streams, and yield windows along them; the last may be shorter.

    Parameters
    ----------
    numbers : int32 array of shape [n]
        Numbers of characters.
    batch : int
        Number of streams.
    length : int
        Characters of each stream in a window.
    offset : int
        Characters left out at the beginning of the text.

    Raises
    ------
    ValueError
        If there is no character, and its successor, for each stream.
    """
    # Targets begin one character later, so that the text has one more character than the streams.
    size = (len(numbers) - 1 - offset) // batch
    if size < 1:
        raise ValueError(f"{len(numbers)} characters are too few for {batch} streams")
    inputs, targets = (numbers[offset + k :][: size * batch].reshape(batch, size).T for k in (0, 1))
    for start in range(0, size, length):
        window = slice(start, start + length)
        yield Window(np.ascontiguousarray(inputs[window]), np.ascontiguousarray(targets[window]), start > 0)


def cut_epochs(numbers: Array, batch: int, length: int, seed: int) -> Iterator[Window]:
    """Yield windows of full `length` endlessly; each pass through the text starts at a random offset."""
    random = np.random.default_rng(seed)
    while True:
        offset = int(random.integers(length))
        full = [w for w in cut_windows(numbers, batch, length, offset) if len(w.inputs) == length]
        if not full:
            raise ValueError(f"{len(numbers)} characters are too few for {batch} streams of {length}")
        yield from full
