"""Timers that end steps which take longer than their timeout."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING

from ...base.errors import StepTimeout
from ...base.source_lines import Source, user_source
from .stalls import describe_order

if TYPE_CHECKING:
    from .machine import StepUnderWay

_logger = logging.getLogger("tagloom")
_NAMED = 4  # instances that the text of a timeout names
_NOTED = 40  # lines of state that its note holds


def start_timer(execution: StepUnderWay, timeout: float | None, what: str = "the step") -> asyncio.TimerHandle | None:
    """Start a timer that ends a step with StepTimeout after `timeout` seconds; `what` names the step in the error."""
    if timeout is None or timeout == inf:
        return None
    return asyncio.get_running_loop().call_later(timeout, _abort_expired, execution, timeout, what, user_source())


def _abort_expired(execution: StepUnderWay, timeout: float, what: str, source: Source | None) -> None:
    """Abort a step with a StepTimeout that names the active instances and the calls held up by them."""
    try:
        active, lines = execution.activity()
    except Exception:  # the step must end even if its state cannot be listed
        _logger.exception("what a step was doing could not be listed")
        active, lines = [], []
    names = ", ".join(active[:_NAMED]) + (", ..." if len(active) > _NAMED else "")
    order, hint = describe_order(execution.step, active)
    if order:
        names += f"; {order}"
    error = StepTimeout(
        f"{what} did not end within {timeout} s",
        wanted=f"at most {timeout} s",
        got=f"still waiting for {names}" if active else "still computing, a loop that does not end perhaps",
        source=source,
        hint=hint or "give it a longer timeout=, or look at what it was doing in the notes of this error",
    )
    # A note, since the text of an error should fit a line of a log.
    error.add_note("\n".join(lines[:_NOTED]))
    execution.abort(error)
