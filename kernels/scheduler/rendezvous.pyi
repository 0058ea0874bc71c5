"""The table in which the machines of a step meet, and its face for transports to other processes."""

from collections.abc import Iterable
from typing import Any, NamedTuple

class RemoteChannel(NamedTuple):
    """A channel whose other end is in another process, the task `peer`."""

    number: int
    peer: str
    dtype: Any
    name: str = ""
    is_sent: bool = False

class MessageKey(NamedTuple):
    """The key of a message: four integers, which name the same message in every process."""

    channel: int
    frame: int
    path: int
    iteration: int

class MessageRefused(ValueError):
    """A delivered message that the step cannot take."""

class Rendezvous:
    """The table in which the machines of a step meet, over channels numbered from 0."""

    def __init__(self, num_channels: int, remote: Iterable[RemoteChannel] = ()) -> None: ...
    @property
    def remote(self) -> dict[int, RemoteChannel]:
        """Remote channels by number."""

    @property
    def peers(self) -> tuple[str, ...]:
        """Names of the tasks at the other ends of remote channels."""

    @property
    def failure(self) -> BaseException | None:
        """The first error reported by a peer."""

    @property
    def id_collision(self) -> bool:
        """True if two different frames have one id: an internal error."""

    @property
    def waiting(self) -> int:
        """Number of ends of channels that wait for the other in the table; messages in the outbox do not count."""

    @property
    def awaits_peers(self) -> bool:
        """True if a Recv waits for a message of a peer, or a message for its transport."""

    def traffic(self) -> list[dict[str, int]]:
        """Return the traffic counts of each channel."""

    def take_outbox(self) -> list[tuple[MessageKey, Any]]:
        """Take all messages for peers, the oldest first; their Sends are complete now, so drain afterwards."""

    def deliver(self, key: tuple[int, int, int, int], value: Any) -> None:
        """Deliver a message of a peer; MessageRefused, with nothing changed, if the step cannot take it."""

    def fail(self, peer: str, exception: BaseException) -> None:
        """End the step with the error of a peer, unless it has ended."""
