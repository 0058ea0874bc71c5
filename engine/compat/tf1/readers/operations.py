"""Readers: operations which take file names from a queue and return the files' records (Abadi et al., 2016, fig. 1)."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....base.dtypes import DType, string
from ....base.record_files import Block, DamagedRecord, FixedLayout, RecordFile
from ....base.shapes import SCALAR, Shape
from ....base.turns import Turns
from ....ir.definition import REQUIRED, NotDifferentiable, define
from ....ir.operation import Operation
from ....ir.rules.placing import OutlivesStep
from ....ir.traits import Effect
from ....kernels.core.async_result import AsyncResult
from ....kernels.memory.contexts import outside
from ....kernels.queues.queue_base import Taken
from ....ops.queues.saved import state_read
from ....ops.queues.storage import QueueStorage
from ....ops.queues.taking import delivers_taken
from ....ops.state.files import as_content, content_shape
from ....ops.support.common import infer_nothing, infer_scalar
from ....ops.support.context import KernelContext, has_succeeded, until_ended
from ....ops.support.shared import SharedKind, SharedResource

CONTAINER = "readers"

Array = np.ndarray[Any, Any]
_NOTHING = Block([], 0)


class Record(NamedTuple):
    """A record, with the number of records delivered before its first delivery."""

    number: int
    key: Array
    value: Array


@dataclass(frozen=True, slots=True)
class ReaderSpec:
    """Format of the files of a reader, their compression, and the dtype of records.

    `layout` is empty except for records of one length.
    """

    format: str
    compression: str
    dtype: DType
    layout: tuple[int, ...] = ()


class ReaderStorage(SharedResource):
    """An open file, its current block, and the number of the block's delivered records.

    One instance reads at a time, in order of arrival. Returned records are delivered first, in order.

    Attributes
    ----------
    name : str
    spec : ReaderSpec
    produced : int
        Number of delivered records.
    completed : int
        Number of files read to their ends.
    """

    __slots__ = (
        "_back",
        "_before",
        "_block",
        "_ends",
        "_file",
        "_given",
        "_oldest",
        "_path",
        "_returned",
        "_start",
        "_taken",
        "_turn",
        "completed",
        "name",
        "produced",
        "spec",
    )

    def __init__(self, name: str, spec: ReaderSpec) -> None:
        self.name: str = name
        self.spec: ReaderSpec = spec
        self._turn = Turns()
        self._file: RecordFile | None = None
        self._ends: int = 0  # number of files ended; a thread's block is dropped if it grew meanwhile
        self._block: Block = _NOTHING
        self._start = self._before = self._taken = 0
        self._given = self._oldest = 0  # number of deliveries, unlike `produced` never reset
        self._returned: list[Record] = []  # returned records, the earliest first
        self._back: asyncio.Future[None] | None = None  # done when a record returns while a read waits for a file name
        self.reset()

    def reset(self) -> None:
        """Forget the file, and reset the counts."""
        self.produced = self.completed = 0
        self._oldest = self._given  # records delivered earlier cannot be returned any longer
        self._returned.clear()
        self._path: str | None = None
        self._end_file()

    @property
    def label(self) -> str:
        """Label used in error messages."""
        return f"reader {self.name}"

    async def aclose(self) -> None:
        """Close the file."""
        self._end_file()

    def snapshot(self) -> Any:
        """Return the position in the file, the counts, and the returned records."""
        return {
            "path": self._path,
            "start": self._start,
            "before": self._before,
            "taken": self._taken,
            "produced": self.produced,
            "completed": self.completed,
            **({"returned": [(str(key), value) for _, key, value in self._returned]} if self._returned else {}),
        }

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a callable which moves to a saved position."""
        counts = ("start", "before", "taken", "produced", "completed")
        with state_read(saved, {"path", *counts}, f"reader '{self.name}'", {"returned"}) as saved:
            returned = [self._restore_record(*each) for each in saved.get("returned", ())]
            path = None if saved["path"] is None else str(saved["path"])
            start, before, taken, produced, completed = (int(saved[each]) for each in counts)

        # Everything is read before, so that a malformed state leaves the reader as it is.
        def move_to_position() -> None:
            self._end_file()
            self._path = path
            self._start, self._before, self._taken = start, before, taken
            self.produced, self.completed = produced, completed
            self._oldest = self._given  # the records restored are newer, so a failing step returns them once more
            self._returned = [Record(self._given + i, *each) for i, each in enumerate(returned)]
            self._given += len(returned)

        return move_to_position

    def _restore_record(self, key: Any, value: Any) -> tuple[Array, Array]:
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype != np.dtype(self.spec.dtype.numpy):
            raise ValueError(f"a record is {type(value).__name__}, not an array of {self.spec.dtype}")
        return np.array(str(key), string.numpy), np.asarray(value)

    def read(self, context: KernelContext, queue: QueueStorage) -> Taken | AsyncResult:
        """Return the next key and record, or an AsyncResult which waits for them."""
        # Not while another read waits for its turn, which this read would overtake.
        if (self._returned or self._taken < len(self._block.records)) and not self._turn.taken:
            return self._next_record()
        return AsyncResult(self._read_later(context, queue), lambda found: found)

    async def _read_later(self, context: KernelContext, queue: QueueStorage) -> Taken:
        """Read blocks, taking file names as needed, until a record is available; one reader at a time."""
        async with self._turn.turn():
            while not self._returned and self._taken >= len(self._block.records):
                if self._path is None:
                    taken = queue.take(context.operation)
                    found = await self._name_or_record(taken) if isinstance(taken, AsyncResult) else taken
                    if found is None:
                        continue
                    if self._path is not None:  # a restore has set another file meanwhile
                        found.give_back()
                        continue
                    # The name is used up from here on, also if its file cannot be read.
                    (path,) = found.result()
                    self._path = str(path)
                try:
                    await self._read_block(context)
                except (OSError, EOFError, DamagedRecord):
                    # The file is given up, so that the next read takes another name.
                    self._path = None
                    self._end_file()
                    raise
            return self._next_record()

    async def _name_or_record(self, taken: AsyncResult) -> Taken | None:
        """Wait for a file name; return None if a record was returned before a name arrived."""
        self._back = asyncio.get_running_loop().create_future()
        name: asyncio.Future[Any] = taken.source  # type: ignore[assignment]  # the future of an attempt
        try:
            await asyncio.wait([name, self._back], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            taken.close()
            raise
        finally:
            self._back = None
        if self._returned:
            taken.close()
            return None
        return taken.convert(name.result())  # type: ignore[no-any-return]

    async def _read_block(self, context: KernelContext) -> None:
        """Read the next block of the current file in a thread; drop the block if the file was ended meanwhile."""
        # After a restore there is a position without a block: the block at `_start` is read again, and `_taken` of
        # its records count as delivered.
        behind = bool(self._block.records)
        start = self._block.end if behind else self._start
        threads = context.step.threads
        assert threads is not None  # a session has some
        ends, file, self._file = self._ends, self._file, None  # out of reach of `_end_file` while a thread reads
        call: Any = outside(threads, self._load_block, self._path, file, start)
        try:
            await until_ended(call)
        finally:
            file = call.result()[0] if has_succeeded(call) else file
            if ends == self._ends:
                self._file = file
            # A reset or restore has ended the file without reaching it: it is closed here.
            elif file is not None:
                file.close()
        if ends == self._ends:
            self._go_on(call.result()[1], start, behind)

    def _go_on(self, block: Block, start: int, behind: bool) -> None:
        """Make the block current, as successor of an earlier block if `behind`; an empty block ends the file."""
        if behind:
            self._before += len(self._block.records)
            self._start, self._taken = start, 0
        self._block = block
        if not block.records:
            self.completed += 1
            self._path = None
            self._end_file()

    def _load_block(self, path: str, file: RecordFile | None, start: int) -> tuple[RecordFile, Block]:
        """Read a block from `start` in a thread, opening the file if necessary."""
        layout = self.spec.layout
        # In the thread too, because opening a file may take long.
        file = file or RecordFile(path, FixedLayout(*layout) if layout else self.spec.format, self.spec.compression)
        try:
            records, end = file.read_block(start)
            return file, Block([self._as_value(each) for each in records], end)
        except BaseException:
            file.close()
            raise

    def _as_value(self, record: Any) -> Any:
        if isinstance(record, DamagedRecord):
            return record
        try:
            return as_content(record, self.spec.dtype)
        except UnicodeDecodeError as error:
            return DamagedRecord(f"this file is not UTF-8: {error.reason} at byte {error.start}")

    def _next_record(self) -> Taken:
        record = self._returned.pop(0) if self._returned else self._next_of_block()
        self.produced += 1
        return Taken([record], _key_and_value, self._put_back, record.number)

    def _put_back(self, records: list[Record], number: int) -> None:
        """Return a record, to be delivered before all later records."""
        if number >= self._oldest:
            self.produced -= 1
            insort(self._returned, records[0], key=lambda record: record.number)
            if self._back is not None and not self._back.done():
                self._back.set_result(None)

    def _next_of_block(self) -> Record:
        """Return the next record of the block; raise DamagedRecord for a damaged one."""
        value = self._block.records[self._taken]
        # Counted before the check for damage, so that the next read goes on with the next record.
        self._taken += 1
        number = self._before + self._taken
        if isinstance(value, DamagedRecord):
            raise DamagedRecord(f"{self._path}:{number}: {value}")
        key = self._path if self.spec.format == "file" else f"{self._path}:{number}"
        self._given += 1
        return Record(self._given - 1, np.array(key, string.numpy), value)

    def _end_file(self) -> None:
        file, self._file = self._file, None
        self._ends += 1
        self._block, self._start, self._before, self._taken = _NOTHING, 0, 0, 0
        if file is not None:
            file.close()


def _key_and_value(records: list[Record]) -> tuple[Array, Array]:
    (record,) = records
    return record.key, record.value


_REASON = NotDifferentiable("a reader brings values in from files")


_READERS = SharedKind(CONTAINER, ReaderStorage, "format, compression and dtype")


def _reader_handle(xp: Any, context: KernelContext, *, shared_name: str, **about: Any) -> ReaderStorage:
    """Return the session's reader of a shared name, made on first use."""
    return _READERS.get(context.step.resources, shared_name, ReaderSpec(**about), context.operation)


@delivers_taken
def _compute_read(
    xp: Any, context: KernelContext, reader: ReaderStorage, queue: QueueStorage, **_: Any
) -> Taken | AsyncResult:
    return reader.read(context, queue)


def _read_shapes(op: Operation) -> list[Shape]:
    length = op.attrs["length"]
    return [SCALAR, content_shape(op.attrs["dtype"]) if length is None else Shape([length])]


def _define_counter(type: str, attribute: str) -> None:
    """Define an operation which returns a count of a reader."""
    define(
        type,
        "handle: resource -> count: host int64",
        shape=infer_scalar,
        kernel=lambda xp, context, reader: np.int64(getattr(reader, attribute)),
        gradient=_REASON,
        effects=Effect.READS,
    )


define(
    "ReaderHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "format": REQUIRED, "compression": "auto", "dtype": REQUIRED, "layout": ()},
    shape=lambda op: SCALAR,
    kernel=_reader_handle,
    gradient=_REASON,
    effects=Effect.READS,
    rules=[OutlivesStep()],
)

define(
    "ReaderRead",
    "handle: resource, queue: resource -> key: host string, value: host @dtype",
    attrs={"dtype": REQUIRED, "length": None, "only_fetched": False},
    shape=_read_shapes,
    kernel=_compute_read,
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)

define(
    "ReaderReset",
    "handle: resource ->",
    shape=infer_nothing,
    kernel=lambda xp, context, reader: reader.reset(),
    gradient=_REASON,
    effects=Effect.WRITES,
)

_define_counter("ReaderNumRecordsProduced", "produced")
_define_counter("ReaderNumWorkUnitsCompleted", "completed")
