"""A step machine whose memory has a limit."""

from typing import Any

from .machine import StepMachine

class NoRoom(MemoryError):
    """The limit of a device's memory leaves no room for an instance's allocation, and nothing can release any."""

    wanted: int
    live: int
    limit: int
    device: str
    allocations: list[tuple[int, str, str | None, Any]]
    swaps: bool

    def __init__(
        self,
        wanted: int,
        live: int,
        limit: int | None,
        device: str,
        allocations: list[tuple[int, str, str | None, Any]],
        swaps: bool,
    ) -> None: ...

class LimitedMachine(StepMachine):
    """One execution of a compiled plan within the limit of the context's pool."""

    @property
    def held_bytes(self) -> int:
        """Bytes in use on the step's account."""

    @property
    def most_held_bytes(self) -> int:
        """The largest `held_bytes` so far."""

    def fail_out_of_memory(self) -> None:
        """Fail the step, because no memory will be released for its parked instances."""
