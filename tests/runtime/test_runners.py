"""Steps that run beside each other in a group, until what they take from ends."""

import asyncio
import math

import pytest
import tagloom as tg
from tagloom.streams import VirtualClock
from tagloom.training import Checkpointer

from tests.runtime.tasks import only_this_task


class Line:
    """Numbers go into a queue, are squared into the next, and added up."""

    def __init__(self, capacity=2):
        with tg.Graph().as_default() as self.graph:
            self.numbers = tg.FIFOQueue(capacity, "int32", shapes=[[]], name="numbers")
            self.squares = tg.FIFOQueue(capacity, "int32", shapes=[[]], name="squares")
            self.x = tg.placeholder("int32", [])
            self.read = self.numbers.enqueue(self.x)
            self.square = self.squares.enqueue(tg.square(self.numbers.dequeue()))
            self.total = tg.Variable(0, name="total")
            self.add = self.total.assign_add(self.squares.dequeue())
            self.size = self.numbers.size()
            self.close = self.squares.close()
            self.closed = [self.numbers.is_closed(), self.squares.is_closed()]
            self.init = tg.global_variables_initializer()

    def fed(self, *numbers):
        return ({self.x: i} for i in numbers)

    def endless(self):
        i = 0
        while True:
            yield {self.x: i}
            i += 1

    def add_all(self, group, feeds):
        reader = group.add(self.read, name="read", feeds=feeds, closes=self.numbers)
        squarer = group.add(self.square, name="square", closes=self.squares)
        return reader, squarer, group.add(self.add, name="add")


class Failing:
    """A step that fails at some of its calls, and notes when it was called."""

    def __init__(self, *calls, clock=None, error=ZeroDivisionError):
        self.calls, self.at, self.clock, self.error = calls, [], clock, error

    async def __call__(self):
        self.at.append(self.clock.now() if self.clock else None)
        if len(self.at) in self.calls or not self.calls:
            raise self.error(f"call {len(self.at)}")
        return len(self.at)


async def forever():
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_a_line_of_queues_ends_stage_by_stage(executor):
    line = Line()
    async with tg.Session(line.graph, executor=executor) as session:
        await session.run(line.init)
        async with tg.runners(session) as group:
            runners = line.add_all(group, line.fed(1, 2, 3, 4, 5))
        assert int(await session.run(line.total)) == 55
        assert [bool(each) for each in await session.run(line.closed)] == [True, True]
        assert [(each.state, each.steps) for each in runners] == [("ended", 5)] * 3
    assert only_this_task()


async def test_a_queue_is_closed_by_the_last_who_feeds_it():
    line, go = Line(), asyncio.Event()

    async def later():
        await go.wait()
        yield {line.x: 2}

    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        async with tg.runners(session) as group:
            first = group.add(line.read, name="first", feeds=line.fed(1), closes=line.numbers)
            second = group.add(line.read, name="second", feeds=later(), closes=[line.numbers])
            await first.wait()
            assert not await session.run(line.closed[0])
            go.set()
            await second.wait()
            assert await session.run(line.closed[0])
            group.add(line.square, closes=line.squares)
            group.add(line.add)
        assert int(await session.run(line.total)) == 5


async def test_readers_share_a_queue():
    line = Line()
    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        async with tg.runners(session) as group:
            for k in range(3):
                group.add(line.read, name=f"read {k}", feeds=line.fed(k, k + 1), closes=line.numbers)
            group.add(line.square, closes=line.squares)
            group.add(line.add)
        assert int(await session.run(line.total)) == 0 + 1 + 1 + 4 + 4 + 9


async def test_times_and_intervals_in_virtual_time():
    async with VirtualClock() as clock:
        beginnings = []

        async def look():
            beginnings.append(clock.now())
            await clock.sleep(1 if len(beginnings) != 2 else 25)

        async with tg.Session(tg.Graph()) as session, tg.runners(session, clock=clock) as group:
            runner = group.add(look, times=4, every=10)
        assert beginnings == [0, 10, 35, 45]
        assert (runner.name, runner.steps, runner.statistics().step_seconds) == ("look", 4, 28)


