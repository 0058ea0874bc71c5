"""Synchronous wrappers of steps, streams and partial runs, returned by a SyncSession."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ...base.errors import SessionClosed

if TYPE_CHECKING:
    from ..observe.trace import Trace
    from ..steps.partial.partial_run import PartialRun
    from ..steps.report.report import Report
    from ..steps.step import Step
    from ..steps.stream import StepStream

Call = Callable[..., Any]  # ``call(function, *args)`` awaits ``function(*args)`` in the session's loop
_END = object()


R_co = TypeVar("R_co", covariant=True)


class SyncStep(Generic[R_co]):
    """A Step of a SyncSession, called with the fed values in the order of its feeds.

    Parameters
    ----------
    step : Step
    call : callable
        Awaits a coroutine function in the session's loop.
    """

    def __init__(self, step: Step[R_co], call: Call) -> None:
        self._step = step
        self._call = call

    def __repr__(self) -> str:
        return repr(self._step).replace("<Step", "<SyncStep", 1)

    def _repr_html_(self) -> str:
        """Return the HTML of the step, as a notebook shows a Step."""
        return self._step._repr_html_()

    def __call__(
        self,
        *values: Any,
        timeout: float | None = None,
        trace: Trace | None = None,
        report: Report | None = None,
        priority: int | None = None,
    ) -> R_co:
        """Run the step and return the fetched values; see :meth:`Session.run`."""
        result: R_co = self._call(self._step, *values, timeout=timeout, trace=trace, report=report, priority=priority)
        return result

    def stream(
        self,
        tensor: Any,
        *values: Any,
        limit: int = 16,
        policy: str = "block",
        timeout: float | None = None,
        trace: Trace | None = None,
        priority: int | None = None,
    ) -> SyncStream:
        """Run the step, and read the values of a tensor as they are computed: ``for value in step.stream(...)``.

        `tensor`, `values`, `limit`, `policy`, `timeout`, `trace` and `priority` are as of :meth:`Step.stream`.
        """
        options: dict[str, Any] = {"limit": limit, "policy": policy, "timeout": timeout, "priority": priority}
        stream = self._step.stream(tensor, *values, trace=trace, **options)
        return SyncStream(stream, self._call)

    def to_text(self) -> str:
        """Return the operations of each device, one per line, and the channels between devices."""
        return self._step.to_text()

    def to_dot(self) -> str:
        """Return the operations and channels in Graphviz's language, for ``dot -Tsvg``."""
        return self._step.to_dot()


class SyncStream:
    """A StepStream of a SyncSession: iterate with ``for``; ``with`` ends its run early.

    Parameters
    ----------
    stream : StepStream
    call : callable
        Awaits a coroutine function in the session's loop.
    """

    def __init__(self, stream: StepStream, call: Call) -> None:
        self._stream = stream
        self._call = call

    def __repr__(self) -> str:
        return repr(self._stream).replace("<StepStream", "<SyncStream", 1)

    def __iter__(self) -> SyncStream:
        return self

    def __next__(self) -> np.ndarray[Any, Any]:
        value = self._call(_next_or_end, self._stream)
        if value is _END:
            raise StopIteration
        return value  # type: ignore[no-any-return]

    def __enter__(self) -> SyncStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def result(self) -> Any:
        """Return the fetched values, once the run has ended; see :meth:`StepStream.result`."""
        return self._call(self._stream.result)

    def close(self) -> None:
        """End the run, if still running, and wait for its end; repeated calls and calls after the session are fine."""
        with suppress(SessionClosed):  # the session's end has ended the run
            self._call(self._stream.aclose)


class SyncPartialRun:
    """A PartialRun of a SyncSession; ``with`` closes it.

    Parameters
    ----------
    handle : PartialRun
    close : callable
        Closes the partial run in the session's loop.

    Attributes
    ----------
    handle : PartialRun
    done : bool
        True if no more parts can be run.
    """

    def __init__(self, handle: PartialRun, close: Callable[[], None]) -> None:
        self.handle = handle
        self._close = close

    def __enter__(self) -> SyncPartialRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def done(self) -> bool:
        """True if no more parts can be run."""
        return self.handle.done

    def close(self) -> None:
        """End the step, if still running, and wait for its end; repeated calls and calls after the session are fine."""
        if not self.handle.done:
            self._close()


async def _next_or_end(stream: StepStream) -> Any:
    return await anext(stream, _END)
