"""State of a running step."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .plan import CompiledPlan
from .rendezvous import Rendezvous
from .tracing import Recorder
from .workers import Workers

def live_counts() -> dict[str, int]:
    """Return how many frames, iterations and values all machines of the process hold now."""

class StepState:
    """An execution of a compiled plan."""

    def __init__(
        self,
        compiled: CompiledPlan,
        step_context: Any,
        feeds: Sequence[Any],
        shuffle_seed: int | None = None,
        guard: Callable[[Any], None] | None = None,
        recorder: Recorder | None = None,
        workers: Workers | None = None,
        rendezvous: Rendezvous | None = None,
        submit: Callable[[int, int], Awaitable[tuple[float, float]] | None] | None = None,
        swap: Any = None,
    ) -> None: ...
    @property
    def compiled(self) -> CompiledPlan: ...
    @property
    def step(self) -> Any: ...
    @property
    def submit(self) -> Any: ...
    @property
    def failure(self) -> tuple[int, str, BaseException, list[tuple[int, ...] | None]] | None:
        """Node (-1 for `abort`), tag, error and shapes of the inputs; None while nothing has failed."""

    @property
    def done(self) -> bool:
        """True if nothing is ready and nothing on its way."""

    @property
    def pending(self) -> int:
        """Number of asynchronous instances not finished."""

    @property
    def offloaded(self) -> set[Any]:
        """The OffloadedWork objects handed over and not delivered yet."""

    @property
    def fetches(self) -> list[Any]:
        """The fetched values: arrays, or DEAD where no value came."""

    def launches(self) -> list[tuple[int, Any, int, str]]:
        """Return (ticket, awaitable, node, tag) of the asynchronous instances started since the last call."""

    def finish(self, ticket: int, result: Any) -> None:
        """Deliver the result of an asynchronous instance; to be followed by a drain."""

    def fail(self, ticket: int, exception: BaseException) -> None:
        """Fail the step with the error of an asynchronous instance."""

    def abort(self, exception: BaseException) -> None:
        """Stop the step: drop all ready work and all values. An earlier error stays."""

    @property
    def can_progress(self) -> bool:
        """True if a drain would find ready instances, or parked instances for which memory may have been released."""

    @property
    def blocked_on_memory(self) -> bool:
        """True if the step waits for memory to be released by others."""

    @property
    def swaps(self) -> list[Any]:
        """The swapper, if the step has one."""

    def switch_outcomes(self) -> dict[int, bool | int | None]:
        """Return which way the Switches of the root frame went, by node; None if dead."""

    def dump(self) -> list[str]:
        """Return lines about the waiting, running and held values of each iteration."""

    def close(self) -> None:
        """Release everything; closing twice is allowed."""
