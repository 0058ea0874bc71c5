"""The client of checkpoints: what is saved when, what is kept, and what is restored."""

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
from ...frontend.partitioned import PartitionedVariable
from ...frontend.variables import Variable
from ...ir.misuse import refuses_misuse
from ...ops.state.variables import CONTAINER
from ...runtime.observe.statistics import CHECKPOINTS
from ...runtime.session import Session
from . import directory as files
from .manifest import Contents, begin_of, checked_metrics, contents_of, open_checkpoint
from .matching import Matching, OnMismatch, Rename, match
from .notices import tell_of_mismatches, warn_of_other_numbers
from .objects import loaded, state_of
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
    """Saves what a session keeps from step to step into a directory, and restores it.

    A checkpoint is a directory ``checkpoint-0000000100`` with a safetensors file for each device and a manifest. It
    appears when all of it is on the disk. It is written by a thread, while training goes on: from the variables' own
    arrays, of which the next update makes new ones.

    Parameters
    ----------
    directory : str or Path
        Made when it is first needed.
    keep : int, optional
        How many checkpoints are kept, the newest; None for all.
    keep_best : tuple of (str, int, {'min', 'max'}), optional
        A metric, and of how many checkpoints whose metric is best: these are kept whatever their age. One of which the
        metric is not known, or no number, is none of them.
    every_steps : int, optional
        `save_if_due` saves when so many steps have passed since it last did.
    every_seconds : float, optional
        Or so many seconds.
    consistent : bool
        Take checkpoints between two steps that update variables: see :meth:`Session.capture`. Where one task trains and
        saves, no step is under way when it does, and this makes no difference.
    variables : iterable of Variable, PartitionedVariable or str, optional
        Save and restore these variables only, and nothing else of the session. So parts of a model may have
        checkpointers with directories and policies of their own.
    wait_seconds : float
        How long a consistent checkpoint waits for steps under way.
    on_save : callable, optional
        Called with each Saving when it begins to be written, in the task that saves; what it raises is logged.
    checksums : bool
        Save a CRC-32C of each 4 MiB of arrays and of the manifest, and hold what is restored against those that were
        saved: a bit that has changed on the disk is damage then. False neither saves nor looks at any.

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
        self._turns = Turns()  # one takes a snapshot at a time, in the order in which that was asked for
        self._writing: Saving | None = None
        self._statistics = CheckpointStatistics()  # changed by who writes; the next one begins when that has ended
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
        """Save and restore the state of an object too, as that of an input pipeline.

        Parameters
        ----------
        name : str
        value : object
            ``value.state_dict()`` gives its state, a structure of tuples, lists, dicts and registered containers of
            arrays, numbers, strings, bytes and None, at the time of the snapshot;
            ``value.load_state_dict(state)``, which may be a coroutine, takes it, before the session has its values.

        Raises
        ------
        GraphError
            If it has no such methods, or the name is taken.
        """
        if name in self._objects or not all(hasattr(value, each) for each in ("state_dict", "load_state_dict")):
            raise GraphError(
                "this can not be saved beside a session",
                wanted="a new name, and an object with state_dict() and load_state_dict(state)",
                got=f"{name!r}: {value!r}",
                hint="wrap it in an object that has them",
            )
        self._objects[name] = value

    # ---- saving

    async def save(self, session: Session, step: int, metrics: Mapping[str, float] | None = None) -> Saving:
        """Take a snapshot of a session and begin to write it.

        If the last checkpoint is still being written, that is waited for. When this returns training may go on.

        Parameters
        ----------
        session : Session
        step : int
            What the checkpoint is called by; one of a larger step is newer.
        metrics : mapping of str to float, optional
            What `keep_best` looks at, and `restore` returns.

        Returns
        -------
        Saving
            Await it for the path, when the checkpoint is on the disk. Otherwise what goes wrong is raised by the next
            call.

        Raises
        ------
        CheckpointError
            If the last checkpoint could not be written, and nobody was told yet; if something can not be saved; if
            steps under way do not end in time.
        """
        source, noted = user_source(), checked_metrics(metrics)
        if step < 0:
            raise GraphError("a step is no number of updates", wanted="0 or more", got=step, hint="count the updates")
        self._tell(session)
        async with self._turns.turn():
            self._check_open()
            await self._until_written()
            self._check_open()
            contents = await self._contents(session, int(step), noted)
            self._check_open()
            write = partial(self._write, contents)
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
        """Save if `every_steps` or `every_seconds` have passed since this last did.

        Parameters
        ----------
        session, step, metrics
            As for `save`.

        Returns
        -------
        Saving or None
            As `save` does; None if it is not time.
        """
        if not self._schedule.is_due(step):
            return None
        before = self._schedule.last
        self._schedule.begin(step)
        try:
            return await self.save(session, step, metrics)
        except BaseException:
            self._schedule.last = before
            raise

    async def _contents(self, session: Session, step: int, metrics: Mapping[str, float]) -> Contents:
        """Return what is to be written, with the session's own arrays."""
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
        return contents_of(
            step,
            metrics,
            values,
            devices,
            state,
            captured.along,
            slices_of(session.graph),
            aliases_of(session.graph),
            _LIBRARY,
        )

    def _write(self, contents: Contents, check: Check) -> Path:
        """Write a checkpoint and remove those that are not kept; in a thread."""
        began = perf_counter()
        try:
            contents.complete()
            size = contents.nbytes
            path = files.write(self.directory, contents, check, self._checksums)
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
        """Wait until nothing is being written; raise what has gone wrong, if nobody was told."""
        saving = self._writing
        if saving is not None:
            await saving.wait_until_ended()
            if self._writing is saving:  # else it was closed meanwhile
                self._writing = None
            failure = saving.failure()
            if failure is not None:
                try:
                    raise failure
                finally:
                    del failure  # its traceback refers to this frame

    # ---- restoring

    def checkpoints(self) -> list[Path]:
        """Return the checkpoints of the directory, the oldest first."""
        return [each.path for each in files.entries(self.directory)]

    def latest(self) -> Path | None:
        """Return the newest checkpoint, None if there is none."""
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
        """Give a session what was saved: all of it, or nothing if something does not fit.

        Variables in shards may be restored from other shards, or from a whole, and the other way round. Random
        operations go on drawing where they were, so a resumed run is the one that was interrupted, bit for bit.

        Parameters
        ----------
        session : Session
        path : str or Path, optional
            A checkpoint, a ``.safetensors`` or ``.npz`` file, or the prefix of a checkpoint of TensorFlow, if that is
            installed. By default the newest checkpoint of the directory that is not damaged, when none is being
            written any longer; a warning names others.
        partial : bool
            Whether variables may be missing there, or arrays be of no use here, or not fit.
        rename : mapping or callable, optional
            What a saved array is called here: ``{"old": "new", "old_scope/": "new_scope/", "other": None}``; None
            leaves it out. A name that was not saved is refused.
        cast : bool
            Whether dtypes may differ, where values keep their meaning: between floats, to larger integers.
        on_mismatch : {'error', 'skip'} or collection of str, optional
            Which variables keep their values if what was saved has another shape, or a dtype that cannot be cast: none;
            all; or those of some names and prefixes, as ``["head/"]``. What an optimizer keeps for such a variable
            stays as it is too. All of them are in ``restored.mismatched``, and in a warning of the logger "tagloom". By
            default 'skip' if `partial`, else 'error'.
        consistent : bool
            As of :meth:`Session.write_variables`; steps under way have `wait_seconds` to end.

        Returns
        -------
        Restored or None
            None if there is no checkpoint in the directory.

        Raises
        ------
        CheckpointError
            If a file can not be read, or does not fit the graph: names file, variable, what was wanted and what is
            there. If all checkpoints are damaged.
        GraphError
            If `on_mismatch` is another word.
        """
        source = user_source()
        self._tell(session)
        check_names(session.graph, self._only)
        try:
            wanted = self._match(session, partial, rename, cast, on_mismatch)
            if path is not None:
                return await self._restore(session, os.fspath(path), wanted, consistent)
            return await self._restore_newest(session, wanted, consistent)
        except CheckpointError as error:
            error.source = source  # a thread that has read has no line of the user's
            raise

    async def _restore_newest(self, session: Session, wanted: Matching, consistent: bool) -> Restored | None:
        if self._writing is not None:
            await self._writing.wait_until_ended()
        skipped: dict[Path, str] = {}
        while (path := await asyncio.to_thread(self._newest_but, skipped)) is not None:
            try:
                return await self._restore(session, str(path), wanted, consistent, open_checkpoint, skipped.values())
            except DamagedFile as error:
                if not os.path.lexists(path):  # another process has saved, and removed it
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

    def _match(self, session: Session, partial: bool, rename: Rename, cast: bool, on_mismatch: OnMismatch) -> Matching:
        return lambda saved: match(session.graph, saved, self._only, rename, partial, cast, on_mismatch)

    async def _restore(
        self,
        session: Session,
        path: str,
        match: Matching,
        consistent: bool,
        opened: Callable[..., Saved] = open_saved,
        skipped: Iterable[str] = (),
    ) -> Restored:
        with closing(await asyncio.to_thread(opened, path, verify=self._checksums)) as saved:
            found = match(saved)
            resources = saved.resources if self._only is None else {}
            states = {name: each for name, each in saved.objects.items() if name in self._objects}
            resources, states = await asyncio.to_thread(nest.map_structure, _read, (resources, states))
            async with loaded(self._objects, states, path):
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
        """Return a snapshot of counts; a session that this has saved has it in its statistics too."""
        return replace(self._statistics, restored=self._restored)

    async def aclose(self, *, abandon: bool = False) -> None:
        """Wait until what is being written is on the disk, or, with `abandon`, until it is given up and gone.

        When cancelled it gives that up, waits for the end of it, and is cancelled then. Twice is fine.

        Parameters
        ----------
        abandon : bool
            Whether to end the writing soon and leave nothing of it.

        Raises
        ------
        CheckpointError
            If it could not be written, and nobody was told yet.
        """
        self._closed, saving = True, self._writing
        if saving is None:
            return
        if abandon:
            saving.cancel()
        await _ended(saving)
        self._writing = None
        failure = saving.failure()
        if failure is not None and not abandon:
            try:
                raise failure
            finally:
                del failure  # its traceback refers to this frame

    def _tell(self, session: Session) -> None:
        """Let a session's statistics tell of this, as long as it lives."""
        session.include_statistics(CHECKPOINTS, str(self.directory), self)

    def _check_open(self) -> None:
        if self._closed:
            raise CheckpointError("this checkpointer was closed", file=self.directory, hint="make a new one")


async def _ended(saving: Saving) -> None:
    """Wait until a thread has ended; when that is cancelled the thread is told, and waited for all the same."""
    cancellation = None
    while not saving.done:
        try:
            await saving.wait_until_ended()
        except asyncio.CancelledError as error:
            cancellation = cancellation or error
            saving.cancel()
    await saving.wait_until_ended()  # its thread, too
    if cancellation is not None:
        try:
            raise cancellation
        finally:
            del cancellation  # the traceback refers to this frame


def _read(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, UnreadArray) else leaf
