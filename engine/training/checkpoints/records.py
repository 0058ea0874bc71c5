"""Results and statistics of a Checkpointer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import time


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A variable that kept its value because its saved array does not fit.

    Attributes
    ----------
    variable : str
    wanted, got : str
        Dtype and shape of the variable, and of the saved array.
    slots : tuple of str
        Optimizer slots of the variable, which kept their values too.

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
    """Result of `Checkpointer.restore`.

    Attributes
    ----------
    path : str
    step : int or None
        The saved step, if known.
    metrics : mapping of str to float
    variables : tuple of str
        Variables with restored values.
    missing : tuple of str
        Variables of the graph without a saved array.
    unused : tuple of str
        Names of saved arrays without a variable.
    cast : tuple of str
        Variables whose saved values had another dtype.
    objects : tuple of str
        Names of the objects with restored states.
    skipped : tuple of str
        Newer, damaged checkpoints, each with the reason.
    mismatched : tuple of Mismatch
        Variables that kept their values because their saved arrays do not fit.

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
    """A snapshot of a Checkpointer's counts.

    Attributes
    ----------
    written, failed : int
        Numbers of checkpoints written, and of writings that failed or were cancelled.
    is_writing : bool
        True while a checkpoint is being written.
    last_step : int or None
        Step of the latest written checkpoint.
    last_path : str or None
    last_seconds : float or None
        Duration of its writing.
    last_bytes : int or None
        Size of its arrays.
    last_time : float or None
        Time of its completion, in seconds since 1970.
    last_error : str or None
        Error of the latest failed writing; None after a later success.
    writing_step : int or None
        Step of the checkpoint being written.
    written_bytes : int
        Size of the arrays of all written checkpoints.
    written_seconds : float
        Duration of all successful writings.
    restored : int
        Number of restored sessions.

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


# The writing thread replaces the whole snapshot, so that readers of other threads never see half an update.


def with_written(
    before: CheckpointStatistics, step: int, path: str, seconds: float, nbytes: int
) -> CheckpointStatistics:
    """Return statistics with another written checkpoint."""
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
    """Return statistics with another failed writing, and its error."""
    # The first line only: statistics are shown in tables and logs.
    told = f"{type(error).__name__}: {error}".split("\n")[0]
    return replace(before, failed=before.failed + 1, is_writing=False, writing_step=None, last_error=told)
