"""Options and statistics of running replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError
from ...runtime.runners.feeds import Feeds


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `Replicas.start`, which has more on each.

    Attributes
    ----------
    steps : int or None
        Number of updates after which training ends.
    feeds, fetches : sequence or None
        An item for each replica.
    on_step : callable or None
        ``on_step(replica, values)``, called after each step of a replica.
    on_update : callable or None
        ``on_update(updates)``, called after each update.
    restarts : float
        Most restarts of each replica, perhaps infinite.
    backoff, longest_backoff : float
        Seconds before the first restart, doubled before each following restart, and the most seconds.
    minimum : int or None
        Number of replicas required to remain after a final failure.
    """

    steps: int | None
    feeds: Sequence[Feeds] | None
    fetches: Sequence[Any] | None
    on_step: Callable[[int, Any], object] | None
    on_update: Callable[[int], object] | None
    restarts: float
    backoff: float
    longest_backoff: float
    minimum: int | None

    def check(self, count: int) -> None:
        """Raise GraphError if the options do not fit `count` replicas."""
        for name, each in (("feeds", self.feeds), ("fetches", self.fetches)):
            if each is not None and len(each) != count:
                raise GraphError(
                    f"{name} of replicas are one for each",
                    wanted=f"{count} of them",
                    got=len(each),
                    hint=f"{name}=[...]",
                )
        for name, number in (("steps", self.steps), ("minimum", self.minimum)):
            if number is not None and number < 0:
                raise GraphError(f"{name} is no number", wanted="0 or more", got=number, hint="leave it out")


@dataclass(frozen=True, slots=True)
class LateGradient:
    """A gradient that came after its update.

    Attributes
    ----------
    replica : int
        Number of the replica that computed the gradient.
    step : int
        Number of updates in the parameters used for the gradient.
    updates : int
        Number of further updates before the gradient arrived.
    seconds : float
        Time from the end of the missed update to the arrival of the gradient; 0 if the update was under way.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.training.LateGradient(replica=2, step=10, updates=3, seconds=4.5)
    LateGradient(replica=2, step=10, updates=3, seconds=4.5)
    """

    replica: int
    step: int
    updates: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """Counts and state of a replica, since the start of training.

    Attributes
    ----------
    replica : int
        Number of the replica.
    state : {'running', 'restarting', 'ended', 'failed', 'cancelled'}
    steps : int
        Gradients computed.
    counted : int
        Gradients used in updates.
    late : int
        Gradients dropped, because their updates did not wait.
    staleness : int
        Updates made by others between a step's read of the parameters and its own update (or its arrival, if late),
        summed over all steps.
    most_stale : int
        Largest staleness of one step.
    seconds_late : float
        Total delay of late gradients.
    restarts : int
    last_error : str or None

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(3.0)
    ...     replicas = tg.training.SyncReplicas(tg.training.GradientDescentOptimizer(0.1), replicas=2)
    ...     _ = replicas.minimize(w * w), replicas.minimize(w * w)
    ...     init = tg.global_variables_initializer()
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         await session.run(init)
    ...         async with tg.runners(session) as group:
    ...             training = replicas.start(group, steps=5)
    ...         return [(each.replica, each.counted) for each in training.statistics()]
    >>> asyncio.run(main())
    [(0, 5), (1, 5)]
    """

    replica: int
    state: str
    steps: int
    counted: int
    late: int
    staleness: int
    most_stale: int
    seconds_late: float
    restarts: int
    last_error: str | None
