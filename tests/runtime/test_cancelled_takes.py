"""A take whose caller does not get its values has not happened, whatever it takes from (rule 129)."""

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])
TURNS = 12  # turns of the loop after the put in each of which a take is cancelled


@dataclass
class Case:
    """What is put, taken and counted: `take` can be run as soon as `put` has been run once."""

    put: Any
    take: Any
    count: Any
    whole: int = 1  # of `count` after one put


def queue_case(make, many=None, up_to=False, key=None):
    queue = make()
    value = 5 if key is None else [key, 5]
    put = queue.enqueue(value)
    if many:
        put = queue.enqueue_many([5] * many if key is None else [[key] * many, [5] * many])
    take = (queue.dequeue_up_to(many) if up_to else queue.dequeue_many(many)) if many else queue.dequeue()
    return Case(put, take, queue.size(), many or 1)


def sum_case(reduction):
    sums = tg.ConditionalAccumulator("int32", shape=[2], reduction_type=reduction)
    return Case(sums.apply_grad([4, 8], 10**9), sums.take_grad(1), sums.num_accumulated())


def row_case(reduction):
    sums = tg.SparseConditionalAccumulator("float32", shape=[4, 1], reduction_type=reduction)
    put = sums.apply_grad([1, 3], [[2.0], [4.0]], local_step=10**9)
    return Case(put, list(sums.take_grad(1)), sums.num_accumulated())


def stage_case():
    area = tf1.StagingArea("int32", shapes=[[]])
    return Case(area.put([5]), area.get(), area.size())


def map_case(ordered, key=None, indices=None):
    area = tf1.MapStagingArea(["int32", "int32"], shapes=[[], []], ordered=ordered)
    return Case(area.put(3, [5, 6]), list(area.get(key, indices)[1]), area.size())


def barrier_case(small):
    barrier = tf1.Barrier("int32", shapes=[[]])
    take = barrier.take_many(1, allow_small_batch=small)
    return Case(barrier.insert_many(0, ["a"], [5]), list(take), barrier.ready_size())


CASES = {
    "queue": lambda: queue_case(lambda: tg.FIFOQueue(9, "int32", shapes=[[]])),
    "queue of bytes": lambda: queue_case(lambda: tg.FIFOQueue(9, "int32", shapes=[[]], capacity_bytes=99)),
    "queue of any shapes": lambda: queue_case(lambda: tg.FIFOQueue(9, "int32")),
    "padding": lambda: queue_case(lambda: tg.PaddingFIFOQueue(9, "int32", shapes=[[]])),
    "priority": lambda: queue_case(lambda: tg.PriorityQueue(9, "int32", shapes=[[]]), key=np.int64(1)),
    "shuffle": lambda: queue_case(lambda: tg.RandomShuffleQueue(9, 0, "int32", shapes=[[]])),
    "many": lambda: queue_case(lambda: tg.FIFOQueue(9, "int32", shapes=[[]]), many=3),
    "up to": lambda: queue_case(lambda: tg.FIFOQueue(9, "int32", shapes=[[]]), many=3, up_to=True),
    "sum": lambda: sum_case("SUM"),
    "mean": lambda: sum_case("MEAN"),
    "sum of rows": lambda: row_case("SUM"),
    "mean of rows": lambda: row_case("MEAN"),
    "staging": stage_case,
    "map": lambda: map_case(False),
    "ordered map": lambda: map_case(True),
    "map by key": lambda: map_case(False, key=3),
    "map by component": lambda: map_case(True, key=3, indices=[1]),
    "barrier": lambda: barrier_case(False),
    "barrier, small batches": lambda: barrier_case(True),
}
ALL_CASES = pytest.mark.parametrize("name", CASES)


def program(name):
    with tg.Graph().as_default() as graph:
        case = CASES[name]()
        other = tg.FIFOQueue(1, "int32", shapes=[[]])
        never, closed = other.dequeue(), other.close()
    return graph, case, never, closed


async def rest(turns=30):
    for _ in range(turns):
        await asyncio.sleep(0)


def same(found, wanted):
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, two)


def flat(found):
    return [np.asarray(each) for each in (found if isinstance(found, (list, tuple)) else [found])]


