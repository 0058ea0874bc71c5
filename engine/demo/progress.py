"""Progress of training on the error stream: a bar on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LINES = 10  # lines printed in all where there is no terminal


class Meter:
    """Display of loss and characters per second during training; a context manager.

    Parameters
    ----------
    steps : int
    characters : int
        Characters read in each step.
    """

    def __init__(self, steps: int, characters: int) -> None:
        console = Console(stderr=True)
        self.steps: int = steps
        self.characters: int = characters
        self.losses: list[float] = []
        self.seconds: float = 0.0
        self._bar = _make_bar(console) if console.is_terminal else None
        self._task = self._bar.add_task("", total=steps, loss="", speed="") if self._bar else None

    def __enter__(self) -> Meter:
        self._begin = time.perf_counter()
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    @property
    def speed(self) -> float:
        """Characters per second so far."""
        return len(self.losses) * self.characters / max(self.seconds, 1e-9)

    def step(self, loss: float) -> None:
        """Count a step with its loss, in nats per character."""
        self.losses.append(loss)
        self.seconds = time.perf_counter() - self._begin
        done = len(self.losses)
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=done, loss=f"{loss:.3f}", speed=f"{self.speed:,.0f}")
        elif done * _LINES // self.steps > (done - 1) * _LINES // self.steps:
            print(f"step {done}/{self.steps}: {loss:.3f} nats/char, {self.speed:,.0f} chars/s", file=sys.stderr)


def _make_bar(console: Console) -> Progress:
    """Return a progress bar with loss and speed."""
    return Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]} nats/char, {task.fields[speed]} chars/s"),
        TimeRemainingColumn(),
        console=console,
    )
