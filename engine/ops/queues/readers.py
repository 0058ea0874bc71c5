"""Readers: operations that take names of files from a queue and give what is in them (Abadi et al., 2016, figure 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.dtypes import DType, string
from ...base.record_files import Block, DamagedRecord, FixedLayout, RecordFile
from ...base.shapes import SCALAR, Shape
from ...base.turns import Turns
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.memory.contexts import outside
from ..state.files import as_content, content_shape
from ..support.common import nothing, scalar
from ..support.context import KernelContext, succeeded, until_ended
from ..support.shared import SharedResource, shared
from .saved import state_read
from .storage import QueueStorage

CONTAINER = "readers"

Array = np.ndarray[Any, Any]
_NOTHING = Block([], 0)


@dataclass(frozen=True, slots=True)
class ReaderSpec:
    """Format of the files of a reader, their compression, and the dtype of records.

    `layout` is empty but for records of one length.
    """

    format: str
    compression: str
    dtype: DType
    layout: tuple[int, ...] = ()


class ReaderStorage(SharedResource):
    """A file that is being read, the block in it, and how many of its records were given.

    One instance reads at a time, in the order of coming.

    Attributes
    ----------
    name : str
    spec : ReaderSpec
    produced : int
        Records that were given.
    completed : int
        Files of which all records were.
    """

    __slots__ = (
        "_before",
        "_block",
        "_ends",
        "_file",
        "_path",
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
        self._ends: int = 0  # how often a file was ended, so that what a thread read of it is not taken for another's
        self._block: Block = _NOTHING
        self._start = self._before = self._taken = 0
        self.reset()

    def reset(self) -> None:
        """Forget the file, and count anew."""
        self.produced = self.completed = 0
        self._path: str | None = None
        self._end_file()

    @property
    def label(self) -> str:
        """What it is called in errors."""
        return f"reader {self.name}"

    async def aclose(self) -> None:
        """Close the file."""
        self._end_file()

    def snapshot(self) -> Any:
        """Return the place in the file, and the counts."""
        return {
            "path": self._path,
            "start": self._start,
            "before": self._before,
            "taken": self._taken,
            "produced": self.produced,
            "completed": self.completed,
        }

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return what goes to a saved place."""
        counts = ("start", "before", "taken", "produced", "completed")
        with state_read(saved, {"path", *counts}, f"reader '{self.name}'") as saved:
            path = None if saved["path"] is None else str(saved["path"])
            start, before, taken, produced, completed = (int(saved[each]) for each in counts)

        def change() -> None:
            self._end_file()
            self._path = path
            self._start, self._before, self._taken = start, before, taken
            self.produced, self.completed = produced, completed

        return change

    def read(self, context: KernelContext, queue: QueueStorage) -> Any:
        """Return the next key and record, or what gives them."""
        if self._taken < len(self._block.records) and not self._turn.taken:
            return self._next()
        return AsyncResult(self._read_later(context, queue), lambda found: found)

    async def _read_later(self, context: KernelContext, queue: QueueStorage) -> tuple[Array, Array]:
        async with self._turn.turn():
            while self._taken >= len(self._block.records):
                if self._path is None:
                    taken = queue.take(context.operation)
                    found = await taken if isinstance(taken, AsyncResult) else taken
                    if self._path is not None:  # restored meanwhile
                        found.give_back()
                        continue
                    (path,) = found.result()
                    self._path = str(path)
                try:
                    await self._read_block(context)
                except (OSError, EOFError, DamagedRecord):
                    self._path = None
                    self._end_file()
                    raise
            return self._next()

    async def _read_block(self, context: KernelContext) -> None:
        behind = bool(self._block.records)
        start = self._block.end if behind else self._start
        threads = context.step.threads
        assert threads is not None  # a session has some
        ends, file, self._file = self._ends, self._file, None  # nobody closes it while a thread reads
        call: Any = outside(threads, self._read, self._path, file, start)
        try:
            await until_ended(call)
        finally:
            file = call.result()[0] if succeeded(call) else file
            if ends == self._ends:
                self._file = file
            elif file is not None:
                file.close()
        if ends == self._ends:
            self._go_on(call.result()[1], start, behind)

    def _go_on(self, block: Block, start: int, behind: bool) -> None:
        """Take the block that was read, behind the one before if there is one."""
        if behind:
            self._before += len(self._block.records)
            self._start, self._taken = start, 0
        self._block = block
        if not block.records:
            self.completed += 1
            self._path = None
            self._end_file()

    def _read(self, path: str, file: RecordFile | None, start: int) -> tuple[RecordFile, Block]:
        layout = self.spec.layout
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

    def _next(self) -> tuple[Array, Array]:
        value = self._block.records[self._taken]
        self._taken += 1
        number = self._before + self._taken
        if isinstance(value, DamagedRecord):
            raise DamagedRecord(f"{self._path}:{number}: {value}")
        self.produced += 1
        key = self._path if self.spec.format == "file" else f"{self._path}:{number}"
        return np.array(key, string.numpy), value

    def _end_file(self) -> None:
        file, self._file = self._file, None
        self._ends += 1
        self._block, self._start, self._before, self._taken = _NOTHING, 0, 0, 0
        if file is not None:
            file.close()


_REASON = NotDifferentiable("a reader brings values in from files")


def _handle(
    xp: Any,
    context: KernelContext,
    *,
    shared_name: str,
    format: str,
    compression: str,
    dtype: DType,
    layout: tuple[int, ...],
) -> ReaderStorage:
    spec = ReaderSpec(format, compression, dtype, layout)
    return shared(
        context.step.resources,
        CONTAINER,
        shared_name,
        spec,
        ReaderStorage,
        "format, compression and dtype",
        context.operation,
    )


def _read_shapes(op: Operation) -> list[Shape]:
    length = op.attrs["length"]
    return [SCALAR, content_shape(op.attrs["dtype"]) if length is None else Shape([length])]


def _counter(type: str, attribute: str) -> None:
    define(
        type,
        "handle: resource -> count: host int64",
        shape=scalar,
        kernel=lambda xp, context, reader: np.int64(getattr(reader, attribute)),
        gradient=_REASON,
        effects=Effect.READS,
    )


define(
    "ReaderHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "format": REQUIRED, "compression": "auto", "dtype": REQUIRED, "layout": ()},
    shape=lambda op: SCALAR,
    kernel=_handle,
    gradient=_REASON,
    effects=Effect.READS,
    outlives_step=True,
)

define(
    "ReaderRead",
    "handle: resource, queue: resource -> key: host string, value: host @dtype",
    attrs={"dtype": REQUIRED, "length": None},
    shape=_read_shapes,
    kernel=lambda xp, context, reader, queue, **_: reader.read(context, queue),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)

define(
    "ReaderReset",
    "handle: resource ->",
    shape=nothing,
    kernel=lambda xp, context, reader: reader.reset(),
    gradient=_REASON,
    effects=Effect.WRITES,
)

_counter("ReaderNumRecordsProduced", "produced")
_counter("ReaderNumWorkUnitsCompleted", "completed")
