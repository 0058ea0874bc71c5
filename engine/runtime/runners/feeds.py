"""Feeds of runners: iterables, asked by a single runner at a time where several share an iterable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from inspect import isasyncgen
from itertools import repeat
from typing import Any

from ...base.waiting import wait_shielded

Feeds = Mapping[Any, Any] | Iterable[Mapping[Any, Any]] | AsyncIterable[Mapping[Any, Any]] | None


def iterator_of(feeds: Feeds) -> Iterator[Any] | AsyncIterator[Any]:
    """Return an iterator of the feeds of consecutive steps."""
    if feeds is None or isinstance(feeds, Mapping):
        return repeat(feeds)
    return aiter(feeds) if isinstance(feeds, AsyncIterable) else iter(feeds)


class SharedFeeds:
    """Feeds of a group's runners; closes async generators, and iterators that this group made of async iterables.

    Any other async iterator is left to its maker to close.
    """

    def __init__(self) -> None:
        self._shared: dict[int, DrawnFeeds | AwaitedFeeds] = {}  # by id of the iterators, which the values keep alive

    def iterator(self, feeds: Feeds) -> Iterator[Any] | AsyncIterator[Any]:
        """Return an iterator of a runner's feeds; all runners of a shared iterator get the same."""
        found = iterator_of(feeds)
        if isinstance(found, repeat):
            return found
        if isinstance(found, Iterator):
            return self._shared.setdefault(id(found), DrawnFeeds(found))
        # An iterable's iterator was made here, and a generator has no other user: nobody else would close them.
        is_closed = found is not feeds or isasyncgen(found)
        return self._shared.setdefault(id(found), AwaitedFeeds(found, is_closed))

    def take_unfed(self) -> list[Any]:
        """Return the elements that came back and were not drawn again, and forget them."""
        unfed = [each for source in self._shared.values() for each in source.returned]
        for source in self._shared.values():
            source.returned.clear()
        return unfed

    async def aclose(self) -> None:
        """Close the iterators when no runner draws any longer: in tasks, so that no cancellation interrupts them."""
        closing = [
            asyncio.ensure_future(each.aclose()) for each in self._shared.values() if isinstance(each, AwaitedFeeds)
        ]
        self._shared.clear()
        await wait_shielded(lambda: [each for each in closing if not each.done()])
        for each in closing:
            each.result()


class DrawnFeeds(Iterator[Any]):
    """An iterator whose elements may come back.

    Attributes
    ----------
    returned : deque
        Elements drawn and not fed, to be drawn first.
    """

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.returned: deque[Any] = deque()
        self._iterator = iterator

    def __next__(self) -> Any:
        return self.returned.popleft() if self.returned else next(self._iterator)


class AwaitedFeeds(AsyncIterator[Any]):
    """An async iterator for several concurrent callers, which a generator alone refuses; elements may come back.

    Attributes
    ----------
    returned : deque
        Elements drawn and not fed, to be drawn first.
    """

    def __init__(self, iterator: AsyncIterator[Any], is_closed: bool) -> None:
        self.returned: deque[Any] = deque()
        self._iterator = iterator
        self._is_closed = is_closed
        self._lock = asyncio.Lock()

    async def __anext__(self) -> Any:
        async with self._lock:
            return self.returned.popleft() if self.returned else await anext(self._iterator)

    async def aclose(self) -> None:
        """Close the iterator, if it belongs to the group."""
        close = getattr(self._iterator, "aclose", None)
        if self._is_closed and close is not None:
            await close()
