"""Child processes made by ``fork()``: they have a copy of what a session is, but not the threads that it works with."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet


class Stranded(Protocol):
    """What is of no use in a child process."""

    def strand(self, parent: int) -> None:
        """Note that this process is a child of the one that made the object, whose number is `parent`."""


_living: WeakSet[Stranded] = WeakSet()
_called: list[Callable[[int], object]] = []


def strand_in_children(each: Stranded) -> None:
    """Have an object told in each child process that is forked while it lives."""
    _living.add(each)


def when_forked(function: Callable[[int], object]) -> None:
    """Call a function in each child process, with the number of its parent, before objects are told."""
    _called.append(function)


def _strand_all() -> None:
    parent = os.getppid()
    for function in _called:
        function(parent)
    for each in list(_living):
        each.strand(parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_strand_all)
