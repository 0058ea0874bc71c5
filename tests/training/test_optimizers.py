import numpy as np
import pytest
import tagflow as tg
from tagflow.training import AdamOptimizer, GradientDescentOptimizer, MomentumOptimizer, Optimizer

START = np.array([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]])
TARGET = np.array([[0.5, 1.0], [-1.0, 2.0], [0.0, 0.25]])


def descend(w, g, state, rate):
    return w - rate * g


def momentum(w, g, state, rate):
    state["s"] = 0.9 * state.get("s", 0) + g
    return w - rate * state["s"]


def nesterov(w, g, state, rate):
    state["s"] = 0.9 * state.get("s", 0) + g
    return w - rate * (g + 0.9 * state["s"])


def adam(w, g, state, rate):
    t = state["t"] = state.get("t", 0) + 1
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g * g
    m, v = state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.99**t)
    return w - rate * m / (np.sqrt(v) + 1e-12)


CASES = [
    (GradientDescentOptimizer, {}, descend),
    (MomentumOptimizer, {"momentum": 0.9}, momentum),
    (MomentumOptimizer, {"momentum": 0.9, "use_nesterov": True}, nesterov),
    (AdamOptimizer, {"beta2": 0.99, "epsilon": 1e-12}, adam),
]


async def trained(optimizer, loss_of, steps=4, dtype="float64"):
    """Return the value of a variable after each step."""
    with tg.Graph().as_default() as graph:
        w = tg.Variable(START, name="w", dtype=dtype)
        train = optimizer.minimize(loss_of(w))
        initialize = tg.global_variables_initializer()
    values = []
    async with tg.Session(graph) as session:
        await session.run(initialize)
        for _ in range(steps):
            await session.run(train)
            values.append((await session.read_variables(["w"]))["w"])
    return values


def squares(w):
    return tg.reduce_sum(tg.square(w - TARGET))


def rows(w):
    """Return a loss that uses row 0 twice, row 2 once and row 1 never."""
    return tg.reduce_sum(tg.square(tg.gather(w, [0, 2, 0]) - TARGET[[0, 2, 0]]))


@pytest.mark.parametrize(("kind", "options", "update"), CASES)
async def test_updates_follow_the_formula(kind, options, update):
    found = await trained(kind(0.05, **options), squares)
    w, state = START, {}
    for value in found:
        w = update(w, 2 * (w - TARGET), state, 0.05)
        np.testing.assert_allclose(value, w, rtol=1e-9)


@pytest.mark.parametrize(("kind", "options", "update"), CASES)
async def test_sparse_gradients_update_as_dense_ones(kind, options, update):
    found = await trained(kind(0.05, **options), rows)
    w, state = START, {}
    for value in found:
        w = update(w, 2 * (w - TARGET) * [[2], [0], [1]], state, 0.05)
        np.testing.assert_allclose(value, w, rtol=1e-9)


def test_descent_on_a_gather_stays_sparse():
    with tg.Graph().as_default() as graph:
        GradientDescentOptimizer(0.1).minimize(rows(tg.Variable(START)))
    types = [op.type for op in graph.get_operations()]
    assert "ScatterSub" in types
    assert "ScatterNd" not in types


async def test_the_rate_may_be_a_tensor_of_another_dtype_or_a_callable():
    with tg.Graph().as_default() as graph:
        rate = tg.placeholder("float64", [])
        w = tg.Variable([1.0], name="w")
        by_tensor = GradientDescentOptimizer(rate).minimize(tg.reduce_sum(w))
        by_call = GradientDescentOptimizer(lambda: 0.5).minimize(tg.reduce_sum(w))
        initialize = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(initialize)
        await session.run(by_tensor, feeds={rate: 0.25})
        assert (await session.read_variables())["w"] == [0.75]
        await session.run(by_call)
        assert (await session.read_variables())["w"] == [0.25]


async def test_clipping_goes_between_gradients_and_updates():
    with tg.Graph().as_default() as graph:
        w = tg.Variable([3.0, 4.0], name="w")
        idle = tg.Variable([1.0], name="idle")
        optimizer = GradientDescentOptimizer(1.0)
        pairs = optimizer.compute_gradients(tg.reduce_sum(tg.square(w)))
        assert pairs[1] == (None, idle)
        clipped, norm = tg.clip_by_global_norm([g for g, _ in pairs], 1.0)
        train = optimizer.apply_gradients(zip(clipped, [v for _, v in pairs], strict=True))
        initialize = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(initialize)
        found, _ = await session.run([norm, train])
        assert found == pytest.approx(10.0)
        values = await session.read_variables()
    np.testing.assert_allclose(values["w"], [3 - 0.6, 4 - 0.8], rtol=1e-6)
    assert values["idle"] == [1.0]


