"""How replicas are run, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError
from ...runtime.scheduling.feeds import Feeds


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `Replicas.start`."""

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
        """Raise GraphError if they do not fit so many replicas."""
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
    """A gradient that an update did not wait for.

    Attributes
    ----------
    replica : int
        Whose it was.
    step : int
        Number of updates of the parameters that it was computed with.
    updates : int
        How many there were more when it came.
    seconds : float
        How long before it came the update that it was for had been made; 0 if that was under way.

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
    """What a replica has done.

    Attributes
    ----------
    replica : int
    state : {'running', 'restarting', 'ended', 'failed', 'cancelled'}
    steps : int
        Gradients computed.
    counted : int
        Of which updates were made.
    late : int
        Of which none were: an update did not wait for them.
    staleness : int
        How many updates others have made between what was read and what was changed, or was too late: over all steps.
    most_stale : int
        The most in one step.
    seconds_late : float
        What the late ones were late together.
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
