"""Options of the demo; the command line reads this module, so the engine is not imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Options of the demo, with defaults chosen by measurements.

    Attributes
    ----------
    units, embedding : int
        Size of the state, and of the vector for a character.
    batch, length, steps : int
        Parallel streams of text, characters of each stream in a step, and number of steps.
    rate : float
        Highest learning rate, after a rise during the first tenth and before a fall to zero along a cosine.
    seed : int
        Seed of the weights, the order of the text, and the written text.
    temperature : float
        Below 1 the written text is more probable, above 1 more varied.
    memory_limit : str or int, optional
        Bytes for training, as 100_000_000 or "100MB". The loss is then summed in the loop.
    swap : bool
        Whether values saved by the loop for the gradient may leave the limited memory.
    plot, save, load : path, optional
        Files for the picture of the loss, for weights to write, and for weights to read.
    """

    units: int = 192
    embedding: int = 48
    batch: int = 32
    length: int = 32
    steps: int = 900
    rate: float = 1e-2
    seed: int = 0
    temperature: float = 0.5
    memory_limit: str | int | None = None
    swap: bool = False
    plot: Path | None = None
    save: Path | None = None
    load: Path | None = None

    def __post_init__(self) -> None:
        for name in ("units", "embedding", "batch", "length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.steps < 0 or self.seed < 0:
            raise ValueError("steps and seed must not be negative")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}")
        if self.swap and self.memory_limit is None:
            raise ValueError("swap needs a memory limit, as --memory-limit 100MB: without one nothing has to leave")
        for path in (self.plot, self.save):
            if path is not None and not path.absolute().parent.is_dir():
                raise ValueError(f"there is no folder {path.absolute().parent} to write {path.name} in")
