"""Random histories of queues: who puts, takes, gives up, runs out of time and closes when; beside models in Python.

``python -m tests.property.queue_histories 10000`` runs so many, of queues and of what else waits.
"""

import random
import sys

import numpy as np
from tagloom.base import dtypes
from tagloom.base.errors import OpError
from tagloom.base.shapes import SCALAR, Shape
from tagloom.ops.queues.elements import ElementSpec
from tagloom.ops.queues.queue_spec import ORDERS, QueueSpec
from tagloom.ops.queues.storage import QueueStorage

from tests.property import staging_histories, waiting
from tests.property.queue_models import Model, TurnByTurn

KINDS = (*ORDERS, "bytes")  # the last is a FIFO whose elements are no ring


def spec_of(kind, capacity, least=0, seed=0):
    """Return the spec of a queue of numbers, or of numbers with a priority in front."""
    kinds, shapes = (dtypes.int64,), (SCALAR,)
    if kind == "padding":
        shapes = (Shape([None]),)
    if kind == "priority":
        kinds, shapes = (dtypes.int64, dtypes.int64), (SCALAR, SCALAR)
    bounds = {"capacity": capacity}
    if kind == "bytes":
        kind, bounds = "fifo", {"capacity_bytes": 8 * capacity}
    return QueueSpec(kind, ElementSpec(kinds, shapes), min_after_dequeue=least, seed=seed, **bounds)


class History(waiting.Waits):
    """One history of a queue."""

    EVENTS = {"put": 6, "put_many": 3, "take": 6, "take_many": 4, "give_up": 4, "close": 0.4}

    def __init__(self, seed):
        super().__init__(seed)
        self.kind = self.random.choice(KINDS)
        self.capacity = self.random.choice([1, 2, 5, -1])
        self.least = self.random.choice([0, 0, 1]) if self.kind == "shuffle" and self.capacity != 1 else 0
        self.queue = QueueStorage("q", spec_of(self.kind, self.capacity, self.least, seed))
        turns = self.kind in ("priority", "shuffle")
        self.model = (TurnByTurn if turns else Model)(self.kind, self.capacity, self.least, seed)
        if not turns:
            self.queue.piece = self.random.choice([1, 2, self.queue.piece])
        self.puts, self.numbers = {}, 0

    def components(self, numbers, many):
        if self.kind == "priority":
            columns = [np.int64([n % 3 for n in numbers]), np.int64(numbers)]
        elif self.kind == "padding" and many:
            columns = [np.int64([[n] for n in numbers]).reshape(len(numbers), 1)]
        elif self.kind == "padding":
            return [np.full(1 + numbers[0] % 3, numbers[0])]
        else:
            columns = [np.int64(numbers)]
        return columns if many else [column[0] for column in columns]

    def put(self):
        self.put_numbers(1, lambda numbers: self.queue.put(self.components(numbers, False), "put"))

    def put_many(self):
        def put(numbers):
            return self.queue.put_many(self.queue.rows(self.components(numbers, True), "put"), "put")

        self.put_numbers(self.random.randrange(5), put)

    def put_numbers(self, count, put):
        numbers = list(range(self.numbers, self.numbers + count))
        self.numbers += count
        who = self.begin(lambda: put(numbers))
        self.puts[who] = numbers
        self.model.put(who, numbers)

    def take(self):
        self.model.take(self.begin(lambda: self.queue.take("take")), 1, False)

    def take_many(self):
        count, up_to = self.random.randrange(6), self.random.random() < 0.4
        self.model.take(self.begin(lambda: self.queue.take_many(count, "take", up_to)), count, up_to)

    def close(self):
        cancel = self.random.random() < 0.5
        self.model.close(self.begin(lambda: self.queue.close(cancel, "close")), cancel)

    def told(self, end):
        if isinstance(end, OpError):
            return end.what.removeprefix("queue 'q' ")
        if end is None:
            return None
        found = end.result()[-1]
        return self.unpadded(found) if self.kind == "padding" and found.size else np.ravel(found).tolist()

    def unpadded(self, found):
        """Return the numbers of an element, or of a batch whose rows are padded with zeros to the longest."""
        rows = found if found.ndim == 2 else found[np.newaxis]
        numbers = [int(row[0]) for row in rows]
        assert found.ndim == 1 or found.shape[1] == max(map(len, map(np.trim_zeros, rows))) or 0 in numbers
        for row, number in zip(rows, numbers, strict=True):
            length = np.count_nonzero(row == number) if number else None
            assert length is None or (row[:length] == number).all()
            assert length is None or not row[length:].any()
        return numbers

    def compare(self):
        super().compare()
        assert len(self.queue) == len(self.model.items)
        assert self.queue.closed == self.model.closed
        if self.kind not in ("priority", "shuffle"):
            assert self.left() == self.model.numbers()

    def lines(self):
        return self.queue.takers, self.queue.putters

    def left(self):
        return [int(np.ravel(element[-1])[0]) for element in self.queue.order.elements()]

    def account(self):
        """Hold what came out and what is left against what went in."""
        found = self.outcomes()
        takes = {who: end for who, end in found.items() if who not in self.puts and isinstance(end, list)}
        out, left = [number for who in takes for number in takes[who]], self.left()
        assert len(set(out + left)) == len(out) + len(left), "doubled"
        entered = {n for who, numbers in self.puts.items() if who in found and found[who] is None for n in numbers}
        assert entered <= set(out + left), "lost"
        failed = [numbers for who, numbers in self.puts.items() if len(numbers) == 1 and found.get(who, 0) is not None]
        refused = {number for numbers in failed for number in numbers}
        assert not refused & set(out + left), "entered though it was given up"
        if self.kind in ("fifo", "padding", "bytes"):
            assert left == sorted(left)
            in_order = [number for who in sorted(takes) for number in takes[who]]
            assert in_order + left == sorted(in_order + left), "out of order"
        if self.kind == "bytes" and self.capacity >= 0:
            assert self.queue.nbytes == 8 * len(left)


ALL = (History, *staging_histories.ALL)


def run(seeds):
    """Run a history of some kind for each seed, half of them of queues."""
    for seed in seeds:
        kind = History if seed % 2 else random.Random(seed).choice(ALL[1:])
        waiting.run(kind, [seed])


if __name__ == "__main__":
    run(range(int(sys.argv[1])))
    print(f"{sys.argv[1]} histories: nothing lost, doubled or out of order")
