"""A stage for running earlier stages ahead of later ones."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from .elements import ChunkSize, Item, first_of
from .saved_items import restored_items, saved_items
from .stage import Context, Opens, Stage, end_task


class PrefetchStage(Stage):
    """Up to `size` elements read ahead, by a task of the stage's own."""

    def __init__(self, context: Context, source: Opens, size: int) -> None:
        super().__init__(context, source)
        self._size = size
        self._chunk = ChunkSize()
        self._buffer: deque[Item] = deque()
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()

    async def pull(self, most: int) -> list[Item]:
        """Return available elements; wait for the first if there are none."""
        while not self._buffer and not self._ended:
            if self._task is not None and self._task.done():
                task, self._task = self._task, None
                task.result()
            if self._task is None:
                self._task = asyncio.create_task(self._fill_buffer())
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        chunk = first_of(self._buffer, most)
        # wake the task at half, not at each element: fewer and larger chunks
        if 2 * len(self._buffer) <= self._size:
            self._room.set()
        return chunk

    async def _fill_buffer(self) -> None:
        """Read elements while the buffer has room, until the end of the input."""
        try:
            while not self._ended:
                while len(self._buffer) >= self._size:
                    self._room.clear()
                    await self._room.wait()
                chunk = await self.inputs[0].pull(min(self._chunk.most, self._size - len(self._buffer)))
                self._chunk.adapt_to(chunk)
                self._buffer.extend(chunk)
                self._ended = not chunk
                self._wake_pull()
        # even after an error: the pulling task must wake to raise it
        finally:
            self._wake_pull()

    def _wake_pull(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def own_state(self) -> Any:
        """Return the elements in the buffer."""
        return saved_items(self._buffer)

    def load_own_state(self, own: object) -> None:
        """Continue with the elements of the buffer."""
        self._buffer.extend(restored_items(own))

    async def aclose(self) -> None:
        """End the task, then close the earlier stages."""
        await end_task(self._task)
        await super().aclose()
