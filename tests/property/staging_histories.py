"""Random histories of staging areas, maps of them, barriers and accumulators, beside models in plain Python."""

import numpy as np
from tagloom.base import dtypes
from tagloom.base.shapes import SCALAR, Shape
from tagloom.compat.tf1.barriers.storage import FIRST, BarrierSpec, BarrierStorage
from tagloom.compat.tf1.staging.map_storage import MapSpec, MapStorage
from tagloom.compat.tf1.staging.storage import StagingStorage
from tagloom.kernels.queues.queue_base import Taken
from tagloom.ops.queues.accumulators.operations import AccumulatorSpec, AccumulatorStorage
from tagloom.ops.queues.elements import ElementSpec
from tagloom.ops.queues.queue_spec import QueueSpec

from tests.property.waiting import Waits

NUMBERS = ElementSpec((dtypes.int64,), (SCALAR,))
PAIRS = ElementSpec((dtypes.int64, dtypes.int64), (SCALAR, SCALAR))


class StagingModel:
    """First in first out, with looks at what is there."""

    def __init__(self, capacity):
        self.capacity, self.items, self.waiting, self.ends = capacity, [], [], {}

    def begin(self, who, what, value):
        self.waiting.append((who, what, value))
        self.settle()

    def give_up(self, who):
        self.waiting = [each for each in self.waiting if each[0] != who]
        self.settle()

    def clear(self):
        self.items.clear()
        self.settle()

    def settle(self):
        moved = True
        while moved:
            moved = self.step("peek") or self.step("put") or self.step("take")

    def step(self, kind):
        for each in [each for each in self.waiting if each[1] == kind]:
            _, _, value = each
            if kind == "peek":
                if value < len(self.items):
                    self.end(each, self.items[value])
                    return True
                continue  # who looks stands in no line
            if kind == "put" and not 0 <= self.capacity <= len(self.items):
                self.items.append(value)
                self.end(each, None)
                return True
            if kind == "take" and self.items:
                self.end(each, self.items.pop(0))
                return True
            return False
        return False

    def end(self, each, result):
        self.waiting.remove(each)
        self.ends[each[0]] = result


class Staging(Waits):
    """A staging area."""

    EVENTS = {"put": 6, "take": 5, "peek": 2, "give_up": 3, "clear": 0.5}

    def __init__(self, seed):
        super().__init__(seed)
        self.capacity = self.random.choice([1, 2, 5, -1])
        self.area = StagingStorage("a", QueueSpec("staging", NUMBERS, self.capacity))
        self.model, self.number, self.puts, self.cleared = StagingModel(self.capacity), 0, {}, set()

    def put(self):
        self.number += 1
        number = self.number
        who = self.begin(lambda: self.area.put([np.int64(number)], "put"))
        self.puts[who] = number
        self.model.begin(who, "put", number)

    def take(self):
        self.model.begin(self.begin(lambda: self.area.take("take")), "take", None)

    def peek(self):
        index = self.random.randrange(3)
        self.model.begin(self.begin(lambda: self.area.peek(index, "peek")), "peek", index)

    def clear(self):
        self.cleared |= {int(element[0]) for element in self.area.order.elements()}
        self.area.clear()
        self.model.clear()

    def told(self, end):
        if isinstance(end, Taken):
            end = end.result()
        return super().told(int(end[0]) if isinstance(end, tuple) else end)

    def compare(self):
        super().compare()
        assert [int(element[0]) for element in self.area.order.elements()] == self.model.items

    def lines(self):
        return self.area.takers, self.area.putters, self.area.peekers

    def account(self):
        found = self.outcomes()
        entered = {number for who, number in self.puts.items() if who in found}
        left = {int(element[0]) for element in self.area.order.elements()}
        out = {end for who, end in found.items() if who not in self.puts}
        assert entered - self.cleared <= out | left, "lost"
        assert out | left <= entered, "entered though it was given up"


