"""Devices of other machines: refused wherever something is asked onto them, as no session reaches them."""

import asyncio
import pickle

import numpy as np
import pytest
import tagloom as tg
from tagloom.streams.cpu import CpuDevice

THERE = "/job:worker/task:1/cpu:0"
HERE = "/job:localhost/task:0/cpu:0"


def there():
    return tg.device(THERE)


def beside_another():
    with there():
        other = tg.constant(1.0)
    with tg.colocate_with(other):
        return tg.constant(2.0) * 3.0


def beside_its_operation():
    with there():
        other = tg.constant(1.0)
    with tg.colocate_with(other.op):
        return tg.zeros([2])


def folded():
    with there():
        x = tg.constant(1.0)
    return x + 1.0


def in_a_branch_not_taken():
    def taken():
        with there():
            return tg.constant(1.0) * 2.0

    return tg.cond(tg.placeholder_with_default(False, []), taken, lambda: tg.constant(0.0))


def in_a_loop():
    def body(i):
        with there():
            return i + 1

    return tg.while_loop(lambda i: i < 3, body, [0])


def gradient():
    x = tg.placeholder_with_default(1.0, [])
    with there():
        y = x * x
    return tg.gradients(y, x)


def array():
    with there():
        elements = tg.TensorArray("float32", 3)
    return elements.write(0, 1.0).read(0)


def variable():
    with there():
        return tg.Variable(1.0).initializer


def update():
    v = tg.Variable(1.0)
    with there():
        return v.assign(2.0)


def queue():
    with there():
        made = tg.FIFOQueue(3, "float32", [[]])
    return made.enqueue(1.0)


def accumulator():
    with there():
        made = tg.ConditionalAccumulator("float32", [])
    return made.apply_grad(1.0)


def table():
    with there():
        made = tg.MutableHashTable("string", "int64", -1)
    return made.insert(["a"], [1])


def function():
    with there():
        return tg.py_function(lambda: np.float32(1), [], "float32")


def function_of_the_operation():
    with tg.device(lambda op: THERE):
        return tg.constant(1.0) + 1.0


def shards():
    return tg.PartitionedVariable(tg.zeros, tg.fixed_size_partitioner(2), shape=[4], devices=[HERE, THERE]).as_tensor()


def cell():
    return tg.nn.DeviceWrapper(tg.nn.GRUCell(2), THERE)(tg.zeros([1, 2]), tg.zeros([1, 2]))[0]


def job_alone():
    with tg.device("/job:worker"):
        return tg.constant(1.0) * 2.0


def task_alone():
    with tg.device("/task:1"):
        return tg.constant(1.0) * 2.0


PROGRAMS = [
    beside_another,
    beside_its_operation,
    folded,
    in_a_branch_not_taken,
    in_a_loop,
    gradient,
    array,
    variable,
    update,
    queue,
    accumulator,
    table,
    function,
    function_of_the_operation,
    shards,
    cell,
    job_alone,
    task_alone,
]


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("build", PROGRAMS)
def test_steps_are_refused(build, soft, graph):
    fetch = build()
    session = tg.SyncSession(graph, soft_placement=soft, timeout=60)
    with session, pytest.raises(tg.GraphError, match="another machine") as caught:
        session.run(fetch)
    assert caught.value.source.file == __file__
    assert caught.value.hint


@pytest.mark.parametrize("again", [lambda g: tg.Graph.from_text(g.to_text()), lambda g: pickle.loads(pickle.dumps(g))])
def test_saved_graphs_remember(again, graph):
    with there():
        tg.multiply(tg.placeholder_with_default(1.0, [], name="x"), 2.0, name="y")
    session = tg.SyncSession(again(graph), soft_placement=True)
    with session, pytest.raises(tg.GraphError, match="another machine"):
        session.run("y:0")


@pytest.mark.parametrize("soft", [False, True])
def test_values_from_outside_are_refused(soft, graph):
    with there():
        v = tg.Variable(1.0, name="v")
        queue = tg.FIFOQueue(3, "float32", [[]], shared_name="q")
    here = tg.Variable(1.0, name="here")
    with tg.Graph().as_default() as other:
        tg.Variable(1.0, name="v")
        one = tg.FIFOQueue(3, "float32", [[]], shared_name="q").enqueue(1.0)
    with tg.SyncSession(other) as session:
        session.run(one)
        session.write_variables({"v": 3.0})
        saved = session.snapshot()
    with tg.SyncSession(graph, soft_placement=soft) as session:
        with pytest.raises(tg.GraphError, match="another machine"):
            session.write_variables({v: 2.0, here: 2.0})
        for kind in saved:
            with pytest.raises(tg.GraphError, match="another machine"):
                session.restore({kind: saved[kind]})
        session.write_variables({here: 2.0})
        assert list(session.read_variables()) == ["here"]
        assert queue.shared_name == "q"


async def save(session, directory):
    async with tg.training.Checkpointer(directory) as checkpoints:
        await (await checkpoints.save(session, step=1))


