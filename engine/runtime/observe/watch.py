"""Watching a value: the values a tensor takes while steps run, one for each iteration, as an async iterator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...ir.tensor import Tensor
from ...kernels.memory.contexts import outside

_POLICIES = ("block", "latest")


class Watch:
    """The values of one tensor, as steps compute them; made by :meth:`Session.watch`.

    Iterate over it with ``async for``. It ends when the steps that compute the tensor have ended, when it is closed,
    and with its session. A step that was already running when it was made is not watched.

    Attributes
    ----------
    tensor : Tensor
    limit : int
        Most values kept for the reader.
    policy : {'block', 'latest'}
        What happens to a value when there is no room: the step waits, or the oldest value is dropped.
    dropped : int
        Values that were dropped.
    """

    def __init__(self, tensor: Tensor, limit: int, policy: str, forget: Callable[[Watch], None]) -> None:
        if policy not in _POLICIES:
            raise GraphError(
                "no such policy of a watch",
                wanted=" or ".join(_POLICIES),
                got=policy,
                hint="'latest' never holds the step up",
            )
        if limit < 1:
            raise GraphError(
                "a watch must keep at least one value",
                wanted="limit of 1 or more",
                got=limit,
                hint="limit=1 with policy='latest' keeps the newest value",
            )
        self.tensor = tensor
        self.limit = limit
        self.policy = policy
        self.dropped = 0
        self._forget = forget
        self._values: deque[np.ndarray[Any, Any]] = deque()
        self._steps = 0  # running now
        self._ended = False
        self._readers: list[asyncio.Future[None]] = []  # wait for a value, or the end
        self._blocked: deque[tuple[np.ndarray[Any, Any], asyncio.Future[None]]] = deque()  # wait for room, in order

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> np.ndarray[Any, Any]:
        while not self._values and not self._ended:
            reader = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            await reader
        if not self._values:
            raise StopAsyncIteration
        value = self._values.popleft()
        self._admit()
        return value

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching: values not read are dropped, steps that wait for room go on; twice is fine."""
        self._values.clear()
        self._end()

    def show(self, value: np.ndarray[Any, Any]) -> asyncio.Future[None] | None:
        """Take a value; return what the step must await where there is no room."""
        if self._ended:
            return None
        if len(self._values) < self.limit:
            self._put(value)
            return None
        if self.policy == "block":
            self._blocked.append((value, asyncio.get_running_loop().create_future()))
            return self._blocked[-1][1]
        self._values.popleft()
        self.dropped += 1
        self._put(value)
        return None

    def step_begins(self) -> None:
        """Note that a step computes the tensor."""
        self._steps += 1

    def step_ends(self) -> None:
        """Note that such a step is over; the watch ends with the last one."""
        self._steps -= 1
        if not self._steps:
            self._end()

    def _admit(self) -> None:
        """Let values that wait for room in, the oldest first; when the watch has ended they just go on."""
        while self._blocked and (self._ended or len(self._values) < self.limit):
            value, room = self._blocked.popleft()
            if not room.done():
                room.set_result(None)
                if not self._ended:
                    self._put(value)

    def _put(self, value: np.ndarray[Any, Any]) -> None:
        self._values.append(outside(np.array, value))
        self._wake()

    def _end(self) -> None:
        self._ended = True
        self._forget(self)
        self._admit()
        self._wake()

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)
