"""Child processes made by ``fork()``: they have a copy of all objects, but only the thread that forked.

Operations in progress in other threads of the parent stay unfinished for ever in the child, and their locks
held. So objects with threads or locks of their own are notified in the child, and a fork waits for work without which
a child could not continue.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakValueDictionary


class Stranded(Protocol):
    """An object unusable in a child process until reset."""

    def strand(self, parent: int, /) -> None:
        """Reset the object in a child process; `parent` is the process id of the parent."""


_living: WeakValueDictionary[int, Stranded] = WeakValueDictionary()  # by identity: some have no hash
_called: list[Callable[[int], object]] = []


def strand_in_children(each: Stranded) -> None:
    """Notify an object in each child process forked while the object lives."""
    _living[id(each)] = each


def when_forked(function: Callable[[int], object]) -> None:
    """Register a function called in each child process, with the id of its parent, before objects are notified."""
    _called.append(function)


class Hold:
    """Work in threads which delays a fork, because a child could neither finish the work nor restart it.

    An import is such work: the lock of a module that another thread imports is never released in the child.

    Parameters
    ----------
    seconds : float
        Longest wait of a fork: a bound, because a working thread may itself be waiting for the forking thread.

    Attributes
    ----------
    was_broken : bool
        True if this process was forked during such work, after the longest wait.
    """

    def __init__(self, seconds: float) -> None:
        self.was_broken: bool = False
        self._seconds = seconds
        self._change = threading.Condition(threading.Lock())
        self._threads: list[int] = []  # identifiers of threads at work; one thread may be listed several times
        _holds.append(self)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Mark the block as such work."""
        with self._change:
            self._threads.append(threading.get_ident())
        change = self._change
        try:
            yield
        finally:
            if change is self._change:  # else this thread has forked inside, and is the child's only one
                with change:
                    self._threads.remove(threading.get_ident())
                    change.notify_all()

    def before(self) -> None:
        """Wait until no other thread is at work, and keep new work from beginning, in a process about to fork."""
        self._change.acquire()
        own = threading.get_ident()
        self._change.wait_for(lambda: all(thread == own for thread in self._threads), self._seconds)

    def after_in_parent(self) -> None:
        """Release the lock taken by `before`."""
        self._change.release()

    def after_in_child(self) -> None:
        """Reset the state, and remember whether threads of the parent were at work."""
        self.was_broken = self.was_broken or any(thread != threading.get_ident() for thread in self._threads)
        self._threads.clear()
        self._change = threading.Condition(threading.Lock())


_holds: list[Hold] = []
building = Hold(1.0)  # tracing and compiling, which import modules and pause the garbage collector


def _hold_before_fork() -> None:
    for hold in _holds:
        hold.before()


def _after_in_parent() -> None:
    # Locks are released in reverse order of acquisition.
    for hold in reversed(_holds):
        hold.after_in_parent()


def _after_in_child() -> None:
    """Reset the holds, call the registered functions, and notify the living objects."""
    for hold in _holds:
        hold.after_in_child()
    parent = os.getppid()
    for function in _called:
        function(parent)
    # A list, since objects may be collected while the others are notified.
    for each in list(_living.values()):
        each.strand(parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
