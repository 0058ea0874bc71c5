"""Threads for the long kernels of all steps of some sessions, without Python."""

class WorkerThreads:
    """Threads shared by sessions; they start with the first work."""

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
        """End the threads after their present parts; parts not taken up stay where they are."""

    def begin_anew(self) -> None:
        """Reset to no threads and no work, in a process forked from the owner of the threads."""

class Workers:
    """The part of a session in threads, which may be shared with other sessions."""

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
        """Number of kernels at work for steps already gone; the arrays of finished kernels are released."""

    def strand(self) -> None:
        """Forget the session's work, in a process forked from the owner of the threads."""

    def notify(self, descriptor: int) -> bool:
        """Ask for a write to a descriptor when the next orphan ends; return False, doing nothing, if there is none."""

def ask_for_long_slices() -> None:
    """Allow the event loop's thread to preempt the calling thread as soon as it wakes up."""