class MapModel:
    """Elements by key, whole or not; capacity counts the whole ones."""

    def __init__(self, capacity, ordered):
        self.capacity, self.ordered = capacity, ordered
        self.whole, self.incomplete, self.waiting, self.ends = {}, {}, [], {}

    def begin(self, who, what, key, part=None):
        if what == "put" and (error := self.error(key, part)):
            self.ends[who] = error
            return
        self.waiting.append((who, what, key, part))
        self.settle()

    def error(self, key, part):
        there = key in self.whole or (part.keys() & self.incomplete.get(key, {}).keys())
        return f"key {key} is in map staging area 'a' already" if there else None

    def give_up(self, who):
        self.waiting = [each for each in self.waiting if each[0] != who]
        self.settle()

    def settle(self):
        while any(self.step(each) for each in sorted(self.waiting, key=lambda each: each[1] != "peek")):
            pass  # who looks does so before anything is taken

    def step(self, each):
        _, what, key, _ = each
        if what == "put":
            return self.put(each)
        if what == "peek" and key in self.whole:
            self.end(each, tuple(self.whole[key][i] for i in (0, 1)))
            return True
        if what == "take" and (key in self.whole or (key is None and self.whole)):
            found = key if key is not None else min(self.whole) if self.ordered else next(iter(self.whole))
            entry = self.whole.pop(found)
            self.end(each, (found, entry[0], entry[1]))
            return True
        return False

    def put(self, each):
        who, _, key, part = each
        if len(part) == 2:
            first = next(other[0] for other in self.waiting if other[1] == "put" and len(other[3]) == 2)
            if first != who or 0 < self.capacity <= len(self.whole):
                return False
        error = self.error(key, part)
        if error is None:
            entry = self.incomplete.pop(key, {}) | part
            (self.whole if len(entry) == 2 else self.incomplete)[key] = entry
        self.end(each, error)
        return True

    def end(self, each, result):
        self.waiting.remove(each)
        self.ends[each[0]] = result


class Maps(Waits):
    """A map staging area."""

    EVENTS = {"put": 5, "put_part": 3, "take": 4, "take_next": 2, "peek": 1, "give_up": 3}

    def __init__(self, seed):
        super().__init__(seed)
        self.capacity, ordered = self.random.choice([0, 1, 2, 5]), self.random.random() < 0.5
        self.area = MapStorage("a", MapSpec(PAIRS, self.capacity, 0, ordered))
        self.model = MapModel(self.capacity, ordered)

    def put_components(self, indices):
        key, values = self.random.randrange(6), [np.int64(self.random.randrange(100)) for _ in indices]
        who = self.begin(lambda: self.area.put(values, key, indices, "put"))
        self.model.begin(who, "put", key, dict(zip(indices, map(int, values), strict=True)))

    def put(self):
        self.put_components((0, 1))

    def put_part(self):
        self.put_components((self.random.randrange(2),))

    def take(self):
        key = self.random.randrange(6)
        self.model.begin(self.begin(lambda: self.area.take(key, (0, 1), "take")), "take", key)

    def take_next(self):
        self.model.begin(self.begin(lambda: self.area.take(None, (0, 1), "take")), "take", None)

    def peek(self):
        key = self.random.randrange(6)
        self.model.begin(self.begin(lambda: self.area.peek(key, (0, 1), "peek")), "peek", key)

    def told(self, end):
        if isinstance(end, Taken):
            end = end.result()
        return tuple(map(int, end)) if isinstance(end, tuple) else super().told(end)

    def compare(self):
        super().compare()
        assert set(self.area.whole) == set(self.model.whole)
        assert set(self.area.incomplete) == set(self.model.incomplete)

    def lines(self):
        return self.area.takers, self.area.putters, self.area.peekers

    def account(self):
        assert not self.area._promised
        assert self.area.nbytes == sum(value.nbytes for value in self.area.arrays())


class BarrierModel:
    """Elements by key, taken in the order of their keys as they are whole."""

    def __init__(self):
        self.incomplete, self.ready, self.takes, self.ends = {}, [], [], {}
        self.next, self.batch, self.closed = 0, FIRST, False

    def insert(self, who, component, keys):
        new = [key for key in keys if key not in self.incomplete]
        there = [key for key in keys if component in self.incomplete.get(key, (0, {}))[1]]
        if self.closed and new:
            self.ends[who] = f"barrier 'b' is closed, and key '{new[0]}' is new"
        elif there:
            self.ends[who] = f"key '{there[0]}' of barrier 'b' has component {component} already"
        else:
            self.ends[who] = None
            for key in keys:
                self.insert_one(component, key)
            self.batch += bool(new)
        self.settle()

    def insert_one(self, component, key):
        if key not in self.incomplete:
            self.incomplete[key] = (self.next, self.batch), {component}
            self.next += 1
            return
        number, there = self.incomplete[key]
        there.add(component)
        if len(there) == 2:
            del self.incomplete[key]
            self.ready.append((*number, key))

    def take(self, who, count, small, patient):
        if self.closed and small and not patient and count:
            count = max(1, min(count, len(self.ready)))
        self.takes.append((who, count, small, patient))
        self.settle()

    def close(self, who, cancel):
        if self.closed and not (cancel and self.incomplete):
            self.ends[who] = "barrier 'b' is already closed"
            return
        self.closed, self.ends[who] = True, None
        if cancel:
            self.incomplete.clear()
        self.settle()

    def give_up(self, who):
        self.takes = [take for take in self.takes if take[0] != who]
        self.settle()

    def settle(self):
        while self.takes:
            who, count, small, patient = self.takes[0]
            self.ready.sort()
            if len(self.ready) < count:
                if small:
                    may_come = patient and self.incomplete
                else:
                    may_come = count <= len(self.ready) + len(self.incomplete)
                if not self.closed or may_come:
                    return
                if not (small and self.ready):
                    self.ends[who] = "barrier 'b' is closed and has insufficient elements"
                    self.takes.pop(0)
                    continue
                count = len(self.ready)
            self.ends[who] = [(batch, key) for _, batch, key in self.ready[:count]]
            self.ready = self.ready[count:]
            self.takes.pop(0)


