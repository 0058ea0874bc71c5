"""The compiled form of a plan, shared by all its steps."""

from typing import Any

class CompiledPlan:
    """The tables of a plan; ValueError for a plan which is not well formed."""

    def __init__(self, plan: Any, settings: Any = ...) -> None: ...
    def loop_counts(self) -> list[dict[str, Any]]:
        """Return the counters of each frame since the last step that ran alone."""

    def clusters(self) -> list[tuple[Any, int, str | None]]:
        """Return for each cluster its program, its runs since then, and the reason if the last was left, or None."""

    @property
    def plan(self) -> Any: ...
    @property
    def dtypes(self) -> list[Any]: ...
    @property
    def kernels(self) -> list[Any]: ...
