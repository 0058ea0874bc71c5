"""Stages for joining several elements: batch, padded_batch, bucket_by_length."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .batching import batch_of, padded_batch_of
from .elements import Failure, Item, nbytes_of
from .saved_items import restored_items, saved_items
from .stage import Context, Opens, Stage, count_of

_LARGE = 1 << 20  # bytes of a batch from which on it is copied in a thread


class BatchStage(Stage):
    """Batches of `size` elements, and a last batch of the rest, with the origins of their first elements."""

    def __init__(
        self, context: Context, source: Opens, size: int, drop_remainder: bool, padded: bool, padding: object = None
    ) -> None:
        super().__init__(context, source)
        self._drop_remainder = drop_remainder
        self._make: Callable[[Sequence[Any]], Any] = partial(padded_batch_of, padding=padding) if padded else batch_of
        self._gathered: dict[int, list[Item]] = {}  # by bucket; a plain batch has only bucket 0
        self._failed: deque[Item] = deque()
        self._number = 0
        self._size = size
        self._ended = False

    def size_of(self, bucket: int) -> int:
        """Return the batch size of a bucket."""
        return self._size

    def bucket_of(self, item: Item) -> int:
        """Return the bucket of an element."""
        return 0

    async def pull(self, most: int) -> list[Item]:
        """Return a batch, or errors of the earlier stages."""
        while True:
            if self._failed:
                return [self._failed.popleft() for _ in range(min(most, len(self._failed)))]
            if (full := self._find_full_bucket()) is not None:
                made = await self._make_batch(self._gathered[full])
                # only after the await, so that a state saved during it has the elements
                del self._gathered[full]
                self._number += 1
                return [made]
            if self._ended:
                return []
            await self._gather_elements()

    def _find_full_bucket(self) -> int | None:
        """Return a bucket whose batch is complete, or None."""
        # a dict keeps the order of insertion: buckets whose first elements are older come first
        for bucket, items in self._gathered.items():
            if len(items) >= self.size_of(bucket) or (self._ended and not self._drop_remainder):
                return bucket
        return None

    @property
    def _num_missing(self) -> int:
        """Number of elements to request, such that no batch gets too large."""
        return self._size - len(self._gathered.get(0, ()))

    async def _gather_elements(self) -> None:
        chunk = await self.inputs[0].pull(self._num_missing)
        self._ended = not chunk
        for item in chunk:
            if type(item[0]) is Failure:
                self._failed.append(item)
            elif (bucket := self.bucket_of(item)) >= 0:
                self._gathered.setdefault(bucket, []).append(item)

    async def _make_batch(self, items: list[Item]) -> Item:
        """Return the batch of some items, made in a thread if large, or its failure."""
        elements, origin = [value for value, _ in items], items[0][1]
        try:
            if nbytes_of(elements[0]) * len(elements) > _LARGE:
                return await self.context.call_in_thread(self._make, elements), origin
            return self._make(elements), origin
        except Exception as error:
            what = getattr(error, "what", f"a batch cannot be made: {error}")
            fields = {name: getattr(error, name, None) for name in ("wanted", "got", "hint")}
            return self.make_failure(what, self._number, origin, error, **fields), origin

    def own_state(self) -> Any:
        """Return the gathered elements."""
        return {
            "number": self._number,
            "failed": saved_items(self._failed),
            "gathered": [(bucket, saved_items(items)) for bucket, items in self._gathered.items()],
        }

    def load_own_state(self, own: Any) -> None:
        """Continue to gather."""
        self._number = count_of(own["number"])
        self._failed.extend(restored_items(own["failed"]))
        self._gathered = {int(bucket): restored_items(items) for bucket, items in own["gathered"]}


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of elements by length.

    Attributes
    ----------
    length : callable
        ``length(element)`` returns the length of an element.
    boundaries : tuple of int
        Upper bounds of the lengths, exclusive, of all buckets except the last.
    sizes : tuple of int
        Elements in a batch of each bucket.
    """

    length: Callable[[Any], int]
    boundaries: tuple[int, ...]
    sizes: tuple[int, ...]


class BucketStage(BatchStage):
    """Padded batches of elements of about the same length."""

    def __init__(
        self, context: Context, source: Opens, buckets: Buckets, drop_remainder: bool, padding: object
    ) -> None:
        super().__init__(context, source, 1, drop_remainder, True, padding)
        self._buckets = buckets
        self._seen = 0

    def size_of(self, bucket: int) -> int:
        """Return the batch size of a bucket."""
        return self._buckets.sizes[bucket]

    def bucket_of(self, item: Item) -> int:
        """Return the bucket of an element; -1 if its length is unknown."""
        number, self._seen = self._seen, self._seen + 1
        try:
            return bisect_right(self._buckets.boundaries, int(self._buckets.length(item[0])))
        except Exception as error:
            self._failed.append(
                (self.failed_function("gives the length of", self._buckets.length, item, number, error), item[1])
            )
            return -1

    @property
    def _num_missing(self) -> int:
        """Number of elements to request: as many as complete the fullest bucket."""
        return min(size - len(self._gathered.get(bucket, ())) for bucket, size in enumerate(self._buckets.sizes))

    def own_state(self) -> Any:
        """Return the gathered elements, and the number of elements seen."""
        return {**super().own_state(), "seen": self._seen}

    def load_own_state(self, own: Any) -> None:
        """Continue to gather."""
        super().load_own_state(own)
        self._seen = count_of(own["seen"])
