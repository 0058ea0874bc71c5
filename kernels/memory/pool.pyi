"""The caching allocator of a device, with exact counts of its bytes."""

from collections.abc import Iterable
from typing import Any

class SharedLimit:
    """A limit for the bytes of several pools together."""

    def __init__(self, limit: int) -> None: ...
    @property
    def limit(self) -> int:
        """Upper bound of `used_bytes`."""

    @property
    def used_bytes(self) -> int:
        """Bytes in use of all pools with this limit."""

    @property
    def peak_bytes(self) -> int:
        """The largest `used_bytes` so far."""

    @property
    def pools(self) -> int:
        """Number of pools with this limit."""

class Pool:
    """Memory for the arrays of a device; keeps at most `most_cached` bytes of freed blocks for new arrays."""

    handler: Any
    limit: int | None
    name: str

    def __init__(self, most_cached: int, limit: int | None = None) -> None: ...
    @property
    def live_bytes(self) -> int:
        """Bytes of the arrays in use: arrays made here and not handed over, and external arrays."""

    @property
    def peak_bytes(self) -> int:
        """The largest `live_bytes` so far, or since `reset_peak`."""

    @property
    def used_bytes(self) -> int:
        """Bytes in use under the limit: `live_bytes`, and the live bytes of other pools with the same
        limit.
        """

    @property
    def bound(self) -> Pool | SharedLimit:
        """The owner of the limit: the SharedLimit, if several pools share the limit, else the pool itself."""

    @property
    def shared(self) -> SharedLimit | None:
        """The limit shared with other pools, or None."""

    def share(self, shared: SharedLimit) -> None:
        """Keep a limit together with other pools, until this pool is closed."""

    @property
    def cached_bytes(self) -> int:
        """Bytes of freed blocks kept for new arrays."""

    @property
    def refused_bytes(self) -> int:
        """Bytes requested for the last refused array."""

    @property
    def refusals(self) -> int:
        """Number of arrays refused by the limit."""

    def reset_peak(self) -> None:
        """Reset `peak_bytes` to `live_bytes`."""

    def trim(self) -> None:
        """Return all freed blocks to the operating system."""

    def close(self) -> None:
        """Count external arrays no longer, share no limit and keep no freed blocks; arrays made here stay valid."""

    def charge_external(self, arrays: Iterable[Any]) -> list[Any]:
        """Count arrays from elsewhere as long as the returned charges live."""

    def external_bytes(self, arrays: Iterable[Any]) -> int:
        """Return the bytes by which `charge_external` would increase the count."""

    def adopt(self, array: Any) -> Any:
        """Return a view of an array from elsewhere; the array counts as long as the view lives."""

    def counts(self, array: Any) -> bool:
        """Return True if an array counts here until its end."""

class MemoryLimitError(MemoryError):
    """The limit of a pool leaves no room for an array from elsewhere."""

    wanted: int
    live: int
    limit: int
    device: str

    def __init__(self, wanted: int, live: int, limit: int, device: str = "") -> None: ...

def needs_copy(array: Any) -> bool:
    """Return whether `hand_over` copies an array of which the caller's reference is the only one."""

def hand_over(array: Any) -> Any:
    """Return an array for the user to keep and change, given an array of which the caller has the only reference."""
