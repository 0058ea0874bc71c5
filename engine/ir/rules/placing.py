"""Rules of placement, and of sessions that keep state: see `engine/compile/place`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TakesPart:
    """The result is a part of the first input, as of Gather or Slice.

    The operation runs on the device of this input, so only the part is sent to another device.
    """


@dataclass(frozen=True, slots=True)
class OutlivesStep:
    """The result is a handle of state kept by the session between steps, so all steps find the state on one device.

    Attributes
    ----------
    from_outside : bool
        True if the state is filled from outside the graph: no step adds elements.
    """

    from_outside: bool = False
