"""Steps that stand still: what they wait for, and what is held up by that because of the order of effects."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from ...compile.plan.plan import Plan
from ...kernels.core.table import Kind
from .compiled_step import CompiledStep, calls_python

SECONDS = 5.0  # between two looks at a step; one that waits for the same at both stands still
_NAMED = 4  # operations that a text names
_ORDER = (
    "functions of py_function are called in the order in which they were built, each when the one before has ended: "
    "give those that wait for each other stateful=False"
)

_log = logging.getLogger("tagloom")


class Running(Protocol):
    """An execution of a step."""

    step: CompiledStep

    def active(self) -> list[str]:
        """Return the names of the instances that are under way."""


def held_up(step: CompiledStep, active: Iterable[str]) -> dict[str, list[str]]:
    """Return the calls of Python that wait for others, although they use nothing of what these return.

    Parameters
    ----------
    step : CompiledStep
    active : iterable of str
        Names of instances that are under way.

    Returns
    -------
    dict of str to list of str
        By the name of an operation that is under way, the names of those behind it.
    """
    plan = step.plan
    calls = _calls(plan)
    names = {instance.rsplit("@", 1)[0] for instance in active}
    found: dict[str, list[str]] = {}
    for i in sorted(calls):
        if plan.nodes[i].name in names:
            users = set(_reached(plan, i, data_alone=True))
            behind = [plan.nodes[k].name for k in _reached(plan, i) if k in calls and k not in users]
            if behind:
                found[plan.nodes[i].name] = behind
    return found


def _calls(plan: Plan) -> set[int]:
    return {i for i, node in enumerate(plan.nodes) if node.kind is Kind.KERNEL and calls_python(node.type)}


def _reached(plan: Plan, start: int, data_alone: bool = False) -> Iterator[int]:
    """Yield the nodes that wait for one, within its iteration: by all edges, or by those of data."""
    seen, left = {start}, deque([start])
    while left:
        i = left.popleft()
        after = [consumer for edges in plan.data_edges[i] for consumer, _ in edges]
        for k in after if data_alone else [*after, *plan.control_edges[i]]:
            if k not in seen and plan.nodes[k].kind is not Kind.NEXT_ITERATION:
                seen.add(k)
                left.append(k)
                yield k


def describe_order(step: CompiledStep, active: Iterable[str]) -> tuple[str, str]:
    """Return what is held up by what is under way, and what to try; two empty texts if nothing is."""
    found = held_up(step, active)
    if not found:
        return "", ""
    sources = {node.name: node.source for node in step.plan.nodes}
    texts = [
        f"{name}, built at {sources[name]}, holds up {_listed(behind)}" for name, behind in list(found.items())[:_NAMED]
    ]
    return "; ".join(texts), _ORDER


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


class StallTimer:
    """Looks now and then at a step that waits, and logs once that it stands still.

    It tells of calls of Python that hold up others, and of watches whose reader does not read. A step may wait for
    anything else as long as it likes, as servers do for requests.

    Parameters
    ----------
    execution : Running
    """

    def __init__(self, execution: Running) -> None:
        self._execution = execution
        self._last: set[str] | None = None
        self._timer = asyncio.get_running_loop().call_later(SECONDS, self._look)

    def cancel(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        active = set(self._execution.active())
        if active and active == self._last and self._tell(sorted(active)):
            return
        self._last = active
        self._timer = asyncio.get_running_loop().call_later(SECONDS, self._look)

    def _tell(self, active: list[str]) -> bool:
        """Log what holds the step up; say whether that is anything to tell of."""
        step = self._execution.step
        order, hint = describe_order(step, active)
        if order:
            _log.warning("a step stands still: it waits for %s; %s. Try: %s", _listed(active), order, hint)
            return True
        unread = sorted({step.shows[name] for each in active if (name := each.rsplit("@", 1)[0]) in step.shows})
        if unread and len(unread) == len({each.rsplit("@", 1)[0] for each in active}):
            _log.warning(
                "a step stands still: it waits for the reader of the watch of %s; read on, close the watch, or make it "
                "with policy='latest'",
                _listed(unread),
            )
            return True
        return False


def stall_timer(execution: Running) -> StallTimer | None:
    """Return what looks at a step that waits; None if it has nothing that would be told of."""
    if execution.step.watched or execution.step.calls_python:
        return StallTimer(execution)
    return None
