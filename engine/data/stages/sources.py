"""Sources of elements: arrays, paths and files of records."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.containers import Dicts
from ...base.errors import GraphError
from ...base.npz_files import UNREADABLE
from ...base.record_files import ENDED, Block, DamagedRecord, FixedLayout, RecordFile, is_named, matching_files
from .elements import Item, is_structure, kind_of_element, leaves_of, pack_leaves, parts_of
from .stage import Context, Stage, count_of


class ArraysStage(Stage):
    """The slices of arrays along axis 0."""

    def __init__(self, context: Context, arrays: object) -> None:
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

    def load_own_state(self, own: object) -> None:
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
