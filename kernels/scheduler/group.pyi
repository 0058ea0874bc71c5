"""Group of the step machines of a partitioned step, with the interface of a single StepMachine."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..memory.contexts import KernelContexts
from .machine import StepMachine
from .plan import CompiledPlan
from .rendezvous import RemoteChannel, Rendezvous

class PeerWait(NamedTuple):
    """An instance waiting for a peer: a Recv for its message, or a Send for the transport to take its message."""

    tag: str
    channel: RemoteChannel
    peer: str
    is_sent: bool

class MachineGroup:
    """An execution of a partitioned step; `fetches` maps each fetch to a machine and the number of its fetch there."""

    rendezvous: Rendezvous

    def __init__(
        self,
        machines: list[StepMachine],
        contexts: list[KernelContexts],
        rendezvous: Rendezvous,
        fetches: list[tuple[int, int]],
    ) -> None: ...
    def drain(self, seconds: float) -> bool:
        """Run ready instances of all machines until there are none, or for about `seconds`; return True if more are
        ready.
        """

    def launches(self) -> list[tuple[Any, Any, int, str]]:
        """Return the asynchronous instances started since the last call."""

    def finish(self, ticket: Any, result: Any) -> None:
        """Deliver the result of an asynchronous instance; to be followed by a drain."""

    def fail(self, ticket: Any, exception: BaseException) -> None:
        """Fail the step with the error of an asynchronous instance."""

    def abort(self, exception: BaseException) -> None:
        """Stop the step; an earlier error stays."""

    def close(self) -> None:
        """Release everything; closing twice is allowed."""

    @property
    def failure(self) -> tuple[int, str, BaseException, Sequence[Any]] | None:
        """The first failure, as `StepMachine.failure`, or None."""

    @property
    def compiled(self) -> CompiledPlan:
        """The compiled plan of the machine with `failure`; of the first machine if there is none."""

    def switch_outcomes(self) -> dict[str, Any]:
        """Return the outcomes of the root frames' Switches, as `StepMachine.switch_outcomes`, but by name."""

    @property
    def submits(self) -> list[Any]:
        """The `submit` callback of each machine."""

    @property
    def bytes_held(self) -> list[tuple[int, int]]:
        """Bytes in use by arrays of each machine, and their maximum so far; zeros for a machine without a limit."""

    @property
    def swaps(self) -> list[Any]:
        """Swappers of the machines with a swapper."""

    @property
    def done(self) -> bool:
        """True if nothing is ready, on its way or awaited from peers."""

    @property
    def can_progress(self) -> bool:
        """True if a drain would find ready instances, or parked instances for which memory may have been released."""

    @property
    def blocked_on_memory(self) -> bool:
        """True if the step waits for memory to be released by others; a message of a peer may release some too."""

    def fail_out_of_memory(self) -> None:
        """Fail the step, because no memory will be released for its parked instances."""

    @property
    def stuck(self) -> bool:
        """True if a finished step has instances waiting for messages, or messages without an instance."""

    @property
    def pending(self) -> int:
        """Number of asynchronous instances not finished."""

    @property
    def offloaded(self) -> bool:
        """True if workers have work of this step."""

    def expect(self, descriptor: int) -> bool:
        """Ask workers to write to a descriptor when they have done some work; return False if some is done already."""

    @property
    def fetches(self) -> list[Any]:
        """The fetched values, in the order of the step's fetches: arrays, or DEAD for a dead value."""

    def peer_waits(self) -> list[PeerWait]:
        """Return the instances waiting for peers."""

    def dump(self) -> list[str]:
        """Return lines about the waits at channels, and about each iteration's waiting, running and held values."""
