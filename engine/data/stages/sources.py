"""Sources of elements: Python's iterables, plain and asynchronous, arrays, and files of records."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np

from ...base.containers import Dicts
from ...base.errors import GraphError
from ...base.npz_files import UNREADABLE
from ...base.record_files import ENDED, Block, DamagedRecord, FixedLayout, RecordFile, is_named, matching_files
from .elements import Failure, Item, first_of, is_structure, kind_of_element, leaves_of, pack_leaves, parts_of
from .stage import HELD, QUICKLY, SLICE, Context, Stage, count_of, end_task, is_cancelled


class IterableStage(Stage):
    """The elements of an iterable, or of a function's result.

    The state is the number of elements passed on; an iterator with ``state_dict`` and ``load_state_dict`` adds its own.
    """

    what = "iterable"

    def __init__(self, context: Context, source: Any, threads: bool | None = False) -> None:
        super().__init__(context)
        self._source = source
        self._threads = threads
        self._iterator: Any = None
        self._count = 0  # elements passed on
        self._items: deque[Item] = deque()  # elements that are ready
        self._skip = 0  # elements still to be skipped after a state was loaded
        self._has_failed = False  # the last item passed on was an error, and so the end
        self._noted: tuple[Any, int] | None = None  # iterator's last state, and its number of elements then
        self._saved: tuple[Any, int] | None = None  # a loaded iterator state, and elements passed on since
        self._ended = False
        self._gathering = False

    async def pull(self, most: int) -> list[Item]:
        """Return elements as long as they come quickly."""
        await self.context.clock.pause_if_due()
        failed = await self._begin_or_fail()
        if failed is not None:
            return [failed]  # does not count in the state
        if not self._items and not self._ended:
            await self._note_and_gather(most)
        chunk = first_of(self._items, most)
        self._count += len(chunk)
        if chunk:
            self._has_failed = type(chunk[-1][0]) is Failure
        return chunk

    async def _begin_or_fail(self) -> Item | None:
        """Make the iterator and skip elements of a loaded state; return an error if this fails."""
        if self._iterator is None and not self._ended:
            try:
                self._open_iterator()
            except Exception as error:
                self._end_with_error(error)
                return self._items.pop()
        return await self._pass_over() if self._skip and not self._ended else None

    async def _pass_over(self) -> Item | None:
        """Skip the elements counted by a loaded state; return an error if the iterable ends earlier."""
        failed = None
        while self._skip and not self._ended:
            await self._note_and_gather(min(self._skip, 64))
            failed = self._items.pop() if self._items and type(self._items[-1][0]) is Failure else None
            self._skip -= len(self._items)
            self._items.clear()
            await self.context.clock.pause_if_due()
        left, self._skip = self._skip, 0
        if left == 0 or (left == 1 and failed is not None and self._has_failed):  # the state ended with this error
            return None
        what = f"the {self.what} of a pipeline has ended {left} elements before the place that it was at"
        hint = "let it give the same elements again"
        return failed or (self.make_failure(what, self._count - left, None, None, hint=hint), None)

    async def _note_and_gather(self, most: int) -> None:
        self._gathering = True
        self._noted = self._note_state()
        await self._gather_elements(most)
        self._gathering = False

    def _note_state(self) -> tuple[Any, int] | None:
        """Return the iterator's state before a wait, during which it is busy, and its number of elements so far."""
        if not self._may_wait or not hasattr(self._iterator, "state_dict"):
            return None
        try:
            return self._iterator.state_dict(), self._count - self._skip
        except Exception:
            return None  # own_state raises the error, if the state is requested

    @property
    def _may_wait(self) -> bool:
        return bool(self._threads)

    def _open_iterator(self) -> None:
        """Make the iterator, and load its state if there is one."""
        self._iterator = self._make_iterator(self._source)
        if self._iterator is self._source and any(self.context.epochs):
            raise GraphError(
                f"this {self.what} can be gone through only once",
                wanted="one epoch, or something that begins anew",
                got=repr(self._source),
                hint="give a function that returns a new iterator",
            )
        if self._saved is not None and hasattr(self._iterator, "load_state_dict"):
            self._iterator.load_state_dict(self._saved[0])
            self._skip = self._saved[1]
        self._saved = None

    def _make_iterator(self, source: Any) -> Any:
        return iter(source() if _makes_iterable(source, "__iter__") else source)

    async def _gather_elements(self, most: int) -> None:
        if self._threads:
            await self.context.threads(self._take_elements, most)
        elif self._take_elements(most) > HELD and self._threads is None:
            self._threads = True

    def _take_elements(self, most: int) -> float:
        """Take elements as long as they come quickly; return the duration in seconds."""
        begun = now = perf_counter()
        first = self._count + len(self._items)
        try:
            for number in range(first, first + most):
                self._items.append((next(self._iterator), ("", number)))
                now = perf_counter()
                if now - begun > SLICE:
                    break
        except StopIteration:
            self._ended = True
        except Exception as error:
            self._end_with_error(error)
        return now - begun

    def _end_with_error(self, error: BaseException) -> None:
        """End the iteration with an error raised by the iterator."""
        self._ended = True
        number = self._count - self._skip + len(self._items)
        what = f"the {self.what} of a pipeline has raised {type(error).__name__}: {error}"
        hint = "see its cause; it ends with this element"
        self._items.append((self.make_failure(what, number, ("", number), error, hint=hint), ("", number)))

    def own_state(self) -> Any:
        """Return the number of elements passed on, and the iterator's state now or when last known."""
        its, since = None, 0
        if self._saved is not None:
            its, since = self._saved  # loaded, and not yet used
        elif self._gathering or self._items or self._skip:
            if self._noted is not None:
                its, since = self._noted[0], self._count - self._noted[1]  # the iterator is busy, or ahead
        elif hasattr(self._iterator, "state_dict"):
            its = self._iterator.state_dict()
        return {"count": self._count, "failed": self._has_failed, "iterator": its, "since": since}

    def load_own_state(self, own: Any) -> None:
        """Continue after the elements passed on."""
        self._count = self._skip = count_of(own["count"])
        self._saved = None if own["iterator"] is None else (own["iterator"], count_of(own["since"]))
        self._has_failed = bool(own["failed"])

    def _save_iterator_state(self) -> None:
        """Save the iterator's state, which cannot be read after closing."""
        if self._ended or not hasattr(self._iterator, "state_dict"):
            return
        with suppress(Exception):  # an iterator without a valid state must be closed all the same
            own = self.own_state()
            self._saved = None if own["iterator"] is None else (own["iterator"], own["since"])

    async def aclose(self) -> None:
        """Close a generator."""
        self._save_iterator_state()
        iterator, self._iterator, self._ended = self._iterator, None, True
        is_idle = not self._gathering  # a thread may still be running the generator
        if is_idle and iterator is not None and iterator is not self._source and hasattr(iterator, "close"):
            iterator.close()


