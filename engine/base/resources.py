"""State shared between operations, of any kind: variables, TensorArrays, stacks.

A kind of state is a subclass of :class:`Resource` next to its operations, and known nowhere else. See
docs/design/0019-resources.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .turns import Turns


class Resource:
    """State that operations share by a handle; the defaults are for state which holds, awaits and saves nothing.

    Used only on the thread of the event loop, hence without locks.

    Attributes
    ----------
    turns : Turns or None
        Lock of state shared with threads; its holder has exclusive access. None for all other state.
    is_plain : bool
        True if the resource may be dropped without being closed, since nothing but memory is held.
    """

    __slots__ = ("__weakref__",)  # no others, so that subclasses may also have a base class in C
    turns: Turns | None = None
    is_plain: bool = False

    @property
    def label(self) -> str:
        """Label in errors about holders of memory."""
        return type(self).__name__

    def arrays(self) -> Iterable[Any]:
        """Return the arrays held now, on any device, or the SwappableArrays in their places.

        Statistics call this from any thread, so implementations first copy containers subject to change.
        """
        return ()

    def cancel(self, error: BaseException) -> None:
        """Wake all waiters with `error`, because the session is closed or the step owning the state ends early."""

    async def aclose(self) -> None:
        """Release all contents; the state is not used afterwards. Must not wait for a step."""

    def statistics(self) -> Any:
        """Return figures for the session's statistics as a frozen dataclass, from any thread; None for none."""
        return None

    def snapshot(self) -> Any:
        """Return a copy of the contents for saving: arrays in a structure of tuples, lists and dicts.

        A read-only array, or an array on another device than the host, may be returned itself, provided writers
        copy the array instead of changing a referenced array in place. None means nothing to save.
        """
        return None

    def restore(self, saved: object) -> Callable[[], object]:
        """Prepare to restore the contents of a `snapshot`; return a function to install them, which cannot fail.

        Raises
        ------
        Exception
            If the contents do not fit, or memory is lacking; the state is unchanged then.
        """
        raise NotImplementedError(f"{self.label} gives no snapshots")
