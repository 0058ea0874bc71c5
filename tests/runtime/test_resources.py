"""A new kind of state is one file: this one defines a mailbox and a meter, and changes nothing of the engine."""

import asyncio
import gc
import weakref
from collections import deque

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes
from tagloom.base.resources import Resource
from tagloom.base.shapes import SCALAR, Shape
from tagloom.ir import definition
from tagloom.ir.apply import apply
from tagloom.ir.definition import REQUIRED, NotDifferentiable, define
from tagloom.ir.rules.placing import OutlivesStep
from tagloom.ir.traits import Effect
from tagloom.runtime.resources.manager import ResourceManager

from tests.strict_array_library.device import StrictDevice
from tests.support.settings import ON

N = 1 << 14
SIZE = 4 * N  # bytes of the arrays here
_NONE = NotDifferentiable("a mailbox moves values outside the graph's edges")


# ---- a kind of state: storage and operations, as they would stand in engine/ops/state


class Mailbox(Resource):
    """Values in the order in which they were posted; who takes one waits for it."""

    __slots__ = ("log", "name", "values", "waiting")

    def __init__(self, name):
        self.name = name
        self.values, self.waiting, self.log = deque(), deque(), []

    @property
    def label(self):
        return f"mailbox {self.name}"

    def arrays(self):
        return list(self.values)

    def post(self, value):
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():  # of a step that was cancelled
                return future.set_result(value)
        self.values.append(value)

    def take(self):
        if self.values:
            return self.values.popleft()
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    def cancel(self, error):
        self.log.append(type(error).__name__)
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():
                future.set_exception(error)

    async def aclose(self):
        self.log.append("closed")
        self.values.clear()

    def snapshot(self):
        return [np.array(value) for value in self.values]

    def restore(self, saved):
        made = deque(np.array(value) for value in saved)
        return lambda: setattr(self, "values", made)


def _of_session(xp, context, *, shared_name):
    return context.step.resources.get_or_create("mailboxes", shared_name, Mailbox)


def _of_step(xp, context, *, shared_name):
    made = Mailbox(shared_name)
    made_by_steps.append(made)
    context.step.resources.add_to_step(context.step.number, made)
    return made


made_by_steps = []


@pytest.fixture(autouse=True)
def operations(monkeypatch):
    """Declare the operations for one test: the registry is of the operations that the engine has."""
    monkeypatch.setattr(definition, "_REGISTRY", dict(definition._REGISTRY))
    handle = {"attrs": {"shared_name": REQUIRED}, "shape": lambda op: SCALAR, "gradient": _NONE}
    define("Mailbox", "-> handle: resource", kernel=_of_session, effects=Effect.READS, rules=[OutlivesStep()], **handle)
    define("StepMailbox", "-> handle: resource", kernel=_of_step, effects=Effect.WRITES, **handle)
    define(
        "MailboxPost",
        "handle: resource, value: T -> output: T",
        where={"T": dtypes.VALUES},
        shape=lambda op: op.inputs[1].shape,
        kernel=lambda xp, context, box, value: (box.post(value), value)[1],
        gradient=_NONE,
        effects=Effect.WRITES,
    )
    define(
        "MailboxTake",
        "handle: resource -> value: @dtype",
        attrs={"dtype": REQUIRED, "shape": Shape(None)},
        shape=lambda op: Shape(op.attrs["shape"]),
        kernel=lambda xp, context, box, **_: box.take(),
        gradient=_NONE,
        effects=Effect.READS | Effect.WRITES | Effect.WAITS,
    )
    yield
    made_by_steps.clear()


def mailbox(name, type="Mailbox"):
    return apply(type, shared_name=name)


def post(box, value):
    return apply("MailboxPost", box, value)


def take(box, shape=()):
    return apply("MailboxTake", box, dtype=tg.as_dtype("float32"), shape=Shape(shape))


