"""What state between operations is, whatever its kind: variables, TensorArrays, stacks.

A kind of state is a subclass of :class:`Resource` beside the operations that use it, and known nowhere else. See
docs/design/0019-resources.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .turns import Turns


class Resource:
    """State that operations share by a handle; the defaults are those of state that holds, awaits and saves nothing.

    Used on the loop's thread only, hence without locks.

    Attributes
    ----------
    turns : Turns or None
        Who has one is the only one to read or change it; None where no thread does that.
    is_plain : bool
        Whether it may be dropped without being closed, as it holds nothing but memory.
    """

    __slots__ = ("__weakref__",)  # nothing else, so that it stands beside a base class in C
    turns: Turns | None = None
    is_plain: bool = False

    @property
    def label(self) -> str:
        """What it is called in errors that say who holds memory."""
        return type(self).__name__

    def arrays(self) -> Iterable[Any]:
        """Return the arrays that it holds now, on whatever device, or the SwappableArrays in their places.

        Statistics ask from any thread, so what changes meanwhile is copied first.
        """
        return ()

    def cancel(self, error: BaseException) -> None:
        """Wake all that waits in it with `error`: its session is closed, or the step that made it ends early."""

    async def aclose(self) -> None:
        """Let go of what it holds; nobody uses it any longer. Must not wait for a step."""

    def statistics(self) -> Any:
        """Return its figures as a frozen dataclass, for the session's statistics, from any thread; None for none."""
        return None

    def snapshot(self) -> Any:
        """Return a copy of what it holds, to be saved: arrays in a structure of tuples, lists and dicts.

        An array that is read-only, or of another device than the host's, may be handed out itself, if it is not written
        in place as long as somebody holds it: it is copied then. None says that there is nothing to save.
        """
        return None

    def restore(self, saved: Any) -> Callable[[], object]:
        """Make what it takes to hold again what `snapshot` gave; return what puts that in its place and can not fail.

        Raises
        ------
        Exception
            If it does not fit, or there is no memory; then nothing has changed.
        """
        raise NotImplementedError(f"{self.label} gives no snapshots")