async def test_global_step_counts_updates():
    with tg.Graph().as_default() as graph:
        step = tg.Variable(0, trainable=False, name="step", dtype="int64")
        w = tg.Variable(1.0)
        train = AdamOptimizer().minimize(tg.square(w), global_step=step)
        initialize = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(initialize)
        for _ in range(3):
            await session.run(train)
        assert (await session.read_variables(["step"]))["step"] == 3


async def test_a_loss_through_a_loop_falls():
    with tg.Graph().as_default() as graph:
        w = tg.Variable([[0.5, 0.2], [-0.3, 0.9]], name="w")
        x = tg.constant([[1.0, -1.0]])
        _, y = tg.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tg.tanh(a @ w)), [0, x])
        loss = tg.reduce_sum(tg.square(y - [[0.3, -0.4]]))
        train = AdamOptimizer(0.05).minimize(loss)
        initialize = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(initialize)
        before = await session.run(loss)
        for _ in range(100):
            await session.run(train)
        assert await session.run(loss) < 0.01 * before


def test_slots_are_variables_named_after_theirs():
    with tg.Graph().as_default():
        with tg.name_scope("layer"):
            w = tg.Variable(START, name="w")
            other = tg.Variable([1.0, 2.0], name="other")
            optimizer = AdamOptimizer()
            optimizer.minimize(squares(w) + tg.cast(tg.reduce_sum(other), "float64"))
        assert optimizer.get_slot_names() == ["beta1_power", "beta2_power", "m", "v"]
        slot = optimizer.get_slot(w, "m")
        assert (slot.name, slot.dtype, slot.shape) == ("layer/w/Adam/m", "float64", [3, 2])
        assert optimizer.get_slot(w, "momentum") is None
        assert len(optimizer.variables()) == 8, "two moments each, and two powers for each dtype"
        assert not any(v.trainable for v in optimizer.variables())


def test_slots_are_where_their_variable_is_whatever_the_scope_of_training():
    with tg.Graph().as_default() as graph:
        with tg.device("/cpu:1"):
            w = tg.Variable([1.0, 2.0], name="w")
        with tg.device("/cpu:0"):
            train = AdamOptimizer(0.1).minimize(tg.reduce_sum(w * w))
        slots = [v for v in tg.global_variables() if v.name.startswith("w/")]
        initialize = tg.global_variables_initializer()
    assert {slot.device for slot in slots} == {w.device} == {"/device:CPU:1"}
    assert {op.device for op in graph.get_operations() if op.type == "Sqrt"} == {"/device:CPU:1"}  # of the update
    with tg.SyncSession(graph, devices=2) as session:
        session.run(initialize)
        session.run(train)
        np.testing.assert_allclose(session.run(w), [0.9, 1.9], rtol=1e-5)


def test_slots_of_variables_of_unknown_shape_begin_as_zeros():
    with tg.Graph().as_default() as graph:
        w = tg.Variable([1.0, 2.0], name="w", shape=[None])
        optimizer = MomentumOptimizer(0.1, 0.9)
        optimizer.minimize(tg.reduce_sum(w))
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        np.testing.assert_array_equal(session.run(optimizer.get_slot(w, "momentum")), [0, 0])


def test_what_can_not_be_optimized_is_refused():
    with tg.Graph().as_default():
        with pytest.raises(tg.GraphError, match="no variable to optimize"):
            AdamOptimizer().minimize(tg.constant(1.0))
        w = tg.Variable(1.0, name="w")
        with pytest.raises(tg.GraphError, match=r"no variable has a gradient(.|\n)*got: w"):
            AdamOptimizer().minimize(tg.stop_gradient(w * 2.0))


class Counting(Optimizer):
    """An optimizer of a user's own, by all that there is to define: rows lose their gradient over the step's number."""

    def __init__(self, learning_rate):
        super().__init__(learning_rate, "Counting")

    def prepare(self, variables):
        self.steps = self.slot(variables[0], "steps", 1.0)

    def apply_dense(self, gradient, var):
        return var.assign_sub(self.rate(var.dtype) * gradient / tg.cast(self.steps, var.dtype))

    def finish(self):
        return [self.steps.assign_add(1.0)]


def test_an_optimizer_of_ones_own():
    with tg.Graph().as_default() as graph:
        w, table = tg.Variable(8.0, name="w"), tg.Variable(np.zeros((3, 2)), name="table")
        optimizer = Counting(lambda: 0.5)
        train = optimizer.minimize(w * 2.0 + tg.cast(tg.reduce_sum(tg.gather(table, [1, 1])), "float32"))
        initialize = tg.global_variables_initializer()
    assert optimizer.get_slot_names() == ["steps"]
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        for _ in range(2):
            session.run(train)
        assert session.run([w, optimizer.get_slot(w, "steps")]) == [8.0 - 1.0 - 0.5, 3.0]
        assert session.run(table).tolist() == [[0, 0], [-1.5, -1.5], [0, 0]]
