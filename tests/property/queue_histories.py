"""Random histories of queues: who puts, takes, gives up and closes when; beside a model in plain Python.

``python -m tests.property.queue_histories 10000`` runs so many.
"""

import asyncio
import random
import sys

import numpy as np
from tagflow.base import dtypes
from tagflow.base.errors import QueueClosed
from tagflow.base.shapes import SCALAR, Shape
from tagflow.ops.control.py_function import AsyncResult
from tagflow.ops.queues.elements import ElementSpec
from tagflow.ops.queues.queue_spec import ORDERS, QueueSpec
from tagflow.ops.queues.storage import QueueStorage
from tagflow.runtime.scheduling.optask import start_task

ENOUGH = 12  # turns of the loop after which nothing moves any longer


def spec_of(order, capacity, least=0, seed=0):
    """Return the spec of a queue of numbers, or of numbers with a priority in front."""
    kinds, shapes = (dtypes.int64,), (SCALAR,)
    if order == "padding":
        kinds, shapes = (dtypes.int64,), (Shape([None]),)
    if order == "priority":
        kinds, shapes = (dtypes.int64, dtypes.int64), (SCALAR, SCALAR)
    return QueueSpec(order, ElementSpec(kinds, shapes), capacity, min_after_dequeue=least, seed=seed)


class Model:
    """What a queue does, all at once: nobody is woken, everybody has gone on who can."""

    def __init__(self, order, capacity):
        self.order, self.capacity = order, capacity
        self.items, self.puts, self.takes, self.closed, self.ends = [], [], [], False, {}
        self.count = 0

    def key(self, number):
        return number % 3 if self.order == "priority" else 0

    def put(self, who, numbers):
        self.puts.append([who, list(numbers), False])
        self.settle()

    def take(self, who, count, up_to):
        self.takes.append([who, count, up_to, []])
        self.settle()

    def close(self, who, cancel):
        if self.closed:
            self.ends[who] = "is already closed"
            return
        if cancel:
            self.closed, self.ends[who] = True, None
        else:
            self.puts.append([who, [], True])
        self.settle()

    def give_up(self, who):
        for take in self.takes:
            if take[0] == who:
                self.give_back(take)
        self.puts = [put for put in self.puts if put[0] != who]
        self.takes = [take for take in self.takes if take[0] != who]
        self.settle()

    def give_back(self, take):
        self.items = take[3] + self.items
        self.items.sort(key=lambda item: (self.key(item[1]), item[0]) if self.order == "priority" else 0)

    def settle(self):
        moved = True
        while moved:
            moved = False
            while self.put_one():
                moved = True
            while self.take_one():
                moved = True

    def put_one(self):
        if not self.puts:
            return False
        who, numbers, closes = self.puts[0]
        if self.closed:
            self.ends[who] = "is already closed" if closes else "is closed"
        elif numbers and not 0 <= self.capacity <= len(self.items):
            self.count += 1
            self.items.append((self.count, numbers.pop(0)))
            self.items.sort(key=lambda item: self.key(item[1]))
            return True
        elif numbers:
            return False
        else:
            self.closed |= closes
            self.ends[who] = None
        self.puts.pop(0)
        return True

    def take_one(self):
        if not self.takes:
            return False
        who, count, up_to, got = self.takes[0]
        if len(got) < count and self.items:
            got.append(self.items.pop(0))
            return True
        if len(got) < count and not self.closed:
            return False
        if len(got) == count or (up_to and got):
            self.ends[who] = [number for _, number in got]
        else:
            self.give_back(self.takes[0])
            self.ends[who] = "is closed and has insufficient elements"
        self.takes.pop(0)
        return True