async def test_a_stop_during_a_step_skips_the_pause_to_the_next_step():
    async with VirtualClock() as clock:

        async def stop():
            runner.stop()

        async with tg.Session(tg.Graph()) as session, tg.runners(session, clock=clock) as group:
            runner = group.add(stop, times=4, every=10)
        assert (runner.steps, clock.now()) == (1, 0)


async def test_restarts_come_later_and_later_and_what_was_fed_is_fed_again():
    async with VirtualClock() as clock:
        fails = Failing(2, 3, 4, clock=clock)
        with tg.Graph().as_default() as graph:
            x = tg.placeholder("int32", [])
            y = tg.py_function(lambda x: _note(fails, x), [x], "int32")

        async with tg.Session(graph) as session, tg.runners(session, clock=clock) as group:
            values = []
            runner = group.add(
                y,
                name="y",
                feeds=({x: i} for i in (5, 6, 7)),
                restarts=3,
                backoff=1,
                longest_backoff=3,
                on_step=values.append,
            )
        assert [int(value) for value in values] == [5, 6, 7]
        assert fails.at == [(0, 5), (0, 6), (1, 6), (3, 6), (6, 6), (6, 7)]  # not 7: 3 s at most
        found = runner.statistics()
        assert (found.state, found.steps, found.restarts) == ("ended", 3, 3)
        assert "call 4" in found.last_error


def _note(fails, x):
    fails.at.append((fails.clock.now(), int(x)))
    if len(fails.at) in fails.calls:
        raise ValueError(f"call {len(fails.at)}")
    return x


async def test_an_error_names_its_runner_and_ends_the_others():
    async with tg.Session(tg.Graph()) as session:
        group = tg.runners(session)

        async def run():
            async with group:
                group.add(forever, name="other")
                group.add(Failing(2, 3), name="evaluation", restarts=1, backoff=0)

        with pytest.raises(ZeroDivisionError, match="call 3") as caught:
            await run()
        assert caught.value.__notes__ == ["in runner 'evaluation', after 1 steps, restarted 1 times"]
        assert [each.state for each in group.statistics()] == ["cancelled", "failed"]
    assert only_this_task()


async def test_an_error_of_the_program_is_not_tried_again():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("int32", [])
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match=r"[pP]laceholder"):
            async with tg.runners(session) as group:
                group.add(x, restarts=math.inf)


async def test_several_errors_are_a_group():
    async def run(session):
        async with tg.runners(session) as group:
            for name in "ab":
                group.add(Failing(), name=name)

    async with tg.Session(tg.Graph()) as session:
        with pytest.raises(ExceptionGroup) as caught:
            await run(session)
        notes = [each.__notes__[0].split(",")[0] for each in caught.value.exceptions]
        assert notes == ["in runner 'a'", "in runner 'b'"]


async def test_others_go_on_without_an_optional_one(caplog):
    line = Line()
    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        ended = []
        async with tg.runners(session) as group:
            group.add(Failing(2), name="half", optional=True, closes=line.numbers, on_end=ended.append)
            group.add(line.square, closes=line.squares)
            group.add(line.add)
        assert ended[0].state == "failed"
        assert isinstance(ended[0].error, ZeroDivisionError)
        assert "'half' has failed" in caplog.text


async def test_draining_loses_nothing():
    line = Line()
    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        async with tg.runners(session, drain=True) as group:
            reader, squarer, adder = line.add_all(group, line.endless())
            while adder.steps < 20:
                await asyncio.sleep(0)
            group.stop()
        n = reader.steps
        assert adder.steps == squarer.steps == n
        assert int(await session.run(line.total)) == sum(i * i for i in range(n)) % 2**32
        assert [each.drains for each in (reader, squarer, adder)] == [False, True, True]
        assert {each.state for each in group.statistics()} == {"ended"}
    assert only_this_task()


async def test_draining_ends_a_reader_that_waits_for_feeds_or_for_the_time():
    async def nothing():
        await forever()
        yield {}

    line = Line()
    async with VirtualClock() as clock, tg.Session(line.graph) as session:
        await session.run(line.init)
        async with tg.runners(session, clock=clock) as group:
            line.add_all(group, nothing())
            looking = group.add(Failing(2), name="look", every=1000)
            while not looking.steps:
                await asyncio.sleep(0)
            group.stop(drain=True)
        assert clock.now() < 1000
    assert only_this_task()