async def restore(session, directory):
    async with tg.training.Checkpointer(directory) as checkpoints:
        return await checkpoints.restore(session)


@pytest.mark.parametrize("soft", [False, True])
def test_checkpoints_are_not_restored_there(soft, tmp_path):
    with tg.Graph().as_default() as graph:
        tg.Variable(np.arange(4, dtype=np.float32), name="v")
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        session.call(save, tmp_path)
    with tg.Graph().as_default() as graph, there():
        tg.Variable(np.zeros(4, np.float32), name="v")
    session = tg.SyncSession(graph, soft_placement=soft)
    with session, pytest.raises(tg.GraphError, match="another machine"):
        session.call(restore, tmp_path)


def test_what_a_step_does_not_need_may_be_there(graph):
    with there():
        tg.constant(1.0) * 2.0
    x = tg.constant(1.0)
    with tg.device(HERE), tg.SyncSession(graph) as session:
        assert session.run(x + 1.0) == 2.0


def test_soft_placement_still_takes_another_device_of_this_machine(graph):
    with tg.device("/job:localhost/task:0/gpu:7"):
        x = tg.constant(1.0) + 1.0
    with tg.SyncSession(graph, soft_placement=True) as session:
        assert session.run(x) == 2.0


OTHERS = [
    [THERE],
    ["/cpu:0", THERE],
    ["/job:worker/task:0/cpu:0", "/job:worker/task:0/cpu:1"],
    ["/task:1/cpu:0"],
    ["/job:localhost/replica:1/cpu:0"],
    ["/job:worker"],
    ["/job:localhost/task:1/gpu:0"],
]


def refuse_devices(make):
    with pytest.raises(tg.GraphError, match="belong to one process") as caught:
        make()
    assert caught.value.wanted == "devices of /job:localhost/task:0, which is this process"
    assert caught.value.hint
    return caught.value.got


@pytest.mark.parametrize("make", [tg.Session, tg.SyncSession])
@pytest.mark.parametrize("devices", OTHERS)
def test_sessions_have_devices_of_their_own_process(make, devices, graph):
    named = refuse_devices(lambda: make(graph, devices=devices))
    assert named.count("/device:") == sum(name != "/cpu:0" for name in devices)


def test_devices_that_are_passed_to_a_session_are_of_its_process(graph):
    devices = ["/cpu:0", CpuDevice(THERE)]
    assert refuse_devices(lambda: tg.Session(graph, devices=devices)) == "/job:worker/task:1/device:CPU:0"


def test_variants_of_a_comparison_have_devices_of_the_process():
    refuse_devices(
        lambda: tg.testing.assert_same_under({"devices": [THERE]}, {}, function=lambda: tg.constant(1.0) + 1.0)
    )


def test_limits_are_for_devices_of_the_process(graph):
    for limit in ("1MiB", tg.MemoryBudget("1MiB")):
        with pytest.raises(tg.GraphError, match="not for one device of the session") as caught:
            tg.Session(graph, memory_limit={THERE: limit})
        assert (caught.value.got, caught.value.wanted) == (THERE, "cpu:0")


@pytest.mark.parametrize("name", ["/job:localhost/replica:0/task:0/cpu:0", "/task:0/cpu:0", "/replica:0/cpu:0", HERE])
def test_full_names_of_this_process_are_fine(name, graph):
    with tg.device(name):
        x = tg.constant(1.0) + 1.0
    with tg.SyncSession(graph, devices=[name]) as session:
        assert session.run(x) == 2.0


async def test_bridges_do_not_reach_there(graph):
    with there():
        queue = tg.FIFOQueue(3, "float32", [[]])
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match="another machine") as caught:
            queue.bridge(session, asyncio.Queue(), "in")
        assert caught.value.source.file == __file__
        assert not session.statistics().figures


async def test_other_ways_to_a_step_are_refused(graph):
    x = tg.placeholder_with_default(1.0, [], name="x")
    with there():
        y = x * 2.0
    async with tg.Session(graph, soft_placement=True) as session:
        for way in (session.compile(y), session.partial_run_setup([y], [x])):
            with pytest.raises(tg.GraphError, match="another machine"):
                await way
        with pytest.raises(tg.GraphError, match="another machine"):
            session.make_step(y, [x])


@pytest.mark.parametrize("kind", ["SyncReplicas", "AsyncReplicas"])
def test_replicas_are_refused(kind, graph):
    weight = tg.Variable(1.0)
    replicas = getattr(tg.training, kind)(tg.training.GradientDescentOptimizer(0.1), 2)
    replicas.minimize(tg.square(weight))
    with there():
        second = replicas.minimize(tg.square(weight))
    with tg.SyncSession(graph) as session, pytest.raises(tg.GraphError, match="another machine"):
        session.run(second.step, {second.local_step: 0})


def test_functions_are_refused():
    @tg.function
    def double(x):
        with there():
            return x * 2.0

    with pytest.raises(tg.GraphError, match="another machine"):
        double.sync(1.0)
