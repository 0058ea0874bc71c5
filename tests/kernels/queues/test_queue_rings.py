"""The C kernels that put and take against the Python ones: the same elements, and no Python where none is needed.

The rings that they share as well: places that begin anew, growth, rows, elements that go back.
"""

import asyncio
import random
from collections import deque

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.queues.queue_rings import Ring
from tagloom.kernels.scheduler.machine import StepMachine
from tagloom.kernels.scheduler.plan import CompiledPlan
from tagloom.ops.support.context import StepContext
from tagloom.runtime.resources.manager import ResourceManager

from tests.kernels.calling import counting
from tests.support.compiling import plan_of
from tests.support.settings import ON

COMPONENTS = {
    "scalars": (["int32"], [[]]),
    "arrays": (["float64"], [[2, 3]]),
    "several": (["int64", "float32", "bool", "complex64", "int8"], [[], [3], [2, 2], [1, 1, 2], [5]]),
    "empty": (["int32", "float32"], [[], [0, 4]]),
}


def element(kinds, shapes, number):
    return [np.full(shape, number % 2 if kind == "bool" else number % 100, kind) for kind, shape in zip(kinds, shapes)]


def computed(x):
    """Return a tensor's value by operations that do not hand it on, so that it is not only fetched."""
    return tg.squeeze(tg.expand_dims(x, 0), 0)