@pytest.mark.parametrize("kind", ["Dataset", "from_async"])
async def test_draining_ends_who_takes_from_a_source_that_does_not_end(kind):
    async def endless():
        while True:
            await asyncio.sleep(0)
            yield 1

    with tg.Graph().as_default() as graph:
        if kind == "Dataset":
            taken = tg.data.from_iterable([1]).map(int, output=tg.TensorSpec([], "int32")).repeat().next()
        else:
            taken = tg.from_async(endless, "int32", shapes=[[]]).dequeue()
        queue, total = tg.FIFOQueue(4, "int32", shapes=[[]]), tg.Variable(0)
        put, add, init = queue.enqueue(taken), total.assign_add(queue.dequeue()), total.initializer
    async with tg.Session(graph) as session:
        await session.run(init)
        async with asyncio.timeout(30), tg.runners(session) as group:
            reader, adder = group.add(put, closes=queue), group.add(add)
            while adder.steps < 10:
                await asyncio.sleep(0)
            group.stop(drain=True)
        assert reader.steps == adder.steps == int(await session.run(total))
    assert only_this_task()


async def test_what_does_not_end_while_draining_is_cancelled():
    line = Line()
    async with VirtualClock() as clock, tg.Session(line.graph) as session:
        async with tg.runners(session, clock=clock) as group:
            taker = group.add(line.square)  # nobody closes its queue
            await asyncio.sleep(0)
            group.stop(drain=5)
        assert clock.now() == 5
        assert taker.state == "cancelled"


async def test_stop_cancels_all_and_closes_nothing():
    line = Line()
    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        async with tg.runners(session) as group:
            reader = group.add(line.read, feeds=line.endless(), closes=line.numbers)
            while reader.steps < 2:
                await asyncio.sleep(0)
            group.stop()
        assert reader.state == "cancelled"
        assert int(await session.run(line.size)) == 2
        assert not await session.run(line.closed[0])
        async with tg.runners(session) as group:  # and goes on with what is there
            line.add_all(group, line.fed(7))
        assert int(await session.run(line.total)) == 0 + 1 + 49
    assert only_this_task()


@pytest.mark.parametrize(("drain", "state"), [(True, "ended"), (5, "ended"), (False, "cancelled")])
async def test_one_that_is_added_behind_stop_ends_too(drain, state):
    fails = Failing(1)
    async with asyncio.timeout(30), tg.Session(tg.Graph()) as session, tg.runners(session) as group:
        added = []
        group.add(forever, on_end=lambda _: added.append(group.add(fails, name="next")))
        await asyncio.sleep(0)
        group.stop(drain=drain)
        added.append(group.add(fails, name="later"))
        group.runners[0].cancel()
    assert [each.state for each in added] == [state] * len(added)
    assert len(added) == (2 if drain else 1)
    assert fails.at == []


async def test_one_that_is_cancelled_closes_what_it_feeds():
    line = Line()
    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        async with tg.runners(session) as group:
            reader = group.add(forever, closes=line.numbers)
            group.add(line.square, closes=line.squares)
            early = group.add(forever, name="early")
            early.cancel()  # before it began
            await asyncio.sleep(0)
            reader.cancel()
            reader.cancel()
        assert [each.state for each in group.statistics()] == ["cancelled", "ended", "ended"]
        assert await session.run(line.closed[1])


async def test_what_had_not_begun_is_cancelled_too():
    async with tg.Session(tg.Graph()) as session, tg.runners(session) as group:
        runner = group.add(forever)
        group.stop()
    assert runner.state == "cancelled"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
async def test_an_error_of_the_block_goes_on_as_it_is(error):
    line = Line()

    async def run(group):
        async with group:
            runners = line.add_all(group, line.endless())
            while not runners[2].steps:
                await asyncio.sleep(0)
            raise error("stop")

    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        group = tg.runners(session)
        with pytest.raises(error, match=r"^stop$"):
            await run(group)
        assert {each.state for each in group.runners} == {"cancelled"}
    assert only_this_task()


def test_an_interrupt_in_a_runner_ends_the_program():
    async def main():
        async with tg.Session(tg.Graph()) as session, tg.runners(session) as group:
            group.add(forever)
            group.add(Failing(error=KeyboardInterrupt), restarts=math.inf)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


