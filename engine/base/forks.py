"""Child processes made by ``fork()``: they have a copy of all objects, but only the thread that forked.

What a thread of the parent was in the middle of stays so for ever in the child, locks that it held included. So objects
with threads or locks of their own are told in the child, and a fork waits for work that a child could not do without.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakValueDictionary


class Stranded(Protocol):
    """An object that a child process cannot use as it is."""

    def strand(self, parent: int) -> None:
        """Note that this process is a child of the one that made the object, whose number is `parent`."""


_living: WeakValueDictionary[int, Stranded] = WeakValueDictionary()  # by identity: some have no hash
_called: list[Callable[[int], object]] = []


def strand_in_children(each: Stranded) -> None:
    """Notify an object in each child process that is forked while the object lives."""
    _living[id(each)] = each


def when_forked(function: Callable[[int], object]) -> None:
    """Call a function in each child process, with the number of its parent, before objects are told."""
    _called.append(function)


class Hold:
    """Work in threads that a fork waits for, as a child could neither finish it nor begin it anew.

    An import is such work: the lock of a module that a thread imports is never released in the child.

    Parameters
    ----------
    seconds : float
        Longest time that a fork waits, so that a thread which waits for the forking one in turn delays it only.

    Attributes
    ----------
    was_broken : bool
        Whether this process was forked in the middle of such work, because that took longer.
    """

    def __init__(self, seconds: float) -> None:
        self.was_broken: bool = False
        self._seconds = seconds
        self._change = threading.Condition(threading.Lock())
        self._threads: list[int] = []  # at work
        _holds.append(self)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Do such work inside."""
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
        """Wait until nobody is at work, and let nobody begin, in the process that is about to fork."""
        self._change.acquire()
        own = threading.get_ident()
        self._change.wait_for(lambda: all(thread == own for thread in self._threads), self._seconds)

    def after_in_parent(self) -> None:
        """Release the lock for the next thread."""
        self._change.release()

    def after_in_child(self) -> None:
        """Begin anew, with what the threads of the parent left."""
        self.was_broken = self.was_broken or any(thread != threading.get_ident() for thread in self._threads)
        self._threads.clear()
        self._change = threading.Condition(threading.Lock())


_holds: list[Hold] = []
building = Hold(1.0)  # tracing and compiling, which import modules and pause the garbage collector


def _before() -> None:
    for hold in _holds:
        hold.before()


def _after_in_parent() -> None:
    for hold in reversed(_holds):
        hold.after_in_parent()


def _after_in_child() -> None:
    for hold in _holds:
        hold.after_in_child()
    parent = os.getppid()
    for function in _called:
        function(parent)
    for each in list(_living.values()):
        each.strand(parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