class Kernels:
    """A queue whose operations are run on the step machine, one step each."""

    def __init__(self, kinds, shapes, capacity):
        self.context = StepContext(0, 0, ResourceManager())
        self.calls = []
        with tg.Graph().as_default() as graph:
            queue = tg.FIFOQueue(capacity, kinds, shapes=shapes, name="q")
            feeds = [tg.placeholder(kind, shape) for kind, shape in zip(kinds, shapes)]
            put, taken = queue.enqueue(feeds, name="put"), queue.dequeue(name="take")
            read = [computed(each) for each in (taken if isinstance(taken, list) else [taken])]
            self.put_plan = self.compiled(Program(graph, feeds, [], [put]))
            self.take_plan = self.compiled(Program(graph, [], read))

            n = tg.placeholder("int32", [])
            feeds = [tg.placeholder(kind, [None, *shape]) for kind, shape in zip(kinds, shapes)]
            put, taken = queue.enqueue_many(feeds, name="put_many"), queue.dequeue_many(n, name="take_many")
            read = [computed(each) for each in (taken if isinstance(taken, list) else [taken])]
            self.put_many_plan = self.compiled(Program(graph, feeds, [], [put]))
            self.take_many_plan = self.compiled(Program(graph, [n], read))

    def compiled(self, program):
        return CompiledPlan(counting(plan_of(program, ON), self.calls), ON)

    def run(self, plan, feeds=()):
        machine = StepMachine(plan, self.context, list(feeds))
        KernelContexts().run(machine.drain, 10)
        assert machine.failure is None, machine.failure
        done, result, waits = machine.done, machine.fetches, machine.launches()
        for _, waiting, _, _ in waits:
            waiting.close()
        machine.close()
        return result if done else None

    def by_python(self, name):
        """Say whether Python's kernel was needed since the last look."""
        found = name in self.calls
        self.calls.clear()
        return found


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("capacity", [1, 3, 17])
def test_elements_come_out_as_they_went_in(name, capacity):
    async def main():
        kinds, shapes = COMPONENTS[name]
        kernels, model, draw = Kernels(kinds, shapes, capacity), deque(), random.Random(capacity)
        places = 0  # that the ring has memory for, which Python makes
        for number in range(300):
            if draw.random() < 0.55 - 0.2 * (number // 50 % 2):
                given = element(kinds, shapes, number)
                put = kernels.run(kernels.put_plan, given) is not None
                assert put == (len(model) < capacity)
                if put:
                    model.append(given)
                assert kernels.by_python("put") == (not put or len(model) > places)
                if len(model) > places:
                    places = min(max(16, 2 * places), capacity)
            else:
                taken = kernels.run(kernels.take_plan)
                assert (taken is None) == (not model)
                assert kernels.by_python("take") == (taken is None)
                for got, wanted in zip(taken or (), model.popleft() if model else (), strict=True):
                    np.testing.assert_array_equal(got, wanted)
                    assert got.dtype == wanted.dtype
                    assert got.shape == wanted.shape

    asyncio.run(main())


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("capacity", [3, 17])
def test_batches_come_out_as_they_went_in(name, capacity):
    async def main():
        kinds, shapes = COMPONENTS[name]
        kernels, model, draw = Kernels(kinds, shapes, capacity), deque(), random.Random(capacity)
        fresh, by_c = iter(range(10_000)), {"put": 0, "take": 0}
        for _ in range(300):
            count = draw.randrange(1, 5)
            if draw.random() < 0.5 and len(model) + count <= capacity:
                given = [element(kinds, shapes, next(fresh)) for _ in range(count)]
                columns = [np.stack(column) for column in zip(*given)]
                assert kernels.run(kernels.put_many_plan, columns) is not None
                model.extend(given)
                by_c["put"] += not kernels.by_python("put_many")
            elif count <= len(model):
                taken = kernels.run(kernels.take_many_plan, [np.int32(count)])
                same(list(zip(*taken)), [model.popleft() for _ in range(count)])
                assert [column.dtype for column in taken] == list(map(np.dtype, kinds))
                by_c["take"] += not kernels.by_python("take_many")
            elif draw.random() < 0.2:  # what takes more than there is waits, and is given up
                assert kernels.run(kernels.take_many_plan, [np.int32(count)]) is None
                assert kernels.by_python("take_many")
        assert min(by_c.values()) > 50

    asyncio.run(main())


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_c_kernel_and_a_python_kernel_share_one_queue(name):
    async def main():
        kinds, shapes = COMPONENTS[name]
        kernels = Kernels(kinds, shapes, 5)
        kernels.run(kernels.put_plan, element(kinds, shapes, 0))
        (queue,) = [each for each in kernels.context.resources if hasattr(each, "ring")]
        assert queue.ring is not None
        for number in range(1, 40):
            if number % 2:
                kernels.run(kernels.put_plan, element(kinds, shapes, number))
                taken = queue.take("python").result()
            else:
                assert queue.put(element(kinds, shapes, number), "python") is None
                taken = kernels.run(kernels.take_plan)
            for got, wanted in zip(taken, element(kinds, shapes, number - 1), strict=True):
                np.testing.assert_array_equal(got, wanted)

    asyncio.run(main())


def test_a_value_of_another_shape_or_dtype_is_left_to_python():
    async def main():
        kernels = Kernels(["float64"], [[2, 3]], 9)
        for _ in range(2):
            kernels.run(kernels.put_plan, [np.zeros((2, 3))])
        kernels.by_python("put")
        machine = StepMachine(kernels.put_plan, kernels.context, [np.zeros((3, 2))])
        KernelContexts().run(machine.drain, 10)
        assert "component 0 has another shape" in str(machine.failure[2])
        machine.close()
        assert kernels.by_python("put")
        kernels.run(kernels.put_plan, [np.zeros((3, 2)).T])  # strided
        (queue,) = [each for each in kernels.context.resources if hasattr(each, "ring")]
        assert len(queue) == 3

    asyncio.run(main())


def test_what_is_only_fetched_is_taken_by_python():
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(3, "int32", shapes=[[]])
        fetched, read = queue.dequeue(name="fetched"), computed(queue.dequeue(name="read"))
        plan = plan_of(Program(graph, [], [fetched, read]), ON)
    marks = {node.name: node.attrs["only_fetched"] for node in plan.nodes if "only_fetched" in node.attrs}
    assert marks == {"fetched": True, "read": False}


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("capacity", [-1, 7])
@pytest.mark.parametrize("seed", range(5))
def test_a_ring_is_a_list(name, capacity, seed):
    kinds, shapes = COMPONENTS[name]
    ring, model, draw = Ring(list(map(np.dtype, kinds)), list(map(tuple, shapes)), capacity), [], random.Random(seed)
    fresh = iter(range(10_000))

    def rows(count):
        elements = [element(kinds, shapes, next(fresh)) for _ in range(count)]
        columns = [np.array(column).reshape(count, *shape) for column, shape in zip(zip(*elements), shapes)]
        return elements, columns or [np.empty((0, *shape), kind) for kind, shape in zip(kinds, shapes)]

    for _ in range(200):
        action, room = draw.choice(["push", "pop", "push rows", "pop rows", "back", "reserve"]), 7 - len(model)
        if action == "push" and room > 0:
            model.append(element(kinds, shapes, next(fresh)))
            ring.push(model[-1])
        elif action == "pop" and model:
            same([ring.pop()], [model.pop(0)])
        elif action == "push rows" and room > 0:
            before, count = draw.randrange(3), draw.randrange(1, room + 1)
            elements, columns = rows(before + count)
            ring.push_rows(columns, before, before + count)
            model += elements[before:]
        elif action == "pop rows":
            count = draw.randrange(len(model) + 1)
            taken, model = model[:count], model[count:]
            same(list(zip(*ring.pop_rows(count))), taken)
        elif action == "reserve":
            wanted = draw.randrange(40)
            ring.reserve(wanted)
            assert ring.places >= (wanted if capacity < 0 else min(wanted, capacity))
        elif action == "back":
            elements, columns = rows(draw.randrange(1, 5))  # beyond the capacity, if need be
            ring.put_back(columns, len(elements))
            model = elements + model
        assert len(ring) == len(model)
        same(list(zip(*ring.rows())), model)
    ring.clear()
    assert len(ring) == 0


def same(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_ring_refuses_more_dimensions_than_kernels_go_through():
    with pytest.raises(ValueError, match="at most"):
        Ring([np.dtype("f")], [(1,) * 40], 1)
