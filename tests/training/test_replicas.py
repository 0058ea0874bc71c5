"""Replicas that update one model, asynchronously or the first of them together, in virtual time."""

import asyncio
import math
import random

import numpy as np
import pytest
import tagloom as tg
from tagloom.streams import Exponential, InjectedError, Lognormal
from tagloom.training import AdamOptimizer, AsyncReplicas, Checkpointer, SyncReplicas

from tests.runtime.tasks import only_this_task
from tests.training.replica_programs import RATE, START, Program, gradient, running


def synchronous(backup=0):
    return lambda optimizer, count: SyncReplicas(optimizer, count, backup=backup)


async def train(program, session, clock, **options):
    async with tg.runners(session, clock=clock) as group:
        training = program.replicas.start(group, feeds=program.feeds(), **options)
    return training


def totals(training):
    return {each.replica: (each.counted, each.late) for each in training.statistics()}


# ---- what is computed


async def test_an_update_is_that_of_the_mean_gradient():
    program = Program(synchronous(), 3)
    wanted = START
    for _ in range(7):
        wanted = wanted - RATE * np.mean([gradient(program, k, wanted) for k in range(3)], axis=0)
    async with running(program, 1.0) as (session, clock):
        training = await train(program, session, clock, steps=7)
        np.testing.assert_allclose(await session.run(program.w), wanted, rtol=1e-5)
        assert training.step == int(await session.run(program.replicas.global_step)) == 7
    assert totals(training) == {0: (7, 0), 1: (7, 0), 2: (7, 0)}


async def test_both_executors_make_the_same_updates():
    program = Program(synchronous(), 2, AdamOptimizer(0.1))
    found = []
    for executor in ("machine", "reference"):
        async with tg.Session(program.graph, devices=3, executor=executor) as session:
            await session.run(program.init)
            await train(program, session, None, steps=5)
            found.append(await session.run(program.w))
    np.testing.assert_allclose(*found, rtol=1e-5)


async def test_the_first_count_and_others_are_reported():
    program = Program(synchronous(backup=1), 3)
    wanted = START
    for _ in range(25):
        wanted = wanted - RATE * np.mean([gradient(program, k, wanted) for k in range(2)], axis=0)
    async with running(program, 0.5, 0.5, 5.3) as (session, clock):  # a step has a product and its gradient
        training = await train(program, session, clock, steps=25)
        np.testing.assert_allclose(await session.run(program.w), wanted, rtol=1e-4)
        assert clock.now() == 25
    assert totals(training) == {0: (25, 0), 1: (25, 0), 2: (0, 2)}
    assert [(each.replica, each.step, each.updates) for each in training.late] == [(2, 0, 10), (2, 10, 11)]
    assert [each.seconds for each in training.late] == pytest.approx([9.6, 10.2])
    slow = training.statistics()[2]
    assert (slow.staleness, slow.most_stale, slow.seconds_late) == (21, 11, pytest.approx(19.8))


async def test_tokens_of_a_replica_that_is_always_late_do_not_pile_up():
    program = Program(synchronous(backup=1), 3)
    with program.graph.as_default():
        left = [each.size() for each in program.replicas._tokens]
    async with running(program, 0.5, 0.5, 5.3) as (session, clock):
        await train(program, session, clock, steps=100)
        assert max(await session.run(left)) <= 12  # of the updates made since its last step


async def test_replicas_that_have_left_before_the_first_update_end_it():
    program = Program(synchronous(), 2)
    async with running(program, 1.0) as (session, clock), tg.runners(session, clock=clock) as group:
        training = program.replicas.start(group, feeds=[[], []], steps=3)
    assert training.step == 0
    assert {each.state for each in group.statistics()} <= {"ended", "cancelled"}


async def test_without_backup_all_wait_for_the_slowest():
    program = Program(synchronous(), 3)
    async with running(program, 0.5, 0.5, 5) as (session, clock):
        training = await train(program, session, clock, steps=3)
        assert clock.now() == 30
    assert totals(training) == {0: (3, 0), 1: (3, 0), 2: (3, 0)}


