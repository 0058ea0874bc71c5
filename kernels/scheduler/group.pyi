"""The machines of one step, one for each device, with the face of a single one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..memory.contexts import KernelContexts
from .machine import StepMachine
from .plan import CompiledPlan
from .rendezvous import RemoteChannel, Rendezvous

class PeerWait(NamedTuple):
    """An instance that waits for a peer: a Recv for its message, or a Send for the transport to take its message."""

    tag: str
    channel: RemoteChannel
    peer: str
    is_sent: bool

class MachineGroup:
    """One execution of a partitioned step; `fetches` says for each fetch the machine and the number it has there."""

    rendezvous: Rendezvous

    def __init__(
        self,
        machines: list[StepMachine],
        contexts: list[KernelContexts],
        rendezvous: Rendezvous,
        fetches: list[tuple[int, int]],
    ) -> None: ...
    def drain(self, seconds: float) -> bool:
        """Run ready instances of all machines until there are none, or for about `seconds`; say whether more are."""

    def launches(self) -> list[tuple[Any, Any, int, str]]:
        """Return the asynchronous instances started since the last call."""

    def finish(self, ticket: Any, result: Any) -> None:
        """Deliver what an asynchronous instance gave; drain afterwards."""

    def fail(self, ticket: Any, exception: BaseException) -> None:
        """Fail the step with the error of an asynchronous instance."""

    def abort(self, exception: BaseException) -> None:
        """Stop the step; an earlier error stays."""

    def close(self) -> None:
        """Release everything; more than once is fine."""

    @property
    def failure(self) -> tuple[int, str, BaseException, Sequence[Any]] | None:
        """What failed first: node, tag, error, shapes of its inputs."""

    @property
    def compiled(self) -> CompiledPlan:
        """The compiled plan that `failure` speaks of."""

    def switch_outcomes(self) -> dict[str, Any]:
        """Return which way the Switches of the root frames went, by name."""

    @property
    def submits(self) -> list[Any]:
        """What each machine asks when its kernels are over."""

    @property
    def bytes_held(self) -> list[tuple[int, int]]:
        """Bytes that each machine has made: those in use, and the most so far; zeros where there is no limit."""

    @property
    def swaps(self) -> list[Any]:
        """What keeps the values that loops save, for each machine that has something that does."""

    @property
    def done(self) -> bool:
        """Whether nothing is ready, on its way or awaited from peers."""

    @property
    def can_progress(self) -> bool:
        """Whether a drain would find something to run, or memory was given back for which something waits."""

    @property
    def blocked_on_memory(self) -> bool:
        """Whether nothing goes on before memory is given back from outside."""

    def fail_out_of_memory(self) -> None:
        """Fail the step, since nothing will give memory to what is parked."""

    @property
    def stuck(self) -> bool:
        """Whether a step that is done has messages or Recvs left over: an internal error."""

    @property
    def pending(self) -> int:
        """Number of asynchronous instances not finished."""

    @property
    def offloaded(self) -> bool:
        """Whether workers have something of this step."""

    def expect(self, descriptor: int) -> bool:
        """Have a descriptor written to when a worker has done its work; False if that has happened already."""

    @property
    def fetches(self) -> list[Any]:
        """What was fetched: an array each, DEAD where no value came."""

    def peer_waits(self) -> list[PeerWait]:
        """Return the instances that wait for peers."""

    def dump(self) -> list[str]:
        """Return lines that say what each iteration waits for, runs and holds, and what waits at channels."""