@pytest.mark.sampled(every=2)
@EXECUTORS
@ALL_CASES
@pytest.mark.rule(129)
def test_a_take_cancelled_in_the_turns_after_it_was_woken_loses_nothing(name, executor):
    graph, case, _, _ = program(name)

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await session.run(case.put)
            wanted = flat(await session.run(case.take))
        for turns in range(TURNS):
            async with tg.Session(graph, executor=executor) as session:
                lost = asyncio.ensure_future(session.run(case.take))
                await rest()
                put = asyncio.ensure_future(session.run(case.put))
                await rest(turns)
                lost.cancel()
                await asyncio.wait([lost, put])
                if lost.cancelled():
                    assert await session.run(case.count) == case.whole, turns
                    same(flat(await session.run(case.take)), wanted)
                else:
                    same(flat(lost.result()), wanted)
                assert session.resources.taken == {}

    asyncio.run(main())


@pytest.mark.sampled(every=3)
@ALL_CASES
@pytest.mark.parametrize("how", ["cancelled", "timed out", "failed", "closed part", "failed part", "dropped part"])
@pytest.mark.rule(129)
def test_a_step_that_ends_before_its_caller_has_the_values_gives_them_back(name, how):
    graph, case, never, closed = program(name)

    async def main():
        async with tg.Session(graph) as session:
            await session.run(case.put)
            await END[how](session, case.take, never, closed)
            assert await session.run(case.count) == case.whole
            await session.run(case.take)
            assert session.resources.taken == {}

    asyncio.run(main())


async def cancelled(session, take, never, closed):
    lost = asyncio.ensure_future(session.run([take, never]))
    await rest()
    lost.cancel()
    await asyncio.wait([lost])


async def timed_out(session, take, never, closed):
    with pytest.raises(tg.StepTimeout):
        await session.run([take, never], timeout=0.01)


async def failed(session, take, never, closed):
    lost = asyncio.ensure_future(session.run([take, never]))
    await rest()
    await session.run(closed)
    with pytest.raises(tg.QueueClosed):
        await lost


async def closed_part(session, take, never, closed):
    async with await session.partial_run_setup([take, never], feeds=[]):
        await rest()


async def failed_part(session, take, never, closed):
    handle = await session.partial_run_setup([take, never], feeds=[])
    waiting = asyncio.ensure_future(session.partial_run(handle, never))
    await rest()
    await session.run(closed)
    with pytest.raises(tg.QueueClosed):
        await waiting


async def dropped_part(session, take, never, closed):
    handle = await session.partial_run_setup([take], feeds=[])
    await rest()
    del handle
    await rest()


END = {
    "cancelled": cancelled,
    "timed out": timed_out,
    "failed": failed,
    "closed part": closed_part,
    "failed part": failed_part,
    "dropped part": dropped_part,
}


@EXECUTORS
@pytest.mark.rule(129)
def test_a_part_that_has_got_its_values_keeps_them(executor):
    with tg.Graph().as_default() as graph:
        queue, sums = tg.FIFOQueue(9, "int32", shapes=[[]]), tg.ConditionalAccumulator("float32", shape=[])
        fill = [queue.enqueue_many([1, 2, 3]), sums.apply_grad(4.0, 10)]
        one, two, gradient = queue.dequeue(), tg.identity(queue.dequeue()), sums.take_grad(1)
        counts = [queue.size(), sums.num_accumulated()]

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await session.run(fill)
            async with await session.partial_run_setup([one, two, gradient], feeds=[]) as handle:
                got = await session.partial_run(handle, [two, gradient])
            assert [float(each) for each in got] == [2.0, 4.0]
            assert await session.run(counts) == [2, 0]

    asyncio.run(main())


@EXECUTORS
@ALL_CASES
@pytest.mark.rule(129)
def test_values_that_pass_through_operations_that_compute_nothing_go_back_too(name, executor):
    with tg.Graph().as_default() as graph:
        case = CASES[name]()
        first, *others = case.take if isinstance(case.take, list) else [case.take]
        passed, grouped = [tg.identity(tg.identity(first)), *others], tg.group(first)
        never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await session.run(case.put)
            for fetches in ([passed, never], [grouped, never]):
                with pytest.raises(tg.StepTimeout):
                    await session.run(fetches, timeout=0.01)
                assert await session.run(case.count) == case.whole

    asyncio.run(main())