async def test_sparse_gradients_are_made_dense():
    with tg.Graph().as_default() as graph:
        table = tg.Variable(np.zeros((4, 2), np.float32))
        replicas = synchronous()(tg.training.GradientDescentOptimizer(1.0), 2)
        for rows in ([0, 0], [0, 3]):
            replicas.minimize(tg.reduce_sum(tg.gather(table, rows)))
        init = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(init)
        async with tg.runners(session) as group:
            replicas.start(group, steps=1)
        np.testing.assert_array_equal(await session.run(table), [[-1.5, -1.5], [0, 0], [0, 0], [-0.5, -0.5]])


async def test_asynchronous_replicas_add_to_what_is_current():
    program = Program(AsyncReplicas, 2)
    async with running(program, 0.5, 5.3) as (session, clock):
        training = await train(program, session, clock, steps=25)
    assert totals(training) == {0: (22, 0), 1: (3, 0)}
    fast, slow = training.statistics()
    assert (fast.most_stale, slow.most_stale) == (1, 11)
    assert training.step == 25


async def test_an_asynchronous_update_is_made_of_old_parameters():
    program = Program(AsyncReplicas, 2)
    async with running(program, 0.5, 0.75) as (session, clock):
        await train(program, session, clock, steps=3)  # at 1, 1.5 and 2
        first = START - RATE * gradient(program, 0, START)
        second = first - RATE * gradient(program, 1, START)
        third = second - RATE * gradient(program, 0, first)
        np.testing.assert_allclose(await session.run(program.w), third, rtol=1e-5)


# ---- who fails, leaves and comes back


@pytest.mark.parametrize("make", [synchronous(), synchronous(1), AsyncReplicas])
async def test_replicas_that_fail_are_restarted(make):
    program = Program(make, 3)
    async with running(program, Lognormal(1.0, 0.3), failures=[0.1, 0.2, 0.0]) as (session, clock):
        training = await train(program, session, clock, steps=40, restarts=math.inf, backoff=0.5, longest_backoff=4)
        assert int(await session.run(program.replicas.global_step)) == 40
    found = training.statistics()
    assert found[0].restarts > 0
    assert "MatMul fails on /cpu:1, as it was made to" in found[0].last_error
    assert found[2].restarts == 0
    assert only_this_task()


async def test_a_backup_stands_in_for_one_that_fails_for_good(caplog):
    program = Program(synchronous(1), 3)
    async with running(program, 1.0, failures=[0, 1.0, 0]) as (session, clock):
        training = await train(program, session, clock, steps=10)
    assert totals(training) == {0: (10, 0), 1: (0, 0), 2: (10, 0)}
    assert training.statistics()[1].state == "failed"
    assert "'sync_replicas 1' has failed" in caplog.text


async def test_too_many_failures_end_the_group():
    program = Program(synchronous(), 3)
    async with running(program, 1.0, failures=[0, 1.0, 0]) as (session, clock):
        with pytest.raises(tg.OpError, match="MatMul") as caught:
            await train(program, session, clock, steps=10, restarts=2, backoff=1)
    assert isinstance(caught.value.__cause__, InjectedError)
    assert caught.value.__notes__ == ["in runner 'sync_replicas 1', after 0 steps, restarted 2 times"]
    assert only_this_task()


async def test_the_number_of_replicas_shrinks_where_that_is_allowed():
    program = Program(synchronous(), 3)
    async with running(program, 1.0, failures=[0, 1.0, 0]) as (session, clock):
        training = await train(program, session, clock, steps=10, minimum=1)
    assert totals(training) == {0: (10, 0), 1: (0, 0), 2: (10, 0)}