class History:
    """One history: `racing` leaves the queue no time between two events, so that only what must hold is checked."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.racing = self.random.random() < 0.5
        self.order = self.random.choice(ORDERS)
        self.capacity = self.random.choice([1, 2, 5, -1])
        self.least = self.random.choice([0, 0, 1]) if self.order == "shuffle" and self.capacity != 1 else 0
        self.queue = QueueStorage("q", spec_of(self.order, self.capacity, self.least, seed))
        self.model = Model(self.order, self.capacity)
        self.tasks, self.ends, self.puts, self.numbers, self.who = {}, {}, {}, 0, 0

    def components(self, numbers, many):
        if self.order == "priority":
            columns = [np.int64([n % 3 for n in numbers]), np.int64(numbers)]
        elif self.order == "padding":
            columns = [np.int64([[n] for n in numbers]).reshape(len(numbers), 1)]
        else:
            columns = [np.int64(numbers)]
        return columns if many else [column[0] for column in columns]

    def begin(self, call):
        self.who += 1
        who = self.who
        try:
            result = call()
        except QueueClosed as error:
            self.ends[who] = error
            return who
        if isinstance(result, AsyncResult):
            self.tasks[who] = start_task(result, str(who))
        else:
            self.ends[who] = result
        return who

    def event(self):
        kind = self.random.choices(["put", "put many", "take", "take many", "cancel", "close"], [6, 3, 6, 4, 4, 0.4])[0]
        if kind.startswith("put"):
            count = 1 if kind == "put" else self.random.randrange(4)
            numbers = list(range(self.numbers, self.numbers + count))
            self.numbers += count
            put = self.queue.put if kind == "put" else self.queue.put_many
            who = self.begin(lambda: put(self.components(numbers, kind != "put"), "put"))
            self.puts[who] = numbers
            self.model.put(who, numbers)
        elif kind == "take":
            self.model.take(self.begin(lambda: self.queue.take("take")), 1, False)
        elif kind == "take many":
            count, up_to = self.random.randrange(5), self.random.random() < 0.4
            self.model.take(self.begin(lambda: self.queue.take_many(count, "take", up_to)), count, up_to)
        elif kind == "close":
            cancel = self.random.random() < 0.5
            self.model.close(self.begin(lambda: self.queue.close(cancel, "close")), cancel)
        elif waiting := [who for who, task in self.tasks.items() if not task.done()]:
            who = self.random.choice(waiting)
            self.tasks[who].cancel()
            self.model.give_up(who)

    async def run(self):
        for _ in range(self.random.randrange(5, 40)):
            self.event()
            if not self.racing:
                await self.rest()
                self.compare()
            elif self.random.random() < 0.3:
                await asyncio.sleep(0)
        await self.rest()
        for task in self.tasks.values():
            task.cancel()
        await self.rest()
        assert all(task.done() for task in self.tasks.values())
        assert not self.queue.takers
        assert not self.queue.putters
        assert self.queue.takers.promised == self.queue.putters.promised == 0
        self.account()

    async def rest(self):
        for _ in range(ENOUGH):
            await asyncio.sleep(0)

    def outcomes(self):
        found = dict(self.ends)
        for who, task in self.tasks.items():
            if task.done() and not task.cancelled():
                found[who] = task.exception() or task.result()
        return found

    def told(self, end):
        if isinstance(end, QueueClosed):
            return end.what.removeprefix("queue 'q' ")
        return None if end is None else np.ravel(end[-1]).tolist()

    def compare(self):
        found = {who: self.told(end) for who, end in self.outcomes().items()}
        if self.order == "shuffle" or (self.order == "priority" and self.capacity >= 0):
            return  # drawn, or decided by which of those who wait for room was first to be smaller
        wanted = {who: end for who, end in self.model.ends.items() if who not in self.given_up()}
        assert found == wanted, (found, wanted)
        assert len(self.queue) == len(self.model.items)
        assert self.queue.closed == self.model.closed

    def given_up(self):
        return {who for who, task in self.tasks.items() if task.cancelled()}

    def account(self):
        """Hold what came out and what is left against what went in."""
        found = {who: self.told(end) for who, end in self.outcomes().items()}
        takes = {who: end for who, end in found.items() if who not in self.puts and isinstance(end, list)}
        out = [number for who in takes for number in takes[who]]
        left = [int(np.ravel(element[-1])[0]) for element in self.queue.order.elements()]
        assert len(set(out + left)) == len(out) + len(left), "doubled"
        entered = {n for who, numbers in self.puts.items() if who in found and found[who] is None for n in numbers}
        assert entered <= set(out + left), "lost"
        failed = [numbers for who, numbers in self.puts.items() if len(numbers) == 1 and found.get(who, 0) is not None]
        refused = {number for numbers in failed for number in numbers}
        assert not refused & set(out + left), "entered though it was given up"
        if self.order in ("fifo", "padding"):
            assert left == sorted(left)
            in_order = [number for who in sorted(takes) for number in takes[who]]
            assert in_order + left == sorted(in_order + left), "out of order"


def run(seeds):
    """Run a history for each seed."""

    async def all_of_them():
        for seed in seeds:
            try:
                await History(seed).run()
            except BaseException as error:
                error.add_note(f"history {seed}")
                raise

    asyncio.run(all_of_them())


if __name__ == "__main__":
    run(range(int(sys.argv[1])))
    print(f"{sys.argv[1]} histories: nothing lost, doubled or out of order")