@pytest.mark.rule(129)
def test_a_function_that_is_cancelled_gives_back_what_it_returns():
    async def main():
        def queue():
            return tg.FIFOQueue(9, "int32", shapes=[[]], shared_name="of a function that is cancelled")

        @tg.function
        def put(x):
            return queue().enqueue(x)

        @tg.function
        def take():
            return queue().dequeue()

        await put(np.int32(1))
        await take()
        for turns in range(TURNS):
            lost = asyncio.ensure_future(take())
            await rest()
            await put(np.int32(turns))
            await rest(turns)
            lost.cancel()
            await asyncio.wait([lost])
            assert (await take() if lost.cancelled() else lost.result()) == turns

    asyncio.run(main())


@EXECUTORS
@pytest.mark.parametrize("reduction", ["SUM", "MEAN"])
@pytest.mark.rule(129, 131)
def test_gradients_given_back_join_those_that_have_come_since(executor, reduction):
    with tg.Graph().as_default() as graph:
        x, step = tg.placeholder("float32", []), tg.placeholder("int64", [])
        sums = tg.ConditionalAccumulator("float32", shape=[], reduction_type=reduction)
        rows = tg.SparseConditionalAccumulator("float32", shape=[4, 1], reduction_type=reduction)
        put = [sums.apply_grad(x, step), rows.apply_grad([1], tg.reshape(x, [1, 1]), local_step=step)]
        other_row = rows.apply_grad([2], tg.reshape(x, [1, 1]), local_step=step)
        take, counts = [sums.take_grad(1), list(rows.take_grad(1))], [sums.num_accumulated(), rows.num_accumulated()]
        never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await session.run(put, {x: 1.0, step: 0})
            await session.run(put, {x: 2.0, step: 0})
            lost = asyncio.ensure_future(session.run([take, never]))
            await rest()
            assert await session.run(counts) == [0, 0]
            await session.run(put, {x: 100.0, step: 0})  # of an earlier step
            assert await session.run(counts) == [0, 0]
            await session.run(put, {x: 6.0, step: 1})
            await session.run(other_row, {x: 8.0, step: 1})
            lost.cancel()
            await asyncio.wait([lost])
            assert await session.run(counts) == [3, 4]
            await session.run(put, {x: 3.0, step: 0})  # the step is that of before
            total, (indices, values, _) = await session.run(take)
            divisor = 4 if reduction == "MEAN" else 1
            assert total == 12 / divisor
            assert indices.tolist() == [1, 2]
            assert values.ravel().tolist() == [12 / divisor, 8]
            await session.run(put, {x: 100.0, step: 0})
            assert await session.run(counts) == [0, 0]
            await session.run(put, {x: 1.0, step: 1})
            assert await session.run(counts) == [1, 1]

    asyncio.run(main())


@pytest.mark.rule(129, 131)
def test_a_step_set_by_hand_or_a_restore_outlasts_a_take_that_is_given_back():
    with tg.Graph().as_default() as graph:
        sums = tg.ConditionalAccumulator("float32", shape=[])
        step = tg.placeholder("int64", [])
        put, take, count = sums.apply_grad(1.0, step), sums.take_grad(1), sums.num_accumulated()
        set_step = sums.set_global_step(7)
        never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()

    async def main():
        async with tg.Session(graph) as session:
            await session.run(put, {step: 0})
            saved, counts = await session.snapshot(), []
            for change in (lambda: session.run(set_step), lambda: session.restore(saved)):
                lost = asyncio.ensure_future(session.run([take, never]))
                await rest()
                await change()
                lost.cancel()
                await asyncio.wait([lost])
                assert await session.run(count) == 1
                await session.run(put, {step: 6})
                counts.append(await session.run(count))
            assert counts == [1, 2]  # of a step before that set by hand, and not before the one restored

    asyncio.run(main())


