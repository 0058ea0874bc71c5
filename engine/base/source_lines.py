"""Find the user's line: the innermost stack entry outside the package."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import threading
from contextvars import Context, ContextVar
from dataclasses import dataclass

from .wording import shortened

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DEMO = os.path.join(_PACKAGE, "demo") + os.sep  # written as a user would
_LIBRARY = os.path.dirname(contextlib.__file__)  # Python's own; a graph needs neither of these packages to be loaded
_LOOP, _POOL = (os.path.join(_LIBRARY, *parts, "") for parts in (("asyncio",), ("concurrent", "futures")))
_NOT_THE_USER = (_PACKAGE, _LOOP, _POOL, contextlib.__file__, threading.__file__, "<")


@dataclass(frozen=True, slots=True)
class Source:
    """A line of user code: where an operation was asked for."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        code = shortened(linecache.getline(self.file, self.line).strip())
        return f"{self.file}:{self.line} in {self.function}" + (f": {code}" if code else "")


_caller: ContextVar[Source | None] = ContextVar("tagloom_caller", default=None)


def user_source() -> Source | None:
    """Return the innermost line outside the package and the event loop, or None when there is none.

    In a thread that works for somebody it is the line that `note_caller` has noted.
    """
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_DEMO) or not file.startswith(_NOT_THE_USER):
            return Source(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return _caller.get()


def note_caller(context: Context) -> None:
    """Note the user's line now in a context in which a thread will work, on whose stack the line is not."""
    context.run(_caller.set, user_source())
