"""Which instance of an operation runs."""

from typing import Any, final

@final
class Instance:
    """Which instance of an operation a stateful kernel runs for."""

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
