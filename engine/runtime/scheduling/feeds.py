"""What runners are fed: iterables, asked by one runner at a time where several share one."""

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
    """Return what gives the feeds of one step after another."""
    if feeds is None or isinstance(feeds, Mapping):
        return repeat(feeds)
    return aiter(feeds) if isinstance(feeds, AsyncIterable) else iter(feeds)


class SharedFeeds:
    """The feeds of a group's runners, which it closes: async generators, and what async iterables gave it.

    Another async iterator that was given as one is its maker's to close.
    """

    def __init__(self) -> None:
        self._shared: dict[int, DrawnFeeds | AwaitedFeeds] = {}  # by the identity of iterators, which these hold

    def iterator(self, feeds: Feeds) -> Iterator[Any] | AsyncIterator[Any]:
        """Return what gives the feeds of a runner; that of a shared iterator is the same for all."""
        found = iterator_of(feeds)
        if isinstance(found, repeat):
            return found
        if isinstance(found, Iterator):
            return self._shared.setdefault(id(found), DrawnFeeds(found))
        is_closed = found is not feeds or isasyncgen(found)
        return self._shared.setdefault(id(found), AwaitedFeeds(found, is_closed))

    def take_unfed(self) -> list[Any]:
        """Return what came back and was not drawn again, and forget it."""
        unfed = [each for source in self._shared.values() for each in source.returned]
        for source in self._shared.values():
            source.returned.clear()
        return unfed

    async def aclose(self) -> None:
        """Close them, when no runner draws any longer: in tasks, as a cancellation cuts short nothing that they do."""
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
        Elements that were drawn and not fed, which are the next ones.
    """

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.returned: deque[Any] = deque()
        self._iterator = iterator

    def __next__(self) -> Any:
        return self.returned.popleft() if self.returned else next(self._iterator)


class AwaitedFeeds(AsyncIterator[Any]):
    """An async iterator that several may ask at once, though a generator cannot be, and whose elements may come back.

    Attributes
    ----------
    returned : deque
        Elements that were drawn and not fed, which are the next ones.
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
        """Close it, if that is nobody else's to do."""
        close = getattr(self._iterator, "aclose", None)
        if self._is_closed and close is not None:
            await close()
