"""Find the user's line: the innermost stack entry outside the package."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import threading
from contextvars import Context, ContextVar
from dataclasses import dataclass
from types import FrameType

from .wording import shorten_line

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NAME = __name__.partition(".")[0] + "."
_DEMO = os.path.join(_PACKAGE, "demo") + os.sep  # counts as user code
_LIBRARY = os.path.dirname(contextlib.__file__)  # Python's own; a graph needs neither of these packages to be loaded
_LOOP, _POOL = (os.path.join(_LIBRARY, *parts, "") for parts in (("asyncio",), ("concurrent", "futures")))
# "<" begins the names of code without a file, such as "<frozen importlib._bootstrap>".
_NOT_THE_USER = (_PACKAGE, _LOOP, _POOL, contextlib.__file__, threading.__file__, "<")


@dataclass(frozen=True, slots=True)
class Source:
    """A line of user code at which an operation was built."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        code = shorten_line(linecache.getline(self.file, self.line).strip())
        return f"{self.file}:{self.line} in {self.function}" + (f": {code}" if code else "")


_caller: ContextVar[Source | None] = ContextVar("tagloom_caller", default=None)


def user_source() -> Source | None:
    """Return the innermost line outside the package and the event loop, or None without any.

    In a worker thread, return the line noted by `note_caller`.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_DEMO) or not (file.startswith(_NOT_THE_USER) or _is_of_package(frame)):
            return Source(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return _caller.get()


def _is_of_package(frame: FrameType) -> bool:
    """Return True for code of a subpackage, wherever its folder is: beside `engine` in the repository."""
    return str(frame.f_globals.get("__name__", "")).startswith(_NAME)


def note_caller(context: Context) -> None:
    """Record the user's current line in the context of a thread, whose own stack does not contain the line."""
    context.run(_caller.set, user_source())