def box_of(session, name="box"):
    return session.resources.get_or_create("mailboxes", name, Mailbox)


async def until_it_waits(box):
    while not box.waiting:
        await asyncio.sleep(0)


# ---- it works, in loops and beside other steps


async def test_loops_post_and_take_in_steps_of_their_own(graph, executor):
    box = mailbox("box")
    sends = tg.while_loop(lambda i: i < 5.0, lambda i: post(box, i) + 1.0, [0.0], parallel_iterations=1)
    _, sums = tg.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s * 10.0 + take(box)), [0, 0.0])
    async with tg.Session(graph, executor=executor) as session:
        taking = asyncio.ensure_future(session.run(sums))
        await until_it_waits(box_of(session))
        await session.run(sends)
        assert await taking == 1234.0


async def test_two_kinds_may_have_one_name(graph):
    variable, box = tg.Variable(3.0, name="box"), mailbox("box")
    async with tg.Session(graph) as session:
        await session.run(variable.initializer)
        await session.run(post(box, variable.value()))
        assert await session.snapshot() == {"variables": {"box": 3.0}, "mailboxes": {"box": [3.0]}}


async def test_every_step_finds_it_on_one_device(graph):
    box = mailbox("box")
    with tg.device("/cpu:1"):
        sent = post(box, tg.constant([1.0, 2.0]) * 2.0)
    with tg.device("/cpu:0"):
        got = take(box, [2]) + 1.0
    async with tg.Session(graph, devices=2) as session:
        await session.run(sent)
        assert (await session.run(got)).tolist() == [3.0, 5.0]
        assert len(list(session.resources)) == 1


# ---- its memory