def _makes_iterable(source: Any, method: str) -> bool:
    """Return True if a source is a function to call for an iterable; classes count as functions."""
    return isinstance(source, type) or not hasattr(source, method)


class AsyncIterableStage(IterableStage):
    """The elements of an asynchronous iterable, taken on demand by a single task of the stage's own."""

    what = "asynchronous iterable"

    def __init__(self, context: Context, source: Any) -> None:
        super().__init__(context, source)
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        self._wanted = 0
        self._reply: asyncio.Future[None] | None = None

    @property
    def _may_wait(self) -> bool:
        return True

    def _make_iterator(self, source: Any) -> Any:
        return aiter(source() if _makes_iterable(source, "__aiter__") else source)

    async def _gather_elements(self, most: int) -> None:
        self._wanted = most
        self._asked.set()
        self._reply = asyncio.get_running_loop().create_future()
        if self._task is None:
            # one task: timeouts and task groups, which belong to a task, may surround the user's ``yield``
            self._task = asyncio.create_task(self._go_through())
        await self._reply

    async def _go_through(self) -> None:
        """Answer requests for elements until the end; then close a generator in the same task."""
        iterator = self._iterator
        try:
            while not self._ended:
                await self._asked.wait()
                self._asked.clear()
                await self._take_some(iterator)
                self._answer_request()
        finally:
            self._answer_request()
            if iterator is not self._source and hasattr(iterator, "aclose"):
                await iterator.aclose()

    async def _take_some(self, iterator: Any) -> None:
        """Append requested elements, at least one unless at the end, as long as they come quickly."""
        until = perf_counter() + QUICKLY  # an element that took longer is passed on at once
        first = self._count + len(self._items)
        try:
            for number in range(first, first + self._wanted):
                self._items.append((await anext(iterator), ("", number)))
                if perf_counter() > until or self._ended:  # closed, and a generator has ignored its cancellation
                    return
        except StopAsyncIteration:
            self._ended = True
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            self._end_with_error(error)

    def _answer_request(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(None)

    async def aclose(self) -> None:
        """End the task, which closes a generator."""
        self._save_iterator_state()
        self._ended = True
        await end_task(self._task)


class ArraysStage(Stage):
    """The slices of arrays along axis 0."""

    def __init__(self, context: Context, arrays: Any) -> None:
        super().__init__(context)
        self._arrays: Any = arrays
        self._leaves: list[np.ndarray[Any, Any]] | None = None
        self._next = 0

    async def pull(self, most: int) -> list[Item]:
        """Return slices, which are read-only views."""
        await self.context.clock.pause_if_due()
        if self._leaves is None:
            try:
                self._arrays = await self._read_arrays()
            except UNREADABLE as error:
                self._leaves = []  # the end
                what = f"the arrays of a pipeline cannot be read: {error}"
                return [(self.make_failure(what, 0, None, error, hint="repair the file"), None)]
            self._leaves = leaves_of(self._arrays)
        leaves, first = self._leaves, self._next
        rows = zip(*(_slice_rows(leaf, first, first + most) for leaf in leaves), strict=True)
        make = _make_packer(self._arrays)
        chunk: list[Item] = [(make(row), ("", number)) for number, row in enumerate(rows, first)]
        self._next += len(chunk)
        return chunk

    async def _read_arrays(self) -> Any:
        return self._arrays

    def own_state(self) -> Any:
        """Return the next index."""
        return self._next

    def load_own_state(self, own: Any) -> None:
        """Continue at an index."""
        self._next = count_of(own)


class ArchiveStage(ArraysStage):
    """The slices of the arrays of an .npz file."""

    async def _read_arrays(self) -> Any:
        path, names = self._arrays
        return await self.context.call_in_thread(_load_archive, path, names)


def _load_archive(path: str, names: list[str]) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names}


