"""Turns of steps on an event loop."""

from asyncio import get_running_loop, sleep
from collections import deque
from time import monotonic


cdef class TimeSlices:

    cdef readonly object waiting  # futures of the steps that wait for their turn
    cdef double end  # of the open slice; 0 when the loop has turned since the last one

    def __init__(self):
        self.waiting = deque()

    def take(self, double seconds):
        cdef double left
        if not self.end:
            self.open(seconds)
            return seconds
        left = 0.0 if self.waiting else self.end - <double>monotonic()
        return min(left, seconds) if left > 0.0 else None

    async def wait(self, double seconds):
        # A bare yield comes first: a scope that cancels again and again spares tasks whose future is done, and would
        # otherwise find a lone step's future done each time it looks.
        await sleep(0)
        mine = self.take(seconds)
        if mine is None:
            waiter = get_running_loop().create_future()
            self.waiting.append(waiter)
            await waiter
        return seconds if mine is None else mine

    cdef int open(self, double seconds) except -1:
        self.end = <double>monotonic() + seconds
        get_running_loop().call_soon(self.turned)
        return 0

    def turned(self):
        self.end = 0.0
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self.open(0.0)  # the waiter's alone; and after its wake-up, so that the next one wakes a turn later
                return