async def test_the_last_failure_ends_the_group():
    program = Program(synchronous(), 2)
    async with running(program, 1.0, failures=[1.0, 1.0]) as (session, clock):
        with pytest.raises(tg.OpError, match="MatMul"):
            await train(program, session, clock, steps=10, minimum=1)


async def test_nobody_waits_for_a_replica_that_is_cancelled_and_it_may_come_back():
    program = Program(synchronous(), 3)
    async with running(program, 0.5, 0.5, 50) as (session, clock), tg.runners(session, clock=clock) as group:
        training = program.replicas.start(group, feeds=program.feeds(), steps=10)
        await clock.sleep(20)
        assert training.step == 0
        with pytest.raises(tg.GraphError, match="cannot join"):
            training.join(2)
        next(each for each in group.runners if each.name.endswith(" 2")).cancel()
        await clock.sleep(5.5)
        assert (training.step, training.active) == (6, {0, 1})
        training.join(2)
        await clock.sleep(50)
        assert training.step == 7  # they wait for it again
        await clock.sleep(100)
        assert totals(training)[2] == (0, 1)  # as it had begun before that
        await clock.sleep(100)
        assert training.step == 8
        for each in group.runners:
            each.cancel()
    assert training.active == set()
    assert totals(training)[2] == (1, 1)
    with pytest.raises(tg.GraphError, match="the last update was made"):
        training.join(2)
    assert only_this_task()


async def test_replicas_leave_with_their_feeds():
    program = Program(synchronous(), 3)
    feeds = [[fed] * count for fed, count in zip(program.feeds(), (2, 5, 9), strict=True)]
    async with running(program, 1.0) as (session, clock), tg.runners(session, clock=clock) as group:
        training = program.replicas.start(group, feeds=feeds)
    assert totals(training) == {0: (2, 0), 1: (5, 0), 2: (9, 0)}
    assert training.step == 9
    assert {each.state for each in group.statistics()[:3]} == {"ended"}


async def test_a_replica_that_joins_again_goes_on_with_its_feeds():
    program = Program(AsyncReplicas, 2)
    feeds = [[fed] * 6 for fed in program.feeds()]
    async with running(program, 1.0) as (session, clock), tg.runners(session, clock=clock) as group:
        training = program.replicas.start(group, feeds=feeds)
        await clock.sleep(2.5)
        group.runners[0].cancel()
        await group.runners[0].wait()
        training.join(0)
    assert totals(training) == {0: (5, 0), 1: (6, 0)}  # and one that was under way


async def test_a_replica_that_could_not_join_holds_nobody_up():
    program = Program(synchronous(), 3)
    async with running(program, 1.0) as (session, clock), tg.runners(session, clock=clock) as group:
        training = program.replicas.start(group, feeds=program.feeds(), steps=9)
        await clock.sleep(2.5)
        left = group.runners[0]
        left.cancel()
        await left.wait()
        other = group.add(asyncio.Event().wait, name=left.name)  # as its own runner, if that is still ending
        with pytest.raises(tg.GraphError, match="there is a runner"):
            training.join(0)
        assert training.active == {1, 2}
        await clock.sleep(2)
        other.cancel()
        await other.wait()
        training.join(0)
    assert training.step == 9
    assert totals(training)[0][0] > 2


async def test_replicas_share_feeds_also_when_one_has_left():
    with tg.Graph().as_default() as graph:
        x, w = tg.placeholder("float32", []), tg.Variable(0.0)
        replicas = AsyncReplicas(tg.training.GradientDescentOptimizer(1.0), 3)
        for _ in range(3):
            replicas.minimize(x * w)
        init = tg.global_variables_initializer()
    feeds = ({x: 1.0} for _ in range(50))
    async with tg.Session(graph) as session:
        await session.run(init)
        async with tg.runners(session) as group:
            training = replicas.start(group, feeds=[feeds] * 3)
            while training.step < 5:
                await asyncio.sleep(0)
            group.runners[0].cancel()
            await group.runners[0].wait()
            training.join(0)
        lost = 50 - training.step
        assert 0 <= lost <= 1  # what the one that was cancelled was about to use
        assert training.step <= -float(await session.run(w)) <= training.step + lost  # or had used already


