"""The Checkpointer: schedule, retention, saving and restoring of checkpoints."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

from ...base import nest
from ...base.array_like import UnreadArray
from ...base.errors import CheckpointError, GraphError
from ...base.safetensors import DamagedFile
from ...base.source_lines import user_source
from ...base.turns import Turns
from ...base.version import VERSION
from ...frontend.state.partitioned import PartitionedVariable
from ...frontend.state.variables import Variable
from ...ir.misuse import refuses_misuse
from ...ops.state.variables.operations import CONTAINER
from ...runtime.observe.statistics import CHECKPOINTS
from ...runtime.session.session import Session
from . import directory as files
from .manifest import Arrays, Contents, begin_of, checked_metrics, contents_of, open_checkpoint
from .matching import Matching, OnMismatch, Policy, Rename, match_variables
from .notices import tell_of_mismatches, warn_of_other_numbers
from .objects import load_objects, state_of
from .others import open_saved
from .policies import Retention, Schedule, check_numbers
from .records import CheckpointStatistics, Restored, with_failure, with_written
from .saved import Saved
from .saving import Check, Saving
from .selection import check_names, names_of
from .slices import aliases_of, slices_of

_logger = logging.getLogger("tagloom")
_LIBRARY = f"tagloom {VERSION}"


class Checkpointer:
    """Saves and restores the state that a session keeps between steps, in a directory.

    A checkpoint is a directory ``checkpoint-0000000100`` with a safetensors file per device and a manifest. A thread
    writes the files while training continues, without copying arrays; the directory appears when complete.

    Parameters
    ----------
    directory : str or Path
        Made by the first save.
    keep : int, optional
        Number of newest checkpoints to keep; None for all.
    keep_best : tuple of (str, int, {'min', 'max'}), optional
        A metric, a number of checkpoints, and a direction: keep so many checkpoints of best metric, whatever their
        age. Checkpoints without the metric, or with NaN, do not count.
    every_steps : int, optional
        `save_if_due` saves when so many steps have passed since the last save.
    every_seconds : float, optional
        `save_if_due` saves when so many seconds have passed since the last save.
    consistent : bool
        Take checkpoints between two steps that update variables: see :meth:`Session.capture`.
    variables : iterable of Variable, PartitionedVariable or str, optional
        Save and restore these variables only, and nothing else of the session, for example a part of a model.
    wait_seconds : float
        Longest wait of a consistent checkpoint for steps under way, in seconds.
    on_save : callable, optional
        Called with each Saving when its writing begins, in the saving task; errors raised by the call are logged.
    checksums : bool
        Save a CRC-32C of each 4 MiB of arrays and of the manifest, and verify them on restoring.

    Examples
    --------
    >>> import asyncio, tempfile, tagloom as tg
    >>> from tagloom.training import AdamOptimizer, Checkpointer
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([5.0, -3.0], name="w")
    ...     train = AdamOptimizer(0.1).minimize(tg.reduce_sum(tg.square(tg.dropout(w, 0.5))))
    ...     init = tg.global_variables_initializer()
    >>> async def main(directory, steps):
    ...     async with Checkpointer(directory, every_steps=10) as checkpointer, tg.Session(graph) as session:
    ...         await session.run(init)
    ...         restored = await checkpointer.restore(session)  # None the first time
    ...         first = restored.step if restored else 0
    ...         for step in range(first, steps):
    ...             await session.run(train)
    ...             await checkpointer.save_if_due(session, step + 1)
    ...         return first, (await session.read_variables("w"))["w"].tolist()
    >>> with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
    ...     whole = asyncio.run(main(one, 20))
    ...     half, rest = asyncio.run(main(two, 10)), asyncio.run(main(two, 20))
    >>> whole[0], half[0], rest[0], whole[1] == rest[1]
    (0, 0, 10, True)
    """

    @refuses_misuse
    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int | None = 5,
        keep_best: tuple[str, int, str] | None = None,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        consistent: bool = False,
        variables: Iterable[Variable | PartitionedVariable | str] | None = None,
        wait_seconds: float = 10.0,
        on_save: Callable[[Saving], object] | None = None,
        checksums: bool = True,
    ) -> None:
        self.directory: Path = Path(directory)
        self._retention = Retention(keep, keep_best)
        self._schedule = Schedule(every_steps, every_seconds)
        self._consistent = consistent
        self._only = None if variables is None else names_of(variables)
        check_numbers(least=0, wait_seconds=wait_seconds)
        self._wait_seconds = wait_seconds
        self._on_save = on_save
        self._checksums = checksums
        self._objects: dict[str, Any] = {}
        self._turns = Turns()  # one snapshot at a time, in the order of the calls
        self._writing: Saving | None = None
        self._statistics = CheckpointStatistics()  # changed by the writing thread; the next thread begins after its end
        self._restored = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<Checkpointer in {self.directory}, {self._statistics.written} written>"

    async def __aenter__(self) -> Checkpointer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def add(self, name: str, value: Any) -> None:
        """Include the state of an object, such as an input pipeline, in checkpoints.

        Parameters
        ----------
        name : str
        value : object
            ``value.state_dict()`` returns its state at the snapshot, a structure of tuples, lists, dicts and registered
            containers of arrays, numbers, strings, bytes and None. ``value.load_state_dict(state)``, which may be a
            coroutine, loads a state before the session is restored.

        Raises
        ------
        GraphError
            If `value` lacks these methods, or the name is taken.
        """
        if name in self._objects or not all(hasattr(value, each) for each in ("state_dict", "load_state_dict")):
            raise GraphError(
                "an object cannot be saved with a session",
                wanted="a new name, and an object with state_dict() and load_state_dict(state)",
                got=f"{name!r}: {value!r}",
                hint="wrap it in an object that has them",
            )
        self._objects[name] = value

    # ---- saving

    async def save(self, session: Session, step: int, metrics: Mapping[str, float] | None = None) -> Saving:
        """Take a snapshot of a session and begin writing a checkpoint.

        Waits for the end of the preceding writing, if any. Training may continue when the call returns.

        Parameters
        ----------
        session : Session
        step : int
            Step in the checkpoint's name; checkpoints of larger steps are newer.
        metrics : mapping of str to float, optional
            Metrics for `keep_best`, returned by `restore`.

        Returns
        -------
        Saving
            Await it for the path of the written checkpoint. The next call raises an error that was not awaited.

        Raises
        ------
        CheckpointError
            If the preceding checkpoint could not be written and its error was not raised yet; if a value cannot be
            saved; if steps under way do not end in time.
        """
        source, noted = user_source(), checked_metrics(metrics)
        if step < 0:
            raise GraphError("a step is no number of updates", wanted="0 or more", got=step, hint="count the updates")
        self._register_statistics(session)
        async with self._turns.turn():
            # Open again after each await: `aclose` may have run meanwhile.
            self._check_open()
            await self._until_written()
            self._check_open()
            contents = await self._capture_contents(session, int(step), noted)
            self._check_open()
            write = partial(self._write_checkpoint, contents)
            self._statistics = replace(self._statistics, is_writing=True, writing_step=int(step))
            self._writing = saving = Saving(int(step), write, source, contents.nbytes)
        if self._on_save is not None:
            try:
                self._on_save(saving)
            except Exception:
                _logger.exception("on_save raised an error")
        return saving

    async def save_if_due(
        self, session: Session, step: int, metrics: Mapping[str, float] | None = None
    ) -> Saving | None:
        """Save if `every_steps` or `every_seconds` have passed since the last save or restore.

        Parameters
        ----------
        session, step, metrics
            As for `save`.

        Returns
        -------
        Saving or None
            As `save` returns; None if no checkpoint is due.
        """
        if not self._schedule.is_due(step):
            return None
        # Before the await: a concurrent call must find that this step is being saved.
        before = self._schedule.last
        self._schedule.begin(step)
        try:
            return await self.save(session, step, metrics)
        except BaseException:
            self._schedule.last = before
            raise

    async def _capture_contents(self, session: Session, step: int, metrics: Mapping[str, float]) -> Contents:
        """Capture a session; return the contents of its checkpoint, with the session's own arrays."""
        check_names(session.graph, self._only)
        objects = self._objects
        captured = await session.capture(
            consistent=self._consistent,
            seconds=self._wait_seconds,
            along=lambda: {name: state_of(each) for name, each in objects.items()},
        )
        values, devices = captured.values, captured.devices
        state: tuple[int, int] | None = captured.random_state
        if self._only is not None:
            homes = dict(zip(values.get(CONTAINER, {}), devices[begin_of(values) :], strict=False))
            chosen = {name: each for name, each in values.get(CONTAINER, {}).items() if name in self._only}
            values, devices, state = {CONTAINER: chosen}, [homes[name] for name in chosen], None
        arrays = Arrays(values, devices, slices_of(session.graph), aliases_of(session.graph))
        return contents_of(step, metrics, arrays, state, captured.along, _LIBRARY)

    def _write_checkpoint(self, contents: Contents, check: Check) -> Path:
        """Write a checkpoint, then remove checkpoints by the retention policy; runs in a thread."""
        began = perf_counter()
        try:
            contents.complete()
            size = contents.nbytes
            path = files.write_checkpoint(self.directory, contents, check, self._checksums)
        except BaseException as error:
            self._statistics = with_failure(self._statistics, error)
            raise
        self._statistics = with_written(self._statistics, contents.step, str(path), perf_counter() - began, size)
        try:
            self._retention.apply(self.directory)
        except CheckpointError:
            _logger.warning("checkpoint %s was written, but old ones could not be removed", path, exc_info=True)
        return path

    async def _until_written(self) -> None:
        """Wait for the end of the current writing; raise its error, if not raised yet."""
        saving = self._writing
        if saving is not None:
            await saving.wait_until_ended()
            if self._writing is saving:  # otherwise closed meanwhile
                self._writing = None
            failure = saving.failure()
            if failure is not None:
                try:
                    raise failure
                finally:
                    del failure  # its traceback refers to this frame

    # ---- restoring

    def checkpoints(self) -> list[Path]:
        """Return the paths of the directory's checkpoints, oldest first."""
        return [each.path for each in files.list_entries(self.directory)]

    def latest(self) -> Path | None:
        """Return the path of the newest checkpoint, or None if the directory has no checkpoint."""
        return next(iter(reversed(self.checkpoints())), None)

    async def restore(
        self,
        session: Session,
        path: str | os.PathLike[str] | None = None,
        partial: bool = False,
        rename: Rename = None,
        cast: bool = False,
        on_mismatch: OnMismatch = None,
        consistent: bool = False,
    ) -> Restored | None:
        """Restore a session from a checkpoint: completely, or not at all if a value does not fit.

        Sharded variables may be restored from other shards or from whole variables, and vice versa. Random operations
        continue their sequences, so a resumed run equals the uninterrupted run, bit for bit.

        Parameters
        ----------
        session : Session
        path : str or Path, optional
            A checkpoint, a ``.safetensors`` or ``.npz`` file, or the prefix of a TensorFlow checkpoint, if TensorFlow
            is installed. By default the directory's newest undamaged checkpoint, after the end of the current writing;
            warnings name damaged checkpoints.
        partial : bool
            If True, variables may be missing in the file, and saved arrays may be unused or not fit.
        rename : mapping or callable, optional
            New names of saved arrays: ``{"old": "new", "old_scope/": "new_scope/", "other": None}``; None excludes an
            array. An unknown old name with a new name is refused.
        cast : bool
            If True, dtypes may differ where values keep their meaning: between floats, to larger integers.
        on_mismatch : {'error', 'skip'} or collection of str, optional
            Variables that keep their values if the saved array has another shape, or a dtype that cannot be cast: none;
            all; or the variables of some names and prefixes, as ``["head/"]``. Optimizer slots of such variables keep
            their values too. They are listed in ``restored.mismatched``, and in a warning of the logger "tagloom". By
            default 'skip' if `partial`, else 'error'.
        consistent : bool
            As for :meth:`Session.write_variables`; steps under way have `wait_seconds` to end.

        Returns
        -------
        Restored or None
            None if the directory has no checkpoint.

        Raises
        ------
        CheckpointError
            If a file cannot be read, or does not fit the graph; the error names file, variable, wanted and saved dtype
            and shape. If all checkpoints are damaged.
        GraphError
            If `on_mismatch` is another string.
        """
        source = user_source()
        self._register_statistics(session)
        check_names(session.graph, self._only)
        try:
            # A function of the saved arrays: damaged checkpoints are skipped before the file to match is known.
            policy = Policy(self._only, rename, partial, cast, on_mismatch)
            wanted: Matching = lambda saved: match_variables(session.graph, saved, policy)  # noqa: E731
            if path is not None:
                return await self._load_file(session, os.fspath(path), wanted, consistent)
            return await self._restore_newest(session, wanted, consistent)
        except CheckpointError as error:
            error.source = source  # raised in a reading thread, without a line of the user
            raise

    async def _restore_newest(self, session: Session, wanted: Matching, consistent: bool) -> Restored | None:
        """Restore the newest undamaged checkpoint, with a warning about each damaged one; None without checkpoints."""
        if self._writing is not None:
            await self._writing.wait_until_ended()
        skipped: dict[Path, str] = {}
        while (path := await asyncio.to_thread(self._newest_but, skipped)) is not None:
            try:
                return await self._load_file(session, str(path), wanted, consistent, open_checkpoint, skipped.values())
            except DamagedFile as error:
                if not os.path.lexists(path):  # removed by another process, whose retention policy ran
                    continue
                skipped[path] = f"{path}: {error.what}"
                warnings.warn(f"a damaged checkpoint is passed over: {error}", RuntimeWarning, stacklevel=3)
        if skipped:
            raise CheckpointError(
                "all checkpoints of a directory are damaged",
                file=self.directory,
                got="; ".join(skipped.values()),
                hint="give path=, or begin anew in another directory",
            )
        return None

    def _newest_but(self, skipped: Collection[Path]) -> Path | None:
        return next((each for each in reversed(self.checkpoints()) if each not in skipped), None)

    async def _load_file(
        self,
        session: Session,
        path: str,
        match: Matching,
        consistent: bool,
        opened: Callable[..., Saved] = open_saved,
        skipped: Iterable[str] = (),
    ) -> Restored:
        """Match and restore a session from a file; objects are loaded first, and rolled back on an error."""
        with closing(await asyncio.to_thread(opened, path, verify=self._checksums)) as saved:
            found = match(saved)
            resources = saved.resources if self._only is None else {}
            states = {name: each for name, each in saved.objects.items() if name in self._objects}
            # Read before the session changes: a damaged file must not leave half a restore.
            resources, states = await asyncio.to_thread(nest.map_structure, _read_leaf, (resources, states))
            async with load_objects(self._objects, states, path):
                values = {**resources, CONTAINER: found.values}
                await session.restore(values, consistent=consistent, seconds=self._wait_seconds)
        if saved.random_state is not None and self._only is None:
            session.random_state = saved.random_state
            warn_of_other_numbers(session, saved)
        tell_of_mismatches(path, found)
        if saved.step is not None:
            self._schedule.begin(saved.step)
        self._restored += 1
        return Restored(
            path,
            saved.step,
            saved.metrics,
            tuple(found.values),
            tuple(found.missing),
            tuple(found.unused),
            tuple(found.cast),
            tuple(states),
            tuple(skipped),
            tuple(found.mismatched),
        )

    # ---- the end

    def statistics(self) -> CheckpointStatistics:
        """Return a snapshot of the counts, which the statistics of saved sessions include too."""
        return replace(self._statistics, restored=self._restored)

    async def aclose(self, *, abandon: bool = False) -> None:
        """Close the checkpointer after the current writing, or, with `abandon`, after cancelling the writing.

        A cancelled call cancels the writing and waits for its end. Closing twice is allowed.

        Parameters
        ----------
        abandon : bool
            If True, cancel the writing and remove the unfinished checkpoint.

        Raises
        ------
        CheckpointError
            If the checkpoint could not be written and its error was not raised yet.
        """
        self._closed, saving = True, self._writing
        if saving is None:
            return
        if abandon:
            saving.cancel()
        await _await_end(saving)
        self._writing = None
        failure = saving.failure()
        if failure is not None and not abandon:
            try:
                raise failure
            finally:
                del failure  # its traceback refers to this frame

    def _register_statistics(self, session: Session) -> None:
        """Add this checkpointer's counts to a session's statistics, for the lifetime of the checkpointer."""
        session.include_statistics(CHECKPOINTS, str(self.directory), self)

    def _check_open(self) -> None:
        if self._closed:
            raise CheckpointError("this checkpointer was closed", file=self.directory, hint="make a new one")


async def _await_end(saving: Saving) -> None:
    """Wait for the end of a writing thread; a cancelled wait stops the thread, and still waits for its end."""
    cancellation = None
    while not saving.done:
        try:
            await saving.wait_until_ended()
        except asyncio.CancelledError as error:
            cancellation = cancellation or error
            saving.cancel()
    await saving.wait_until_ended()  # joins the thread, too
    if cancellation is not None:
        try:
            raise cancellation
        finally:
            del cancellation  # the traceback refers to this frame


def _read_leaf(leaf: object) -> Any:
    return leaf.copy() if isinstance(leaf, UnreadArray) else leaf
