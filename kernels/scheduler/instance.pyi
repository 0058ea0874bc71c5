"""Instance: identifies the operation, frame and iteration of a running kernel."""

from typing import Any, final

@final
class Instance:
    """The instance of an operation for which a stateful kernel runs."""

    @property
    def step(self) -> Any: ...
    @property
    def operation(self) -> str: ...
    @property
    def frame_id(self) -> int: ...
    @property
    def iteration(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def tag(self) -> str:
        """The instance's name, ``node@frame/iteration``."""