async def test_statistics_and_errors_say_what_it_holds(graph, executor):
    x = tg.placeholder("float32", [None])
    v = tg.Variable(np.zeros(10, np.float32), name="v")
    sent, more = post(mailbox("box"), x * 2.0), tg.concat([x, x], 0)
    async with tg.Session(graph, memory_limit=4 * SIZE, settings=ON, executor=executor) as session:
        await session.run(v.initializer)
        small, large = np.ones(N // 2, np.float32), np.ones(3 * N, np.float32)
        for _ in range(3):
            await session.run(sent.op, {x: small})
        (figures,) = session.statistics().devices.values()
        assert figures.resource_bytes == 3 * SIZE // 2 + 40
        assert figures.live_bytes - figures.resource_bytes < 100
        with pytest.raises(tg.DeviceMemoryError) as caught:
            await session.run(sent.op, {x: large})
        assert ("mailbox box", 3 * SIZE // 2) in {(each.operation, each.bytes) for each in caught.value.allocations}
        if executor == "machine":  # the reference executor does not say who has memory within a step
            with pytest.raises(tg.DeviceMemoryError, match="no room for a result") as caught:
                await session.run(more, {x: np.ones(N, np.float32)})
            assert ("mailbox box", 3 * SIZE // 2) in {(each.operation, each.bytes) for each in caught.value.allocations}


async def test_an_array_that_two_hold_counts_once(fast_paths, graph):
    v = tg.Variable(np.zeros(N, np.float32), name="v")
    sent = post(mailbox("box"), v.value())
    async with tg.Session(graph) as session:
        await session.run(v.initializer)
        await session.run(sent.op)
        (figures,) = session.statistics().devices.values()
        assert figures.resource_bytes == SIZE


async def test_a_variable_counts_where_its_array_is(graph):
    x = tg.placeholder("float32", [None])
    with tg.device("/cpu:1"):
        v = tg.Variable(np.zeros(N, np.float32), name="v")
        y = tg.concat([tg.gather(v.value(), [0]), tg.exp(x)], 0)
    limit = {"/cpu:1": 3 * SIZE}
    async with tg.Session(graph, devices=2, memory_limit=limit, settings=ON) as session:
        await session.write_variables({"v": np.ones(N, np.float32)})  # made in the first device's memory
        assert [each.resource_bytes for each in session.statistics().devices.values()] == [SIZE, 0]
        with pytest.raises(tg.DeviceMemoryError, match="no room for a result") as caught:
            await session.run(y, {x: np.ones(2 * N, np.float32)})
        assert not any("variable" in each.operation for each in caught.value.allocations)


async def test_an_error_of_one_device_passes_over_what_another_library_holds(graph, strict_library):
    x = tg.placeholder("float32", [None])
    with tg.device("/cpu:0"):
        v = tg.Variable(np.zeros(N, np.float32), name="v")
        change = v.assign_add(np.ones(N, np.float32))
    with tg.device("/cpu:1"):
        y = tg.exp(x * 2.0)
    async with StrictDevice("/cpu:0") as strict:
        session = tg.Session(graph, devices=[strict, "/cpu:1"], memory_limit={"/cpu:1": SIZE}, settings=ON)
        async with session:
            await session.run(v.initializer)
            await session.run(change)
            assert [each.resource_bytes for each in session.statistics().devices.values()] == [SIZE, 0]
            for size in (N, 2 * N):
                with pytest.raises(tg.DeviceMemoryError) as caught:
                    await session.run(y, {x: np.ones(size, np.float32)})
                assert not any("variable" in each.operation for each in caught.value.allocations)


# ---- its end


@pytest.mark.rule(46)
async def test_a_step_that_is_cancelled_leaves_it_to_others(graph, executor):
    box = mailbox("box")
    got, sent = take(box), post(box, 7.0)
    async with tg.Session(graph, executor=executor) as session:
        running = asyncio.ensure_future(session.run(got))
        await until_it_waits(box_of(session))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await session.run(sent)
        assert await session.run(got) == 7.0
        assert box_of(session).log == []


async def test_what_a_step_made_is_cancelled_and_closed_with_it(graph, executor):
    boxes = [mailbox(name, "StepMailbox") for name in ("a", "b")]
    got = take(boxes[0]) + take(boxes[1])
    async with tg.Session(graph, executor=executor) as session:
        running = asyncio.ensure_future(session.run(got))
        while len(made_by_steps) < 2 or not all(each.waiting for each in made_by_steps):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [each.log for each in made_by_steps] == [["CancelledError", "closed"]] * 2
        assert not session.resources.of_steps


async def test_a_step_that_fails_says_so_to_what_it_made(graph, executor):
    box = mailbox("a", "StepMailbox")

    async def fail(_):
        await until_it_waits(made_by_steps[0])
        raise ValueError("no")

    got = tg.py_function(fail, [tg.constant(1.0)], tg.float32) + take(box)
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.OpError):
            await session.run(got)
        assert made_by_steps[0].log == ["ValueError", "closed"]


async def test_closing_a_session_wakes_and_closes_the_newest_first(graph, executor):
    session = tg.Session(graph, executor=executor)
    order = []

    class Ordered(Mailbox):
        async def aclose(self):
            order.append(self.name)
            if self.name == "second":
                raise RuntimeError("can not")

    boxes = [session.resources.get_or_create("mailboxes", name, Ordered) for name in ("first", "second", "third")]
    from_outside = boxes[0].take()
    running = asyncio.ensure_future(session.run(take(mailbox("second"))))
    await until_it_waits(boxes[1])
    await session.aclose()
    for waiting in (from_outside, running):
        with pytest.raises(tg.SessionClosed):
            await waiting
    assert order == ["third", "second", "first"]
    assert list(session.resources) == []
    await session.aclose()
    assert len(order) == 3


async def test_an_error_that_is_kept_keeps_no_elements(graph):
    x = tg.placeholder("float32", [N])
    array = tg.TensorArray("float32", 4)
    for i in range(4):
        array = array.write(i, x * float(i + 2))
    wrong = array.write(0, x + 1.0).stack()
    async with tg.Session(graph, settings=ON) as session:
        with pytest.raises(tg.OpError, match="already been written") as caught:
            await session.run(wrong, {x: np.ones(N, np.float32)})
        assert caught.value.__traceback__ is not None
        assert session.statistics().live_bytes < 3 * SIZE, "more than the two values that the error is about"


async def test_arrays_of_iterations_go_with_them():
    resources, box = ResourceManager(), Mailbox("one")
    for _ in range(100):
        resources.add_to_step(3, Mailbox("another"))
    resources.add_to_step(3, box)
    assert len(resources.of_steps[3]) == 1
    seen = weakref.ref(box)
    await resources.aclose_step(3)
    assert box.log == ["closed"]
    del box
    gc.collect()
    assert seen() is None


# ---- its values outside


def test_what_can_not_be_given_back_keeps_nothing_else():
    resources, given_back = ResourceManager(), []

    def fail():
        raise IndexError

    for each in (lambda: given_back.append(1), fail, lambda: given_back.append(2)):
        resources.note_taken(7, each)
    resources.give_back(7)
    assert given_back == [2, 1]


async def test_a_snapshot_holds_everything_and_comes_back(graph, executor):
    w = tg.Variable([1.0, 2.0], name="w")
    box = mailbox("box")
    sent, got, change = post(box, 5.0), take(box), w.assign_add([1.0, 1.0])
    async with tg.Session(graph, executor=executor) as session:
        await session.run(w.initializer)
        await session.run(sent)
        saved = await session.snapshot()
        await session.run([change, got])
        assert (await session.snapshot())["mailboxes"] == {"box": []}
        assert saved["variables"]["w"].tolist() == [1.0, 2.0]
        await session.restore(saved)
        assert (await session.run(w)).tolist() == [1.0, 2.0]
        assert await session.run(got) == 5.0
    async with tg.Session(graph, executor=executor) as another:
        await another.restore(saved)
        again = await another.snapshot()
        assert again["mailboxes"] == {"box": [5.0]}
        np.testing.assert_array_equal((await another.read_variables())["w"], [1.0, 2.0])
        assert (await another.run([got, w.value()]))[0] == 5.0


async def test_a_restore_is_all_or_nothing(graph):
    small, large = (tg.Variable(np.zeros(n, np.float32), name=f"v{n}", shape=[None]) for n in (10, N))
    async with tg.Session(graph, memory_limit=3 * SIZE, settings=ON) as session:
        await session.run([small.initializer, large.initializer])
        for wrong, error in (
            ({"v10": np.ones(10, np.float32), "v16384": np.ones(3 * N, np.float32)}, tg.DeviceMemoryError),
            ({"v10": np.ones(10, np.float32), "v16384": np.ones([2, 2], np.float32)}, tg.ShapeError),
            ({"v10": np.ones(10, np.float32), "nobody": 1.0}, tg.GraphError),
        ):
            with pytest.raises(error):
                await session.restore({"variables": wrong})
        assert not (await session.run(small)).any()


async def test_what_does_not_fit_when_it_is_asked_for_is_not_lost(graph):
    v = tg.Variable(np.zeros(N, np.float32), name="v")
    async with tg.Session(graph, memory_limit=SIZE // 2, settings=ON) as session:
        await session.restore({"variables": {"v": np.ones(N, np.float32)}})
        for _ in range(2):
            with pytest.raises(tg.DeviceMemoryError):
                await session.read_variables()
        assert (await session.snapshot())["variables"]["v"].all()
        with pytest.raises(tg.DeviceMemoryError):
            await session.run(tg.reduce_sum(v))


def test_a_session_without_async_has_them_too(graph):
    w = tg.Variable(1.0, name="w")
    with tg.SyncSession(graph) as session:
        session.run(w.initializer)
        saved = session.snapshot()
        session.write_variables({"w": 2.0})
        session.restore(saved)
        assert session.run(w) == 1.0