@pytest.mark.parametrize("make", [synchronous(), synchronous(1), AsyncReplicas])
async def test_replicas_share_a_queue_and_drain_it(make):
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(4, "float32", shapes=[[]])
        x = tg.placeholder("float32", [])
        read = queue.enqueue(x)
        w = tg.Variable(0.0)
        replicas = make(tg.training.GradientDescentOptimizer(1.0), 3)
        for _ in range(3):
            replicas.minimize(queue.dequeue() * w)
        init = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(init)
        async with tg.runners(session) as group:
            reader = group.add(read, name="read", feeds=_endless(x), closes=queue)
            training = replicas.start(group)
            while reader.steps < 40:
                await asyncio.sleep(0)
            group.stop(drain=True)
        assert sum(counted + late for counted, late in totals(training).values()) == reader.steps
        assert {each.state for each in group.statistics()[:4]} == {"ended"}


def _endless(x):
    while True:
        yield {x: 1.0}


@pytest.mark.parametrize("make", [synchronous(), AsyncReplicas])
async def test_draining_ends_replicas_behind_their_steps(make):
    program = Program(make, 3)
    async with running(program, 0.5, 1.0) as (session, clock):
        async with tg.runners(session, clock=clock) as group:
            training = program.replicas.start(group, feeds=program.feeds())
            await clock.sleep(9)
            group.stop(drain=True)
        assert clock.now() <= 10
        assert not training.active


@pytest.mark.parametrize("make", [synchronous(), synchronous(1), AsyncReplicas])
async def test_a_group_that_is_cancelled_leaves_nothing_and_another_goes_on(make):
    program = Program(make, 3)
    async with running(program, 0.5, 1.0) as (session, clock):
        for when in (1.5, 2.0, 3.25):
            async with tg.runners(session, clock=clock) as group:
                program.replicas.start(group, feeds=program.feeds())
                await clock.sleep(when)
                group.stop()
            assert session.statistics().steps_running == 0
        before = int(await session.run(program.replicas.global_step))
        training = await train(program, session, clock, steps=5)
        assert int(await session.run(program.replicas.global_step)) == before + 5
        assert training.step == before + 5
    assert only_this_task()


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("backup", [0, 2])
async def test_no_order_of_failures_cancellations_and_returns_hangs(seed, backup):
    program = Program(synchronous(backup), 4)
    chance = random.Random(seed)
    failures = [chance.choice([0, 0.05, 0.2]) for _ in range(4)]
    async with running(program, Exponential(1.0), failures=failures, seed=seed) as (session, clock):
        async with tg.runners(session, clock=clock) as group:
            training = program.replicas.start(
                group, feeds=program.feeds(), steps=30, restarts=math.inf, backoff=1, longest_backoff=2
            )

            async def disturb():
                await clock.sleep(chance.expovariate(1))
                number = chance.randrange(4)
                if number not in training.active:
                    training.join(number)
                elif len(training.active) > 1:
                    next(each for each in group.runners if each.name.endswith(f" {number}")).cancel()

            disturbing = group.add(disturb, until=lambda: training.step >= 25)
            await disturbing.wait()
        assert training.step == 30
        assert int(await session.run(program.replicas.global_step)) == 30
    assert only_this_task()


async def test_the_same_seeds_give_the_same_training():
    found = []
    for _ in range(2):
        program = Program(synchronous(1), 3)
        async with running(program, Exponential(1.0), seed=5) as (session, clock):
            training = await train(program, session, clock, steps=20)
            found.append((clock.now(), training.statistics(), (await session.run(program.w)).tolist()))
    assert found[0] == found[1]