@pytest.mark.rule(129, 131)
def test_gradients_go_back_while_a_thread_adds_another():
    size = 1 << 20
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [size])
        sums = tg.ConditionalAccumulator("float32", shape=[size])
        put, take, count = sums.apply_grad(x, 100), sums.take_grad(1), sums.num_accumulated()
        never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()

    async def main():
        ones = np.ones(size, np.float32)
        async with tg.Session(graph) as session:
            for turns in range(8):
                await session.run(put, {x: ones})
                lost = asyncio.ensure_future(session.run([take, never]))
                while await session.run(count):
                    pass
                adding = [asyncio.ensure_future(session.run(put, {x: 3 * ones})) for _ in range(2)]
                await rest(turns)
                lost.cancel()
                await asyncio.wait([lost, *adding])
                assert await session.run(count) == 3
                mean = await session.run(take)
                assert mean[0] == mean[-1] == np.float32(7 / 3)

    asyncio.run(main())


@EXECUTORS
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.rule(129)
def test_an_element_given_back_stands_before_a_later_one_of_its_key(executor, ordered):
    with tg.Graph().as_default() as graph:
        area = tf1.MapStagingArea(["int32", "int32"], shapes=[[], []], ordered=ordered)
        key, x = tg.placeholder("int64", []), tg.placeholder("int32", [])
        put, put_part, rest_of_it = area.put(key, [x, x]), area.put(key, [x], [0]), area.put(key, [x], [1])
        by_key, first = area.get(key), area.get(key, [0])
        size, incomplete = area.size(), area.incomplete_size()
        never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await session.run(put, {key: 1, x: 10})
            await session.run(put, {key: 2, x: 20})
            lost = asyncio.ensure_future(session.run([by_key, never], {key: 1}))
            parts = asyncio.ensure_future(session.run([first, never], {key: 2}))
            await rest()
            await session.run(put, {key: 1, x: 11})
            await session.run(put, {key: 3, x: 30})
            lost.cancel()
            await asyncio.wait([lost])
            assert await session.run(size) == 4
            saved = await session.snapshot()
            for again in range(2):
                got = [await session.run(by_key, {key: 1}) for _ in range(2)]
                assert [int(values[0]) for _, values in got] == [10, 11]
                if not again:
                    await session.restore(saved)
            parts.cancel()  # what it took was replaced by the restored state
            await asyncio.wait([parts])
            assert await session.run(size) == 2
            await session.run(put_part, {key: 4, x: 40})
            await session.run(rest_of_it, {key: 4, x: 41})
            assert await session.run(incomplete) == 0

    asyncio.run(main())


@pytest.mark.rule(129)
def test_components_taken_by_two_steps_go_back_to_one_element():
    with tg.Graph().as_default() as graph:
        area = tf1.MapStagingArea(["int32", "int32"], shapes=[[], []])
        put, (_, left), (_, right) = area.put(1, [7, 8]), area.get(1, [0]), area.get(1, [1])
        whole, size = area.get(1)[1], area.size()
        never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()

    async def main():
        async with tg.Session(graph) as session:
            await session.run(put)
            lost = []
            for each in (left, right):
                lost.append(asyncio.ensure_future(session.run([each, never])))
                await rest()
            assert await session.run(size) == 0
            for each in lost:
                each.cancel()
            await asyncio.wait(lost)
            assert await session.run(size) == 1
            assert [int(each) for each in await session.run(whole)] == [7, 8]

    asyncio.run(main())


@pytest.mark.rule(129)
def test_an_element_of_which_a_part_was_taken_is_saved_and_restored():
    with tg.Graph().as_default() as graph:
        area = tf1.MapStagingArea(["int32", "int32"], shapes=[[], []])
        key = tg.placeholder("int64", [])
        put, part, left, next_key = area.put(key, [7, 8]), area.get(1, [0]), area.get(1, [1]), area.get(2)[0]

    async def main():
        async with tg.Session(graph) as session:
            for each in (1, 2):
                await session.run(put, {key: each})
            await session.run(part)
            saved = await session.snapshot()
        async with tg.Session(graph) as session:
            await session.restore(saved)
            assert (await session.run(left))[1][0] == 8
            assert await session.run(next_key) == 2

    asyncio.run(main())


