"""Random histories of what waits: who begins, gives up, or runs out of time when."""

import asyncio
import random
from contextlib import suppress

from tagloom.base.errors import OpError
from tagloom.kernels.core.async_result import AsyncResult
from tagloom.kernels.scheduler.optask import start_task

ENOUGH = 80  # turns of the loop after which nothing moves any longer


class Waits:
    """One history. Subclasses have a storage, a model of it in plain Python, and events that are done to both.

    Attributes
    ----------
    racing : bool
        Whether events follow each other before all has come to rest; what is exact then a subclass knows.
    ends : dict
        By number of an attempt, what it gave at once.
    tasks : dict
        By number, the tasks of those that waited.
    """

    EVENTS = {}  # weights by the names of methods

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.racing = self.random.random() < 0.4
        self.ends, self.tasks, self.deadlines, self.timers, self.who = {}, {}, {}, [], 0

    def begin(self, call):
        """Begin an attempt; return its number."""
        self.who += 1
        try:
            result = call()
        except OpError as error:
            self.ends[self.who] = error
            return self.who
        if not isinstance(result, AsyncResult):
            self.ends[self.who] = result
        else:
            self.tasks[self.who] = start_task(result, str(self.who))
            if self.random.random() < 0.3:
                deadline = self.deadlines[self.who] = asyncio.timeout(None)
                timer = asyncio.get_running_loop().create_task(self.wait(deadline, self.tasks[self.who]))
                self.timers.append(timer)
        return self.who

    @staticmethod
    async def wait(deadline, task):
        """Wait for a task as somebody does who has a deadline."""
        with suppress(Exception, asyncio.CancelledError):
            async with deadline:
                await task

    def give_up(self):
        """Let one that waits be cancelled, or run out of time."""
        waiting = [who for who, task in self.tasks.items() if not task.done()]
        if waiting:
            who = self.random.choice(waiting)
            if who in self.deadlines and self.deadlines[who].when() is None:
                self.deadlines[who].reschedule(asyncio.get_running_loop().time() - 1)
            else:
                self.tasks[who].cancel()
            self.model.give_up(who)

    async def run(self):
        """Run the history to its end, at which everybody gives up."""
        names, weights = zip(*self.EVENTS.items(), strict=True)
        for _ in range(self.random.randrange(5, 40)):
            await asyncio.sleep(0)  # begun tasks wait before they are given up
            getattr(self, self.random.choices(names, weights)[0])()
            if not self.racing:
                await self.rest()
                self.compare()
            elif self.random.random() < 0.3:
                await asyncio.sleep(0)
        await self.rest()
        for task in self.tasks.values():
            task.cancel()
        await self.rest()
        assert all(task.done() for task in (*self.tasks.values(), *self.timers))
        self.outcomes()  # errors are seen
        for line in self.lines():
            assert not line
            assert line.promised == 0
        self.account()

    async def rest(self):
        for _ in range(ENOUGH):
            await asyncio.sleep(0)

    def given_up(self):
        """Return who was cancelled or ran out of time."""
        return {who for who, task in self.tasks.items() if task.cancelled()}

    def outcomes(self):
        """Return what everybody got who has an end, as the model says it; QueueClosed and other errors as texts."""
        found = dict(self.ends)
        for who, task in self.tasks.items():
            if task.done() and not task.cancelled():
                found[who] = task.exception() or task.result()
        return {who: self.told(end) for who, end in found.items()}

    def told(self, end):
        return end.what if isinstance(end, OpError) else end

    def compare(self):
        """Hold what was got against the model."""
        gone, found = self.given_up(), self.outcomes()
        wanted = {who: end for who, end in self.model.ends.items() if who not in gone}
        assert found == wanted, (found, wanted)

    def lines(self):
        """Return the lines in which attempts wait."""
        return []

    def account(self):
        """Hold what came out and what is left against what went in."""


def run(kind, seeds):
    """Run histories of a class of them."""

    async def all_of_them():
        for seed in seeds:
            try:
                await kind(seed).run()
            except Exception as error:
                error.add_note(f"{kind.__name__}({seed})")
                raise

    asyncio.run(all_of_them())
