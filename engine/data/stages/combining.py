"""Stages for pipelines in sequence, in parallel, or nested: repeat, zip, interleave."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ...base.errors import GraphError
from .elements import Failure, Item
from .saved_items import restored_items, saved_items
from .stage import Context, Opens, Stage, close_all, count_of


class RepeatStage(Stage):
    """A pipeline with restarts at its end, for `count` epochs in all, or without end if `count` is None."""

    def __init__(self, context: Context, source: Opens, count: int | None) -> None:
        super().__init__(context)
        self._source, self._count = source, count
        self._epoch = 0
        self._stage: Stage | None = None
        self._is_empty = True  # so far, in this epoch

    async def pull(self, most: int) -> list[Item]:
        """Return elements of the current epoch."""
        while self._count is None or self._epoch < self._count:
            if self._stage is None:
                self._open_epoch()
                assert self._stage is not None
            chunk = await self._stage.pull(most)
            if chunk:
                self._is_empty = False
                return chunk
            await self._stage.aclose()
            if self._is_empty and self._count is None:
                self._count = self._epoch  # an empty pipeline without end would never return
                return []
            self._stage = None
            self._epoch += 1
        return []

    def _open_epoch(self) -> None:
        self._stage = self._source.open_stage(self.context.at_epoch(self._epoch))
        self._is_empty = True

    def own_state(self) -> Any:
        """Return the number of the epoch, and the state of its pipeline."""
        its = None if self._stage is None else self._stage.state()
        return {"epoch": self._epoch, "empty": self._is_empty, "its": its}

    def load_own_state(self, own: Any) -> None:
        """Continue within an epoch."""
        self._epoch = count_of(own["epoch"])
        if own["its"] is not None:
            self._open_epoch()
            assert self._stage is not None
            self._stage.restore(own["its"])
        self._is_empty = bool(own["empty"])

    async def aclose(self) -> None:
        """Close the pipeline of this epoch."""
        if self._stage is not None:
            await self._stage.aclose()


class ZipStage(Stage):
    """Tuples of an element of each pipeline, until the first pipeline ends."""

    def __init__(self, context: Context, *inputs: Opens) -> None:
        super().__init__(context, *inputs)
        self._columns: list[deque[Item]] = [deque() for _ in inputs]

    async def pull(self, most: int) -> list[Item]:
        """Return tuples; a failed element replaces its tuple."""
        for source, column in zip(self.inputs, self._columns, strict=True):
            if not column:
                chunk = await source.pull(most)
                if not chunk:
                    return []
                column.extend(chunk)
        count = min(most, *map(len, self._columns))
        return [self._join_items([column.popleft() for column in self._columns]) for _ in range(count)]

    def _join_items(self, items: list[Item]) -> Item:
        for item in items:
            if type(item[0]) is Failure:
                return item
        return tuple(value for value, _ in items), items[0][1]

    def own_state(self) -> Any:
        """Return the elements whose partners have not arrived."""
        return [saved_items(column) for column in self._columns]

    def load_own_state(self, own: Any) -> None:
        """Continue with elements whose partners have not arrived."""
        for column, saved in zip(self._columns, own, strict=True):
            column.extend(restored_items(saved))


class _Opened:
    """A pipeline made by the function, with elements read before their turn."""

    __slots__ = ("ahead", "item", "stage")

    def __init__(self, item: Item, stage: Stage) -> None:
        self.item = item
        self.stage = stage
        self.ahead: deque[Item] = deque()


class InterleaveStage(Stage):
    """The elements of pipelines made by a function of elements, `block` of each of `cycle` pipelines in turn.

    When a pipeline ends, the next new pipeline takes its place.
    """

    def __init__(self, context: Context, source: Opens, function: Callable[[Any], Any], cycle: int, block: int) -> None:
        super().__init__(context, source)
        self._function, self._cycle, self._block = function, cycle, block
        self._opened: list[_Opened | None] = [None] * cycle
        self._turn = 0
        self._given = 0  # elements of this turn so far
        self._number = 0  # elements taken from the input
        self._ended = False

    async def pull(self, most: int) -> list[Item]:
        """Return elements of the pipelines in turn, as far as they are available."""
        found: list[Item] = []
        idle = 0  # consecutive empty places
        while idle < self._cycle and len(found) < most:
            opened = self._opened[self._turn]
            if opened is None and self._ended:
                idle += 1
                self._next_turn()
            elif opened is not None and opened.ahead:
                found.append(opened.ahead.popleft())
                self._given, idle = self._given + 1, 0
                if self._given == self._block:
                    self._next_turn()
            elif found:
                break  # more elements may have to be awaited
            elif opened is None:
                failed = await self._open_next()
                if failed is not None:
                    return [failed]
            else:
                # about this pipeline's share of the request: elements ahead of their turn stay in memory
                await self._read_ahead(opened, -(-most // self._cycle))
                idle = 0
        return found

    async def _read_ahead(self, opened: _Opened, most: int) -> None:
        """Read elements of the pipeline whose turn it is, and close the pipeline at its end."""
        chunk = await opened.stage.pull(most)
        opened.ahead.extend(chunk)
        if not chunk:
            await opened.stage.aclose()
            self._opened[self._turn] = None
            self._given = 0

    def _next_turn(self) -> None:
        self._turn, self._given = (self._turn + 1) % self._cycle, 0

    async def _open_next(self) -> Item | None:
        """Open the next pipeline in the place whose turn it is; return the failure, if any."""
        chunk = await self.inputs[0].pull(1)
        if not chunk:
            self._ended = True
            return None
        (item,) = chunk
        if type(item[0]) is Failure:
            return item
        number, self._number = self._number, self._number + 1
        opened = self._open_pipeline(item, number)
        if isinstance(opened, Failure):
            return opened, item[1]
        self._opened[self._turn] = opened
        return None

    def _open_pipeline(self, item: Item, number: int) -> _Opened | Failure:
        """Call the function for an element and open the stages of the resulting Dataset."""
        try:
            made = self._function(item[0])
        except Exception as error:
            return self.failed_function("interleaves", self._function, item, number, error)
        if not hasattr(made, "open_stage"):
            return self.make_failure(
                "interleave is given a function that makes no pipelines",
                number,
                item[1],
                None,
                wanted="a Dataset",
                got=repr(made)[:200],
                hint="return one of the sources, as tagloom.data.from_text(path)",
            )
        return _Opened(item, made.open_stage(self.context))

    def own_state(self) -> Any:
        """Return the elements of open pipelines, the states of these, and the position in the cycle."""
        opened = [
            None
            if each is None
            else {"item": saved_items([each.item]), "its": each.stage.state(), "ahead": saved_items(each.ahead)}
            for each in self._opened
        ]
        return {"opened": opened, "turn": self._turn, "given": self._given, "number": self._number}

    def load_own_state(self, own: Any) -> None:
        """Open the same pipelines again."""
        self._turn, self._given = count_of(own["turn"]) % self._cycle, count_of(own["given"])
        self._number = count_of(own["number"])
        for place, saved in enumerate(own["opened"]):
            if saved is None:
                continue
            (item,) = restored_items(saved["item"])
            opened = self._open_pipeline(item, self._number)
            if isinstance(opened, Failure):
                raise GraphError(
                    f"a pipeline cannot be opened again: {opened.error.what}",
                    got=repr(item[0])[:200],
                    hint="let the function of interleave depend on its element alone",
                ) from opened.error
            opened.stage.restore(saved["its"])
            opened.ahead.extend(restored_items(saved["ahead"]))
            self._opened[place] = opened

    async def aclose(self) -> None:
        """Close all open pipelines."""
        await close_all([*(each.stage for each in self._opened if each is not None), *self.inputs])