async def test_two_sessions_train_at_once():
    program = Program(synchronous(), 2)
    async with tg.Session(program.graph, devices=3) as one, tg.Session(program.graph, devices=3) as two:
        for session in (one, two):
            await session.run(program.init)
        await asyncio.gather(train(program, one, None, steps=5), train(program, two, None, steps=9))
        steps = [int(await session.run(program.replicas.global_step)) for session in (one, two)]
    assert steps == [5, 9]


async def test_what_steps_fetch_and_updates_are_told():
    program = Program(synchronous(), 2)
    seen, updates = [], []

    async def see(number, loss):
        seen.append((number, float(loss)))

    async with running(program, 1.0) as (session, clock):
        await train(program, session, clock, steps=4, fetches=program.losses, on_step=see, on_update=updates.append)
    assert updates == [1, 2, 3, 4]
    losses = [loss for number, loss in seen if number == 0]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) >= 3


# ---- saving


async def test_a_checkpoint_between_updates_is_resumed(tmp_path):
    program = Program(synchronous(1), 3, AdamOptimizer(0.01))
    async with Checkpointer(tmp_path, every_steps=7) as checkpointer:
        async with running(program, Exponential(1.0)) as (session, clock):
            await train(
                program, session, clock, steps=30, on_update=lambda step: checkpointer.save_if_due(session, step)
            )
            w = await session.run(program.w)
        async with running(program, 1.0) as (session, clock):
            restored = await checkpointer.restore(session)
            assert int(await session.run(program.replicas.global_step)) == restored.step == 28
            training = await train(program, session, clock, steps=2)
            assert training.step == 30
            # No step is wasted: the first gradients are of the update that was restored, as are those that were saved.
            assert sum(counted for counted, _ in totals(training).values()) >= 4
            np.testing.assert_allclose(await session.run(program.w), w, atol=0.05)


async def test_consistent_checkpoints_wait_for_no_replica(tmp_path):
    program = Program(synchronous(1), 3)
    async with (
        Checkpointer(tmp_path, consistent=True, keep=None) as checkpointer,
        tg.Session(program.graph, devices=4) as session,
        tg.runners(session) as group,
    ):
        await session.run(program.init)
        training = program.replicas.start(group, feeds=program.feeds())

        async def save():
            await (await checkpointer.save(session, training.step))

        await group.add(save, times=4).wait()
        assert checkpointer.statistics().written == 4  # perhaps two of one step
        group.stop()


# ---- what is refused


def test_what_does_not_fit_is_refused():
    optimizer = tg.training.GradientDescentOptimizer(0.1)
    with tg.Graph().as_default():
        w, v = tg.Variable(1.0), tg.Variable(1.0)
        for make in (
            lambda: SyncReplicas(optimizer, 0),
            lambda: SyncReplicas(optimizer, 3, 4),
            lambda: SyncReplicas(optimizer, 3, 2, backup=2),
            lambda: SyncReplicas(optimizer, 3, backup=3),
            lambda: AsyncReplicas(optimizer, -1),
        ):
            with pytest.raises(tg.GraphError):
                make()
        replicas = SyncReplicas(optimizer, 2, 1, backup=1)
        replicas.minimize(w * w, var_list=[w])
        with pytest.raises(tg.GraphError, match="not all replicas"):
            replicas.update  # noqa: B018
        with pytest.raises(tg.GraphError, match="other variables"):
            replicas.minimize(v * v, var_list=[v])
        with pytest.raises(tg.GraphError, match="has no gradient"):
            replicas.apply_gradients([(None, w)])
        replicas.minimize(w * w, var_list=[w])
        with pytest.raises(tg.GraphError, match="all replicas"):
            replicas.minimize(w * w, var_list=[w])


async def test_options_that_do_not_fit_are_refused():
    program = Program(synchronous(), 2)
    async with tg.Session(program.graph, devices=3) as session:
        for options in ({"feeds": [{}]}, {"fetches": []}, {"steps": -1}):
            with pytest.raises(tg.GraphError):
                async with tg.runners(session) as group:
                    program.replicas.start(group, **options)
