"""What runners are fed: iterables, asked by one runner at a time where several share one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from inspect import isasyncgen
from itertools import repeat
from typing import Any

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
        self._shared: dict[int, _OneAtATime] = {}  # by the identity of iterators, which these hold

    def iterator(self, feeds: Feeds) -> Iterator[Any] | AsyncIterator[Any]:
        """Return what gives the feeds of a runner; that of a shared iterator is the same for all."""
        found = iterator_of(feeds)
        if isinstance(found, Iterator):
            return found
        is_closed = found is not feeds or isasyncgen(found)
        return self._shared.setdefault(id(found), _OneAtATime(found, is_closed))

    async def aclose(self) -> None:
        """Close them, when no runner draws any longer."""
        async with AsyncExitStack() as closing:
            for each in self._shared.values():
                closing.push_async_callback(each.aclose)
        self._shared.clear()


class _OneAtATime(AsyncIterator[Any]):
    """An async iterator that several may ask at once, though a generator can not be."""

    def __init__(self, iterator: AsyncIterator[Any], is_closed: bool) -> None:
        self._iterator = iterator
        self._is_closed = is_closed
        self._lock = asyncio.Lock()

    async def __anext__(self) -> Any:
        async with self._lock:
            return await anext(self._iterator)

    async def aclose(self) -> None:
        """Close it, if that is nobody else's to do."""
        close = getattr(self._iterator, "aclose", None)
        if self._is_closed and close is not None:
            await close()
