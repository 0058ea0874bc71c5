"""Rules of native programs: see `engine/compile/native`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunsAs:
    """The type is executed other than by computing.

    Attributes
    ----------
    code : str
        Name of the Code that executes the type in a native program.
    """

    code: str
