"""Running averages of variables and tensors."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import ExponentialMovingAverage


def followed(build, feeds):
    """Return what the tensors that ``build(x)`` gives are after each step of the operation that it gives first."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [2])
        update, *watched = build(x)
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        return [(session.run(update, {x: feed}), session.run(watched))[1] for feed in feeds]


FEEDS = [np.array([k, -(k**2.0)]) for k in range(1, 7)]


def test_average_of_a_variable_begins_as_its_value():
    def build(x):
        w, ema = tg.Variable(np.array([4.0, 8.0]), name="w"), ExponentialMovingAverage(0.75)
        with tg.control_dependencies([w.assign(x)]):
            return ema.apply(), ema.average(w)

    average = np.array([4.0, 8.0])
    for (found,), feed in zip(followed(build, FEEDS), FEEDS, strict=True):
        average = 0.75 * average + 0.25 * feed
        np.testing.assert_allclose(found, average, rtol=1e-12)


@pytest.mark.parametrize("zero_debias", [False, True])
def test_average_of_a_tensor_begins_as_zeros(zero_debias):
    def build(x):
        y, ema = x * 2.0, ExponentialMovingAverage(0.75, zero_debias=zero_debias)
        return ema.apply([y]), ema.average(y)

    average = np.zeros(2)
    for k, ((found,), feed) in enumerate(zip(followed(build, FEEDS), FEEDS, strict=True), 1):
        average = 0.75 * average + 0.25 * 2 * feed
        np.testing.assert_allclose(found, average / (1 - 0.75**k) if zero_debias else average, rtol=1e-12)


def test_averages_move_faster_at_first_by_the_number_of_updates():
    def build(x):
        step = tg.training.get_or_create_global_step()
        ema = ExponentialMovingAverage(0.3, num_updates=step)
        update = ema.apply([x])
        with tg.control_dependencies([update]):
            return step.assign_add(1), ema.average(x)

    average = np.zeros(2)
    for k, ((found,), feed) in enumerate(zip(followed(build, FEEDS), FEEDS, strict=True)):
        decay = min(0.3, (1 + k) / (10 + k))
        average = decay * average + (1 - decay) * feed
        np.testing.assert_allclose(found, average, rtol=1e-12)


def test_an_initial_value_that_is_drawn_is_drawn_once():
    with tg.Graph().as_default() as graph:
        w = tg.Variable(lambda: tg.random_normal([4]), name="w")
        ema = ExponentialMovingAverage(0.9)
        ema.apply([w])
        initialize = tg.global_variables_initializer()
        later = tg.variables_initializer([ema.average(w)])
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        np.testing.assert_array_equal(*session.run([w, ema.average(w)]))
        session.write_variables({"w": np.ones(4, np.float32)})
        session.run(later)
        assert session.run(ema.average(w)).tolist() == [1.0] * 4


def test_names_and_what_to_restore():
    with tg.Graph().as_default() as graph:
        v, w = tg.Variable(1.0, name="v"), tg.Variable(2.0, name="w")
        step = tg.training.get_or_create_global_step()
        idle = tg.Variable(3.0, name="idle", trainable=False)
        ema = ExponentialMovingAverage(0.5, name="EMA")
        assert ema.average(v) is None
        assert ema.average_name(v) == "v/EMA"
        ema.apply([v, idle])
        assert ema.average(v).name == ema.average_name(v) == "v/EMA"
        assert tg.training.moving_average_variables() == [v, idle]
        assert not ema.average(v).trainable
        wanted = {"v/EMA": v, "w/EMA": w, "idle/EMA": idle, "global_step": step}
        assert ema.variables_to_restore() == wanted
        assert ema.variables_to_restore([v])["w"] is w
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.write_variables({"v/EMA": np.float32(7.0)})
        saved = session.read_variables()
        names = {name: var.name for name, var in wanted.items() if name in saved}
        session.write_variables({var: saved[name] for name, var in names.items()})
        assert session.run(v) == 7.0


def test_it_works_in_a_loop_and_is_where_the_variable_is():
    with tg.Graph().as_default() as graph:
        with tg.device("/cpu:1"):
            w = tg.Variable(0.0, name="w")
        ema = ExponentialMovingAverage(0.5)

        def body(i):
            with tg.control_dependencies([w.assign_add(1.0)]):
                moved = ema.apply([w])
            with tg.control_dependencies([moved]):
                return i + 1

        loop = tg.while_loop(lambda i: i < 3, body, [0])
        initialize = tg.global_variables_initializer()
    assert ema.average(w).device == w.device
    with tg.SyncSession(graph, devices=2) as session:
        session.run(initialize)
        session.run(loop)
        assert session.run(ema.average(w)) == ((0 + 1) / 2 + 2) / 4 + 3 / 2


def test_what_has_no_average_is_refused():
    with tg.Graph().as_default():
        ema = ExponentialMovingAverage(0.5)
        with pytest.raises(tg.DtypeError, match="floating"):
            ema.apply([tg.Variable(1)])
        with pytest.raises(tg.GraphError, match="zeros of its shape"):
            ema.apply([tg.placeholder("float32", [None])])


def test_what_is_followed_already_keeps_its_average():
    """As where both branches of a cond move it, or a function that does is traced again."""
    with tg.Graph().as_default() as graph:
        w, ema = tg.Variable(8.0, name="w"), ExponentialMovingAverage(0.5)
        up = tg.placeholder("bool", [])
        change = tg.cond(up, lambda: w.assign_add(4.0), lambda: w.assign_sub(8.0))
        with tg.control_dependencies([change]):
            move = tg.cond(up, lambda: ema.apply([w]), lambda: ema.apply([w]))
        assert tg.training.moving_average_variables() == [w]
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        for value in (True, False):
            session.run(move, {up: value})
        assert session.run(ema.average(w)) == (10 + 4) / 2


def test_shards_have_averages_of_their_own():
    with tg.Graph().as_default() as graph:
        table = tg.PartitionedVariable(np.arange(4.0), tg.fixed_size_partitioner(2))
        ema = ExponentialMovingAverage(0.5)
        with tg.control_dependencies(table.assign_add(np.full(4, 2.0))):
            move = ema.apply([table])
        averages = [ema.average(shard) for shard in table]
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.run(move)
        np.testing.assert_array_equal(np.concatenate(session.run(averages)), np.arange(4.0) + 1)


@pytest.mark.parametrize(("dtype", "rtol"), [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_updates_are_counted_beyond_what_small_dtypes_can_count(dtype, rtol):
    with tg.Graph().as_default() as graph:
        x, ema = tg.constant(2.0, dtype), ExponentialMovingAverage(0.5, zero_debias=True)
        move = ema.apply([x])
        (steps,) = [v for v in tg.global_variables() if v.name.endswith("local_step")]
        many, initialize = steps.assign(2500), tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.run(move)
        np.testing.assert_allclose(np.float32(session.run(ema.average(x))), 2, rtol=rtol)
        session.run(many)
        session.run(move)
        assert session.run(steps) == 2501
        np.testing.assert_allclose(np.float32(session.run(ema.average(x))), 1.5, rtol=rtol)
