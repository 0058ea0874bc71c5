"""Threads that do the long kernels of all steps of all sessions that share them, without Python."""

class WorkerThreads:
    """Threads that sessions share; they start with the first work."""

    def __init__(self, count: int) -> None: ...
    @property
    def count(self) -> int:
        """Threads wanted."""

    @property
    def started(self) -> int:
        """Number of running threads."""

    @property
    def busy(self) -> int:
        """Number of threads at work."""

    def close(self) -> None:
        """End the threads after the parts that they are at; parts that no thread has taken up stay where they are."""

    def begin_anew(self) -> None:
        """Reset to no threads and no work, in a process forked from the owner of the threads."""

class Workers:
    """The part of a session in threads that it may share."""

    def __init__(self, threads: WorkerThreads, seconds: float) -> None: ...
    @property
    def count(self) -> int:
        """Threads wanted."""

    @property
    def started(self) -> int:
        """Number of running threads."""

    @property
    def busy(self) -> int:
        """Number of threads at work, for whichever session."""

    @property
    def orphaned(self) -> int:
        """Number of kernels at work whose step is gone; the arrays of those that have ended are released."""

    def strand(self) -> None:
        """Forget the session's work, in a process forked from the one whose threads are at it."""

    def notify(self, descriptor: int) -> bool:
        """Ask for a write to a descriptor when the next orphan ends; return False, doing nothing, if there is none."""

def ask_for_long_slices() -> None:
    """Allow the event loop's thread to preempt the calling thread as soon as it wakes up."""
