"""A NativeProgram in C."""

from typing import Any

from .program import Computation, NativeProgram

class CompiledProgram:
    """The C form of a NativeProgram; ValueError if an operation has neither a C kernel nor an inner loop."""

    def __init__(self, program: NativeProgram) -> None: ...
    def forget_counts(self) -> None:
        """Reset the counters of the loops, or of the runs of a cluster."""

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Number of runs of each loop, by name, and of the iterations begun by them, with a predicate only in the last
        of each run.
        """

    @property
    def runs(self) -> int:
        """Number of runs of a cluster."""

    @property
    def reason(self) -> str | None:
        """Reason why the last run was left to the step machine."""

    @property
    def program(self) -> NativeProgram: ...

def has_kernel(computation: Computation, inputs: list[Any], outputs: list[Any], switches: Any) -> bool:
    """Return True if an operation has a C kernel or an inner loop for these dtypes."""
