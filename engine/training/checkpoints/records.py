"""What a Checkpointer tells of what it has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and from where.

    Attributes
    ----------
    path : str
    step : int or None
        The step that was saved, if that is known.
    metrics : mapping of str to float
    variables : tuple of str
        Those that have got a value.
    missing : tuple of str
        Variables of the graph that there was nothing for.
    unused : tuple of str
        Names of saved arrays that no variable has taken.
    cast : tuple of str
        Variables whose values were saved in another dtype.
    objects : tuple of str
        Names of the objects that have got their states.
    skipped : tuple of str
        Newer checkpoints, which were damaged, each with the reason.

    Examples
    --------
    >>> import asyncio, tempfile, numpy as np, tagflow as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w, b = tg.Variable([0.0, 0.0], name="w"), tg.Variable(0.0, name="b")
    >>> async def main(directory):
    ...     np.savez(directory + "/weights.npz", v=np.ones(2, np.float32))
    ...     async with tg.Session(graph) as session, tg.training.Checkpointer(directory) as checkpointer:
    ...         return await checkpointer.restore(
    ...             session, directory + "/weights.npz", rename={"v": "w"}, partial=True
    ...         )
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     restored = asyncio.run(main(directory))
    >>> restored.variables, restored.missing, restored.step
    (('w',), ('b',), None)
    """

    path: str
    step: int | None
    metrics: Mapping[str, float]
    variables: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    cast: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """A snapshot of what a Checkpointer has done.

    Attributes
    ----------
    written, failed : int
        Checkpoints that were written; that were not, or were cancelled.
    is_writing : bool
        Whether one is being written now.
    last_step : int or None
        Of the last that was written.
    last_path : str or None
    last_seconds : float or None
        How long writing it took.
    last_bytes : int or None
        Of its arrays.

    Examples
    --------
    >>> import asyncio, tempfile, tagflow as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([1.0, 2.0], name="w")
    >>> async def main(directory):
    ...     async with tg.Session(graph) as session, tg.training.Checkpointer(directory) as checkpointer:
    ...         await session.run(w.initializer)
    ...         await (await checkpointer.save(session, 100))
    ...         return checkpointer.statistics()
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     statistics = asyncio.run(main(directory))
    >>> statistics.written, statistics.last_step, statistics.last_bytes
    (1, 100, 8)
    """

    written: int = 0
    failed: int = 0
    is_writing: bool = False
    last_step: int | None = None
    last_path: str | None = None
    last_seconds: float | None = None
    last_bytes: int | None = None
