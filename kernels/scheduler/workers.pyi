"""Threads that do the long kernels of all steps of a session, without Python."""

class Workers:
    """A pool of threads; they start with the first work and end with the pool."""

    def __init__(self, count: int, seconds: float) -> None: ...
    @property
    def count(self) -> int:
        """Threads wanted."""

    @property
    def started(self) -> int:
        """Threads that run."""

    @property
    def busy(self) -> int:
        """How many threads are at work."""

    @property
    def orphaned(self) -> int:
        """How many kernels are still at work whose step is gone; the arrays of those that have ended are released."""

    def strand(self) -> None:
        """Go on without threads, in a process forked from the one that has them."""

    def notify(self, descriptor: int) -> bool:
        """Have a descriptor written to when the next orphan ends; say False, with nothing done, if there is none."""

def ask_for_long_slices() -> None:
    """Let the event loop's thread run at once when it wakes up, though the calling thread has not used up its slice."""
