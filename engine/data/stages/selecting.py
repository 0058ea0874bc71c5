"""Stages for passing some elements on: take, skip, shard, ignore_errors; also enumerate and check."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from ...base.errors import DtypeError, ShapeError
from .conforming import Conform
from .elements import Failure, Item, first_of, pack_leaves
from .saved_items import restored_items, saved_items
from .stage import Context, Opens, Stage, count_of

_logger = logging.getLogger("tagloom")
# Most elements per request of a stage that drops elements: a longer chunk would be in memory at once, to be dropped.
_MOST_DROPPED = 64


def _is_failure(item: Item) -> bool:
    return type(item[0]) is Failure


class CountingStage(Stage):
    """A stage whose state is the number of elements seen."""

    def __init__(self, context: Context, source: Opens) -> None:
        super().__init__(context, source)
        self._seen = 0

    def own_state(self) -> Any:
        """Return the number of elements seen."""
        return self._seen

    def load_own_state(self, own: object) -> None:
        """Continue with a saved number of elements."""
        self._seen = count_of(own)


class TakeStage(CountingStage):
    """The first `count` elements."""

    def __init__(self, context: Context, source: Opens, count: int) -> None:
        super().__init__(context, source)
        self._count = count

    async def pull(self, most: int) -> list[Item]:
        """Return elements; errors do not count."""
        left = self._count - self._seen
        if left <= 0:
            return []
        # Never more than needed: further elements would be taken from the input and lost.
        chunk = await self.inputs[0].pull(min(most, left))
        self._seen += sum(not _is_failure(item) for item in chunk)
        return chunk


class SkipStage(CountingStage):
    """The elements after the first `count`."""

    def __init__(self, context: Context, source: Opens, count: int) -> None:
        super().__init__(context, source)
        self._count = count
        self._failed: deque[Item] = deque()

    async def pull(self, most: int) -> list[Item]:
        """Return elements; errors do not count, and are passed on."""
        while (left := self._count - self._seen) > 0 and not self._failed:
            chunk = await self.inputs[0].pull(min(left, _MOST_DROPPED))
            if not chunk:
                return []
            self._failed.extend(filter(_is_failure, chunk))
            self._seen += sum(not _is_failure(item) for item in chunk)
        if self._failed:
            return first_of(self._failed, most)
        return await self.inputs[0].pull(most)

    def own_state(self) -> Any:
        """Return the number of skipped elements, and errors not yet passed on."""
        return {"seen": self._seen, "failed": saved_items(self._failed)}

    def load_own_state(self, own: Any) -> None:
        """Continue with a saved number of elements, and with saved errors."""
        super().load_own_state(own["seen"])
        self._failed.extend(restored_items(own["failed"]))


class ShardStage(CountingStage):
    """Every `count`-th element, beginning with number `index`; errors are numbered like elements."""

    def __init__(self, context: Context, source: Opens, count: int, index: int) -> None:
        super().__init__(context, source)
        self._count, self._index = count, index

    async def pull(self, most: int) -> list[Item]:
        """Return the next elements of the shard, from chunks that contain at most `most` of them."""
        while chunk := await self.inputs[0].pull(min(most * self._count, _MOST_DROPPED)):
            # Index in the chunk of the shard's next element.
            first = (self._index - self._seen) % self._count
            self._seen += len(chunk)
            if shard_items := chunk[first :: self._count]:
                return shard_items
        return []


class EnumerateStage(CountingStage):
    """Pairs of a number and an element."""

    def __init__(self, context: Context, source: Opens, start: int) -> None:
        super().__init__(context, source)
        self._start = start

    async def pull(self, most: int) -> list[Item]:
        """Return pairs; errors are not numbered."""
        numbered: list[Item] = []
        for item in await self.inputs[0].pull(most):
            if _is_failure(item):
                numbered.append(item)
            else:
                element, origin = item
                numbered.append(((self._start + self._seen, element), origin))
                self._seen += 1
        return numbered


class IgnoreErrorsStage(CountingStage):
    """The elements without failures; the state is the number of failures."""

    def __init__(self, context: Context, source: Opens, log: bool) -> None:
        super().__init__(context, source)
        self._log = log

    async def pull(self, most: int) -> list[Item]:
        """Return elements, dropping failures."""
        while chunk := await self.inputs[0].pull(most):
            self._note_errors([item[0].error for item in chunk if _is_failure(item)])
            if elements := [item for item in chunk if not _is_failure(item)]:
                return elements
        return []

    def _note_errors(self, errors: list[Exception]) -> None:
        self._seen += len(errors)
        for error in errors if self._log else ():
            _logger.warning("an element of a pipeline is left out: %s", error)


class CheckStage(CountingStage):
    """Elements as arrays of a spec's dtypes and shapes.

    Parameters
    ----------
    check : object
        The spec, as for `Conform`.
    flat : bool
        True to return an element as a tuple of its arrays, as a graph takes elements, without the spec's structure.
    """

    def __init__(self, context: Context, source: Opens, check: object, flat: bool = False) -> None:
        super().__init__(context, source)
        self._conform = Conform(check)
        self._flat = flat

    async def pull(self, most: int) -> list[Item]:
        """Return arrays, and failures in place of misfits."""
        return [item if _is_failure(item) else self._check_item(item) for item in await self.inputs[0].pull(most)]

    def _check_item(self, item: Item) -> Item:
        """Return an item with arrays, or with the failure to conform."""
        number, self._seen = self._seen, self._seen + 1
        element, origin = item
        try:
            leaves = self._conform(element)
        except (DtypeError, ShapeError) as error:
            failure = self.make_failure(
                error.what, number, origin, error, wanted=error.wanted, got=error.got, hint=error.hint
            )
            return failure, origin
        return tuple(leaves) if self._flat else pack_leaves(self._conform.spec, iter(leaves)), origin
