"""What a Checkpointer tells of what it has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import time


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A variable that kept its value, since the array that was saved for it does not fit.

    Attributes
    ----------
    variable : str
    wanted, got : str
        Dtype and shape of the variable, and of what was saved.
    slots : tuple of str
        Variables that an optimizer keeps for it, which kept their values too.

    Examples
    --------
    >>> import asyncio, tempfile, numpy as np, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     body, head = tg.Variable([0.0, 0.0], name="body"), tg.Variable([0.0, 0.0, 0.0], name="head")
    ...     init = tg.global_variables_initializer()
    >>> async def main(directory):
    ...     np.savez(directory + "/weights.npz", body=np.ones(2, np.float32), head=np.ones(5, np.float32))
    ...     async with tg.Session(graph) as session, tg.training.Checkpointer(directory) as checkpointer:
    ...         await session.run(init)
    ...         restored = await checkpointer.restore(session, directory + "/weights.npz", partial=True)
    ...         return restored.variables, restored.mismatched
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    (('body',), (Mismatch(variable='head', wanted='float32[3]', got='float32[5]', slots=()),))
    """

    variable: str
    wanted: str
    got: str
    slots: tuple[str, ...] = ()


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
    mismatched : tuple of Mismatch
        Variables that kept their values, since what was saved does not fit.

    Examples
    --------
    >>> import asyncio, tempfile, numpy as np, tagloom as tg
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
    mismatched: tuple[Mismatch, ...] = ()


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
    last_time : float or None
        When it was on the disk, in seconds since 1970.
    last_error : str or None
        Why the last that was not written was not; None when one was written since.
    writing_step : int or None
        Of the one that is being written.
    written_bytes : int
        Of the arrays of all that were written.
    written_seconds : float
        How long writing them took.
    restored : int
        How often a session got what was saved.

    Examples
    --------
    >>> import asyncio, tempfile, tagloom as tg
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
    last_time: float | None = None
    last_error: str | None = None
    writing_step: int | None = None
    written_bytes: int = 0
    written_seconds: float = 0.0
    restored: int = 0


def with_written(
    before: CheckpointStatistics, step: int, path: str, seconds: float, nbytes: int
) -> CheckpointStatistics:
    """Return figures with one more checkpoint that was written."""
    return replace(
        before,
        written=before.written + 1,
        is_writing=False,
        writing_step=None,
        last_step=step,
        last_path=path,
        last_seconds=seconds,
        last_bytes=nbytes,
        last_time=time(),
        last_error=None,
        written_bytes=before.written_bytes + nbytes,
        written_seconds=before.written_seconds + seconds,
    )


def with_failure(before: CheckpointStatistics, error: BaseException) -> CheckpointStatistics:
    """Return figures with one more checkpoint that was not written, since that raised an error."""
    told = f"{type(error).__name__}: {error}".split("\n")[0]
    return replace(before, failed=before.failed + 1, is_writing=False, writing_step=None, last_error=told)