class Barriers(Waits):
    """A barrier."""

    EVENTS = {"insert": 8, "take": 4, "give_up": 2, "close": 0.3}

    def __init__(self, seed):
        super().__init__(seed)
        self.racing = False
        self.barrier, self.model = BarrierStorage("b", BarrierSpec(PAIRS)), BarrierModel()

    def insert(self):
        component, keys = self.random.randrange(2), self.random.sample("abcdefgh", self.random.randrange(4))

        def insert():
            names = np.array(keys, dtypes.string.numpy)
            rows = self.barrier.rows(component, names, np.arange(len(keys)), "insert")
            return self.barrier.insert(component, rows, "insert")

        self.model.insert(self.begin(insert), component, keys)

    def take(self):
        count, small, patient = self.random.randrange(4), self.random.random() < 0.5, self.random.random() < 0.5
        self.model.take(self.begin(lambda: self.barrier.take(count, small, patient, "take")), count, small, patient)

    def close(self):
        cancel = self.random.random() < 0.5
        self.model.close(self.begin(lambda: self.barrier.close(cancel, "close")), cancel)

    def told(self, end):
        if not isinstance(end, Taken):
            return super().told(end)
        indices, keys, *_ = end.result()
        return [(int(index), str(key)) for index, key in zip(indices, keys, strict=True)]

    def lines(self):
        return self.barrier.ready.takers, self.barrier.ready.putters

    def compare(self):
        super().compare()
        assert len(self.barrier.ready) == len(self.model.ready)
        assert set(self.barrier.incomplete) == set(self.model.incomplete)


class AccumulatorModel:
    """Sums of numbers by row, taken when enough have come."""

    def __init__(self, mean, sparse):
        self.mean, self.sparse, self.step, self.takes, self.ends = mean, sparse, 0, [], {}
        self.applied = []

    def apply(self, who, rows, step):
        self.ends[who] = step >= self.step
        if step >= self.step:
            self.applied.append(rows)
        self.settle()

    def take(self, who, count):
        self.takes.append((who, count))
        self.settle()

    def give_up(self, who):
        self.takes = [take for take in self.takes if take[0] != who]
        self.settle()

    def settle(self):
        while self.takes and len(self.applied) >= self.takes[0][1]:
            rows = sorted({index for gradient in self.applied for index, _ in gradient})
            found = {}
            for row in rows:
                having = [g for g in self.applied if any(index == row for index, _ in g)]
                total = sum(value for g in having for index, value in g if index == row)
                found[row] = total / (len(having) if self.mean else 1)
            self.ends[self.takes.pop(0)[0]] = found
            self.applied, self.step = [], self.step + 1


class Accumulators(Waits):
    """An accumulator of numbers, or of rows of them; values are multiples of 60, so that means are exact."""

    EVENTS = {"apply": 8, "take": 4, "give_up": 2}

    def __init__(self, seed):
        super().__init__(seed)
        self.racing = False
        self.sparse, mean = self.random.random() < 0.5, self.random.random() < 0.5
        spec = AccumulatorSpec(dtypes.float64, Shape(None), "MEAN" if mean else "SUM", self.sparse)
        self.sums, self.model = AccumulatorStorage("s", spec), AccumulatorModel(mean, self.sparse)

    def apply(self):
        count = self.random.randrange(4) if self.sparse else 1
        rows = [(self.random.randrange(4) if self.sparse else 0, 60.0 * self.random.randrange(9)) for _ in range(count)]
        step = self.random.choice([self.model.step, self.model.step, self.model.step - 1])
        indices, values = np.array([i for i, _ in rows], np.int64), np.array([[v] for _, v in rows]).reshape(-1, 1)
        gradient = (values, indices, np.zeros(0, np.int64)) if self.sparse else values[0]
        self.model.apply(self.begin(lambda: self.sums.apply(gradient, step, "apply")), rows, step)

    def take(self):
        count = self.random.randrange(1, 4)
        self.model.take(self.begin(lambda: self.sums.take(count, "take")), count)

    def told(self, end):
        if isinstance(end, Taken):
            end = end.result()
            end = end if self.sparse else end[0]
        if isinstance(end, tuple):
            return {int(index): float(value[0]) for index, value in zip(end[0], end[1], strict=True)}
        return {0: float(end[0])} if isinstance(end, np.ndarray) else super().told(end)

    def lines(self):
        return (self.sums.takers,)


ALL = (Staging, Maps, Barriers, Accumulators)