async def test_cancelling_the_task_cancels_all():
    line = Line()
    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        runners = []

        async def group_of_three():
            async with tg.runners(session, drain=True) as group:
                runners.extend(line.add_all(group, line.endless()))

        task = asyncio.create_task(group_of_three())
        while not runners or not runners[2].steps:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert {each.state for each in runners} == {"cancelled"}
        assert session.statistics().steps_running == 0
    assert only_this_task()


async def test_a_session_that_is_closed_ends_the_group():
    line = Line()
    session = tg.Session(line.graph)

    async def run():
        async with tg.runners(session) as group:
            group.add(line.square, name="square", restarts=math.inf)
            await asyncio.sleep(0)
            await session.aclose()

    with pytest.raises(tg.SessionClosed) as caught:
        await run()
    assert "in runner 'square'" in caught.value.__notes__[0]


async def test_a_checkpointer_is_a_runner(tmp_path):
    line = Line()
    async with Checkpointer(tmp_path, every_steps=1) as checkpointer, tg.Session(line.graph) as session:
        await session.run(line.init)
        async with tg.runners(session) as group:
            *_, adder = line.add_all(group, line.fed(1, 2, 3))

            async def save():
                await (await checkpointer.save(session, adder.steps))

            saver = group.add(save, every=0.001)
            await adder.wait()
            saver.stop()
        await save()
    async with Checkpointer(tmp_path) as checkpointer, tg.Session(line.graph) as session:
        assert (await checkpointer.restore(session)).step == 3
        assert int(await session.run(line.total)) == 14


async def test_a_step_is_given_what_it_fetched_also_to_async_functions():
    line = Line()
    async with tg.Session(line.graph) as session:
        await session.run(line.init)
        sums = []

        async def note(value):
            await asyncio.sleep(0)
            sums.append(int(value))

        async with tg.runners(session) as group:
            line.add_all(group, line.fed(1, 2))
            with pytest.raises(tg.GraphError, match="already"):
                group.add(line.add, name="add")
            group.add(line.add, name="second", on_step=note, drains=False)
        assert set(sums) <= {1, 4, 5}


async def test_a_queue_that_was_closed_ends_the_step_that_uses_it_and_no_other():
    line = Line()

    async def log(_):
        await session.run(line.square)

    async with tg.Session(line.graph) as session:
        await session.run(line.close)
        with pytest.raises(tg.QueueClosed) as caught:
            async with tg.runners(session) as group:
                group.add(line.read, name="read", feeds=line.fed(1, 2), on_step=log)
        assert caught.value.__notes__ == ["in runner 'read', after 1 steps"]


async def test_a_function_ends_in_time():
    async with tg.Session(tg.Graph()) as session:
        with pytest.raises(tg.StepTimeout, match=r"did not end within 0.01 s"):
            async with tg.runners(session) as group:
                group.add(forever, timeout=0.01)
        async with tg.runners(session) as group:
            last = group.add(Failing(9), timeout=math.inf, times=1)
            with pytest.raises(tg.GraphError, match="timeout is no number of seconds"):
                group.add(forever, timeout="long")
        assert last.values == 1


async def test_two_groups_in_one_program():
    line = Line()
    async with tg.Session(line.graph) as one, tg.Session(line.graph) as two:
        for session in (one, two):
            await session.run(line.init)
        async with tg.runners(one) as first, tg.runners(two) as second:
            line.add_all(first, line.fed(1, 2))
            line.add_all(second, line.fed(3))
        assert [int(await each.run(line.total)) for each in (one, two)] == [5, 9]


async def test_what_does_not_fit_is_refused():
    line = Line()
    async with tg.Session(line.graph) as session:
        group = tg.runners(session)
        with pytest.raises(tg.GraphError, match="outside of its group's block"):
            group.add(line.read)
        with pytest.raises(tg.GraphError, match="drain is no number of seconds"):
            tg.runners(session, drain="yes")
        async with group:
            for options in ({"times": -1}, {"every": -1}, {"restarts": -1}, {"backoff": -1}):
                with pytest.raises(tg.GraphError):
                    group.add(forever, **options)
        assert repr(group) == "<Runners: none>"


def test_a_session_for_scripts_has_no_runners():
    with tg.SyncSession(tg.Graph()) as session, pytest.raises(tg.GraphError, match=r"tagloom\.Session"):
        tg.runners(session)
