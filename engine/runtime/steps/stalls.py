"""Steps that stand still: the instances they wait for, and the calls held up only by the order of effects."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from ...compile.plan.plan import Plan
from ...kernels.core.table import Kind
from .compiled_step import CompiledStep, calls_python

SECONDS = 5.0  # between two looks at a step, which stands still if both find the same instances
_NAMED = 4  # operations that a text names
_ORDER = (
    "functions of py_function are called in the order in which they were built, each when the one before has ended: "
    "give those that wait for each other stateful=False"
)

_log = logging.getLogger("tagloom")


class Activity(NamedTuple):
    """Activity of a running step, for errors.

    Attributes
    ----------
    names : list of str
        Names of the active instances.
    lines : list of str
        Lines of state, as of each iteration what it waits for.
    """

    names: list[str]
    lines: list[str]


class HeldUpCalls(NamedTuple):
    """Text of the Python calls held up by active instances, and of the remedy; both empty if none are."""

    text: str = ""
    hint: str = ""


class Active(Protocol):
    """A step with active instances."""

    @property
    def step(self) -> CompiledStep: ...

    def active(self) -> list[str]:
        """Return the names of the instances under way."""
        ...

    def peer_waits(self) -> list[str]:
        """Return the instances that wait for other processes, with channel and peer."""
        ...


def held_up(step: CompiledStep, active: Iterable[str]) -> dict[str, list[str]]:
    """Return the Python calls waiting for other Python calls without using their results.

    Parameters
    ----------
    step : CompiledStep
    active : iterable of str
        Names of the instances under way.

    Returns
    -------
    dict of str to list of str
        By the name of an operation under way, the names of the operations held up by its order alone.
    """
    plan = step.plan
    calls = _python_kernels(plan)
    names = {instance.rsplit("@", 1)[0] for instance in active}
    found: dict[str, list[str]] = {}
    for i in sorted(calls):
        if plan.nodes[i].name in names:
            # Users of the data wait in any order of effects; only calls held up by the order alone can be freed.
            users = set(_dependent_nodes(plan, i, data_alone=True))
            delayed = [plan.nodes[k].name for k in _dependent_nodes(plan, i) if k in calls and k not in users]
            if delayed:
                found[plan.nodes[i].name] = delayed
    return found


def _python_kernels(plan: Plan) -> set[int]:
    return {i for i, node in enumerate(plan.nodes) if node.kind is Kind.KERNEL and calls_python(node.type)}


def _dependent_nodes(plan: Plan, start: int, data_alone: bool = False) -> Iterator[int]:
    """Yield the nodes that wait for node `start` within its iteration: along all edges, or along data edges."""
    seen, left = {start}, deque([start])
    while left:
        i = left.popleft()
        after = [consumer for edges in plan.data_edges[i] for consumer, _ in edges]
        for k in after if data_alone else [*after, *plan.control_edges[i]]:
            if k not in seen and plan.nodes[k].kind is not Kind.NEXT_ITERATION:
                seen.add(k)
                left.append(k)
                yield k


def describe_order(step: CompiledStep, active: Iterable[str]) -> HeldUpCalls:
    """Return texts of the calls held up by active instances, and of the remedy."""
    found = held_up(step, active)
    if not found:
        return HeldUpCalls()
    sources = {node.name: node.source for node in step.plan.nodes}
    texts = [
        f"{name}, built at {sources[name]}, holds up {_list_names(delayed)}"
        for name, delayed in list(found.items())[:_NAMED]
    ]
    return HeldUpCalls("; ".join(texts), _ORDER)


def _list_names(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


class StallTimer:
    """Timer that looks at a waiting step now and then, and logs once if the step stands still.

    The log names Python calls that hold up others, watches whose reader does not read, and messages that a silent
    process has not sent. A step may wait for anything else without limit, as servers do for requests.

    Parameters
    ----------
    execution : Active
    """

    def __init__(self, execution: Active) -> None:
        self._execution = execution
        self._last: set[str] | None = None
        self._timer = asyncio.get_running_loop().call_later(SECONDS, self._check_progress)

    def cancel(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _check_progress(self) -> None:
        """Compare the active instances with the previous look; log a step that stands still, or look again later."""
        active = set(self._execution.active())
        if active and active == self._last and self._log_standstill(sorted(active)):
            return
        self._last = active
        self._timer = asyncio.get_running_loop().call_later(SECONDS, self._check_progress)

    def _log_standstill(self, active: list[str]) -> bool:
        """Log the cause of a standstill; return False if the step waits for anything that may take its time."""
        step = self._execution.step
        order, hint = describe_order(step, active)
        if order:
            _log.warning("a step stands still: it waits for %s; %s. Try: %s", _list_names(active), order, hint)
            return True
        unread = sorted({step.shows[name] for each in active if (name := each.rsplit("@", 1)[0]) in step.shows})
        # Only if all that is active are watches: else the step still waits for something that may end by itself.
        if unread and len(unread) == len({each.rsplit("@", 1)[0] for each in active}):
            _log.warning(
                "a step stands still: it waits for the reader of the watch of %s; read on, close the watch, or make it "
                "with policy='latest'",
                _list_names(unread),
            )
            return True
        if waits := self._execution.peer_waits():
            _log.warning("a step stands still: it waits for other processes: %s", _list_names(waits))
            return True
        return False


def stall_timer(execution: Active) -> StallTimer | None:
    """Return a StallTimer for an execution; None for a step without watches, Python calls and other processes."""
    if execution.step.watched or execution.step.calls_python or execution.step.remote:
        return StallTimer(execution)
    return None
