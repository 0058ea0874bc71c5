"""Every tunable of the engine, once, with its unit and the reason for its default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Knobs of a session; pass ``Session(graph, settings=Settings(...))`` to change one.

    Attributes
    ----------
    drain_seconds : float
        Longest time a step runs on the event loop before it yields.
    parallel_iterations : int
        Default window of a loop (seed 000, section 4.3: 32 works well).
    step_cache_size : int
        Compiled steps kept per session, least recently used first out.
    fold_bytes : int
        Largest constant that folding may create.
    shuffle_seed : int or None
        Seed of a random ready order; None keeps first in, first out. Results never depend on it.
    """

    drain_seconds: float = 1e-3
    parallel_iterations: int = 32
    step_cache_size: int = 256
    fold_bytes: int = 1 << 20
    shuffle_seed: int | None = None


DEFAULTS = Settings()