@EXECUTORS
@pytest.mark.rule(129)
def test_a_record_that_was_read_for_nobody_is_read_again(executor, tmp_path):
    (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(2 * TURNS)))
    with tg.Graph().as_default() as graph:
        names = tg.FIFOQueue(9, "string", shapes=[[]])
        reader = tf1.TextLineReader()
        fill, (record, value) = names.enqueue(str(tmp_path / "lines")), reader.read(names)
        produced, closed = reader.num_records_produced(), names.close()
        never = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue()

    async def main():
        async with tg.Session(graph, executor=executor) as session:
            await session.run(fill)
            await session.run(closed)
            got = []
            for turns in range(TURNS):  # the first ones are cancelled while a thread reads
                lost = asyncio.ensure_future(session.run([record, value]))
                await rest(turns)
                lost.cancel()
                await asyncio.wait([lost])
                got += [] if lost.cancelled() else [lost.result()[1]]
            held = asyncio.ensure_future(session.run([value, never]))
            await rest()
            got.append(await session.run(value))
            saved_late = got.pop()
            held.cancel()
            await asyncio.wait([held])
            saved = await session.snapshot()
            last = [str(await session.run(value)) for _ in range(2 * TURNS - len(got) - 1)]
            assert [*map(str, got), *last] == [str(n) for n in range(2 * TURNS) if str(n) != str(saved_late)]
            assert await session.run(produced) == 2 * TURNS
            with pytest.raises(tg.QueueClosed):
                await session.run(value)
        async with tg.Session(graph, executor=executor) as session:
            await session.restore(saved)
            held = asyncio.ensure_future(session.run([value, never]))  # takes a record that was restored
            await rest()
            held.cancel()
            await asyncio.wait([held])
            assert [str(await session.run(value)) for _ in last] == last

    asyncio.run(main())


@pytest.mark.rule(129)
def test_who_waits_for_a_file_gets_a_record_that_is_given_back(tmp_path):
    (tmp_path / "lines").write_text("one\n")
    with tg.Graph().as_default() as graph:
        names = tg.FIFOQueue(9, "string", shapes=[[]])
        fill, (_, value) = names.enqueue(str(tmp_path / "lines")), tf1.TextLineReader().read(names)
        never, size = tg.FIFOQueue(1, "int32", shapes=[[]]).dequeue(), names.size()

    async def main():
        async with tg.Session(graph) as session:
            await session.run(fill)
            lost = asyncio.ensure_future(session.run([value, never]))
            while await session.run(size) or not session.resources.taken:
                await asyncio.sleep(0)
            waiting = asyncio.ensure_future(session.run(value))
            await asyncio.sleep(0.01)
            lost.cancel()
            assert await waiting == "one"
            await session.run(fill)
            assert await session.run(value) == "one"

    asyncio.run(main())


@EXECUTORS
@pytest.mark.rule(129)
def test_an_element_of_a_pipeline_for_nobody_is_the_next_one(executor):
    with tg.Graph().as_default() as graph:
        gate = tg.FIFOQueue(1, "int32", shapes=[[]])

        async def numbers():
            for n in range(100):
                await asyncio.sleep(0)
                yield n

        element = tg.data.from_async(numbers, output=tg.TensorSpec([], "int64")).next()
        never = gate.dequeue()

    async def main():
        got = []
        async with tg.Session(graph, executor=executor) as session:
            for turns in range(2 * TURNS):
                lost = asyncio.ensure_future(session.run(element if turns % 2 else [element, never]))
                await rest(turns)
                lost.cancel()
                await asyncio.wait([lost])
                got += [] if lost.cancelled() else [int(lost.result())]
                got.append(int(await session.run(element)))
        assert got == list(range(len(got)))

    asyncio.run(main())


@pytest.mark.rule(129)
def test_a_bridge_that_ends_early_gives_back_what_it_carries():
    with tg.Graph().as_default() as graph:
        queue, x = tg.FIFOQueue(9, "int32", shapes=[[]]), tg.placeholder("int32", [])
        put, size, one = queue.enqueue(x), queue.size(), queue.dequeue()

    async def main():
        for turns in range(TURNS):
            async with tg.Session(graph) as session:
                outside = asyncio.Queue(maxsize=1)
                bridge = queue.bridge(session, outside, direction="out")
                await rest()
                for n in range(3):
                    await session.run(put, {x: n})
                await rest(turns)
                await bridge.aclose()
                got = [int(outside.get_nowait()) for _ in range(outside.qsize())]
                got += [int(await session.run(one)) for _ in range(int(await session.run(size)))]
                assert got == [0, 1, 2]

    asyncio.run(main())