def _slice_rows(array: np.ndarray[Any, Any], first: int, stop: int) -> list[Any]:
    part = array[first:stop]
    part.flags.writeable = False  # a view: the user's own array stays as it is
    return list(part)


def _make_packer(structure: Any) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function from the slices of leaves to an element."""
    if not is_structure(structure):
        return lambda row: row[0]
    if not any(map(is_structure, parts_of(structure) or [])):
        if type(structure) is tuple:
            return lambda row: row
        if isinstance(kind_of_element(structure), Dicts):
            names = tuple(structure)
            return lambda row: dict(zip(names, row, strict=True))
    return lambda row: pack_leaves(structure, iter(row))


async def _find_files(stage: Stage, patterns: tuple[str, ...]) -> tuple[list[str], Item | None]:
    """Return the files matched by patterns, or an empty list and the error."""
    try:
        return await stage.context.call_in_thread(matching_files, patterns), None
    except OSError as error:
        hint = "look at the patterns, and at the directory that they begin in"
        return [], (stage.make_failure(f"files are not found: {error}", 0, None, error, hint=hint), None)


def _restore_paths(patterns: tuple[str, ...], saved: Any) -> list[str] | None:
    """Return the paths of a state, all of which must match the patterns: a foreign state must not open other files."""
    if saved is None:
        return None
    paths = list(map(str, saved))
    for path in paths:
        if not is_named(path, patterns):
            raise GraphError(
                "the state of a pipeline names a file that its patterns do not",
                wanted=" or ".join(patterns),
                got=path,
                hint="restore into a pipeline of the same files, by the same names",
            )
    return paths


class PathsStage(Stage):
    """The paths of files matched by patterns."""

    def __init__(self, context: Context, patterns: tuple[str, ...]) -> None:
        super().__init__(context)
        self._patterns = patterns
        self._paths: list[str] | None = None
        self._next = 0

    async def pull(self, most: int) -> list[Item]:
        """Return paths."""
        await self.context.clock.pause_if_due()
        if self._paths is None:
            self._paths, failed = await _find_files(self, self._patterns)
            if failed is not None:
                return [failed]
        first, self._next = self._next, min(self._next + most, len(self._paths))
        return [(self._paths[number], ("file", number)) for number in range(first, self._next)]

    def own_state(self) -> Any:
        """Return the paths, if known, and the next index."""
        return {"paths": self._paths, "next": self._next}

    def load_own_state(self, own: Any) -> None:
        """Continue with the paths of a state."""
        self._paths = _restore_paths(self._patterns, own["paths"])
        self._next = count_of(own["next"])


class RecordsStage(Stage):
    """The records of files, read in threads; the state is a file, a block of it, and the records passed on."""

    def __init__(
        self, context: Context, patterns: tuple[str, ...], format: str | FixedLayout, unit: str, compression: str
    ) -> None:
        super().__init__(context)
        self._patterns, self._format, self._unit, self._compression = patterns, format, unit, compression
        self._paths: list[str] | None = None
        self._file: RecordFile | None = None
        self._number = 0  # index of the file
        self._block = Block([], 0)
        self._start = 0  # position of the block
        self._before = 0  # records of the file before the block
        self._taken = 0  # records of the block that were passed on

    async def pull(self, most: int) -> list[Item]:
        """Return records of the current block."""
        await self.context.clock.pause_if_due()
        while self._taken >= len(self._block.records):
            if self._paths is None:
                self._paths, failed = await _find_files(self, self._patterns)
                if failed is not None:
                    return [failed]
            if self._number >= len(self._paths):
                return []
            try:
                await self._read_block()
            except (OSError, EOFError, DamagedRecord) as error:
                item = self._make_failed_item(error, self._before + self._taken)
                self._end_file()
                return [item]
        path = self._origin_name()
        first, stop = self._taken, min(self._taken + most, len(self._block.records))
        self._taken = stop
        offset = self._before + 1  # lines are counted from 1
        return [
            (record, (path, offset + number))
            if not isinstance(record, DamagedRecord)
            else self._make_failed_item(record, self._before + number)
            for number, record in enumerate(self._block.records[first:stop], first)
        ]

    def _origin_name(self) -> str:
        assert self._paths is not None
        return f"{self._paths[self._number]}, {self._unit}"

    async def _read_block(self) -> None:
        """Read the next block, or the block at the position of a loaded state."""
        has_block = bool(self._block.records)
        start = self._block.end if has_block else self._start
        block = await self.context.call_in_thread(self._read_at, start)
        if has_block:
            self._before += len(self._block.records)
            self._start, self._taken = start, 0
        self._block = block
        if not block.records:
            self._end_file()

    def _read_at(self, start: int) -> Block:
        assert self._paths is not None
        if self._file is None:
            self._file = RecordFile(self._paths[self._number], self._format, self._compression)
        return self._file.read_block(start)

    def _end_file(self) -> None:
        self._close_file()
        self._number += 1
        self._block, self._start, self._before, self._taken = Block([], 0), 0, 0, 0

    def _make_failed_item(self, error: Exception, number: int) -> Item:
        origin = (self._origin_name(), number + 1)
        hint = "repair the file; ignore_errors() continues after the part that cannot be read"
        return self.make_failure(f"a {self._unit} cannot be read: {error}", number, origin, error, hint=hint), origin

    def own_state(self) -> Any:
        """Return the files, if known, and the position in them."""
        return {
            "paths": self._paths,
            "file": self._number,
            "start": self._start,
            "before": self._before,
            "taken": self._taken,
        }

    def load_own_state(self, own: Any) -> None:
        """Continue at a position."""
        self._paths = _restore_paths(self._patterns, own["paths"])
        self._number, self._start = count_of(own["file"]), count_of(own["start"], ENDED)
        self._before, self._taken = count_of(own["before"]), count_of(own["taken"])

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    async def aclose(self) -> None:
        """Close the open file."""
        self._close_file()


def as_patterns(files: Any) -> tuple[str, ...]:
    """Return a path or pattern, or several, as text; GraphError for other objects."""
    try:
        listed = [files] if isinstance(files, (str, bytes, os.PathLike)) else list(files)
        return tuple(map(os.fsdecode, listed))
    except TypeError:
        raise GraphError(
            "these are not files",
            wanted="a path, a pattern, or a list of them",
            got=repr(files),
            hint="'data/*.txt' stands for all files that fit",
        ) from None
