import tracemalloc

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import (
    AdagradOptimizer,
    AdamOptimizer,
    AdamWOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    LambOptimizer,
    MomentumOptimizer,
    Optimizer,
    RMSPropOptimizer,
)

from tests.training.formulas import CASES

START = np.array([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]])
TARGET = np.array([[0.5, 1.0], [-1.0, 2.0], [0.0, 0.25]])


async def trained(optimizer, loss_of, steps=20, dtype="float64"):
    """Return the value of a variable after each step."""
    with tg.Graph().as_default() as graph:
        w = tg.Variable(START.tolist(), name="w", dtype=dtype)
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


@pytest.mark.parametrize("name", CASES)
async def test_updates_follow_the_formula(name):
    case = CASES[name]
    found = await trained(case.make(), squares)
    w, state = START, case.start(START)
    for t, value in enumerate(found, 1):
        w = case.step(w, 2 * (w - TARGET), state, t)
        np.testing.assert_allclose(value, w, rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
async def test_sparse_gradients_update_their_rows_by_the_same_formula(name):
    case = CASES[name]
    found = await trained(case.make(), rows)
    w, state = START, case.start(START)
    for t, value in enumerate(found, 1):
        w = case.step(w, (2 * (w - TARGET))[[0, 2]] * [[2], [1]], state, t, [0, 2])
        np.testing.assert_allclose(value, w, rtol=1e-9)
        np.testing.assert_array_equal(value[1], START[1])


@pytest.mark.parametrize("name", CASES)
def test_rows_that_have_no_gradient_in_a_step_stay_as_they_are(name):
    """Their state too: it does not decay, so that it goes on as it was when the row comes again."""
    case, steps = CASES[name], [[1, 1], [2], [], [1, 0], [2, 1, 2]]
    with tg.Graph().as_default() as graph:
        w = tg.Variable(START, name="w")
        ids = tg.placeholder("int64", [None])
        optimizer = case.make()
        train = optimizer.minimize(tg.reduce_sum(tg.square(tg.gather(w, ids))))
        slots = {name: optimizer.get_slot(w, name) for name in case.begin}
        initialize = tg.global_variables_initializer()
    wanted, state = START, case.start(START)
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        for t, taken in enumerate(steps, 1):
            session.run(train, {ids: np.array(taken, np.int64)})
            distinct, counts = np.unique(np.array(taken, np.int64), return_counts=True)
            if taken:
                wanted = case.step(wanted, 2 * wanted[distinct] * counts[:, None], state, t, distinct)
            np.testing.assert_allclose(session.run(w), wanted, rtol=1e-9)
            for name, slot in slots.items():
                np.testing.assert_allclose(session.run(slot), state[name], rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_training_in_a_loop_and_in_its_branches(name):
    """Even steps see all rows, odd ones two of them; of both kinds there are ten."""
    case = CASES[name]
    with tg.Graph().as_default() as graph:
        w = tg.Variable(START, name="w")
        optimizer = case.make()

        def body(i):
            train = tg.cond(i % 2 > 0, lambda: optimizer.minimize(rows(w)), lambda: optimizer.minimize(squares(w)))
            with tg.control_dependencies([train]):
                return i + 1

        steps = tg.while_loop(lambda i: i < 20, body, [0])
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.run(steps)
        found = session.run(w)
    wanted, state = START, case.start(START)
    for t in range(1, 21):
        g = 2 * (wanted - TARGET)
        sparse = t % 2 == 0
        g, taken = (g[[0, 2]] * [[2], [1]], [0, 2]) if sparse else (g, None)
        wanted = case.step(wanted, g, state, t, taken)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
async def test_variables_of_other_dtypes_keep_them(name, dtype):
    """Slots too; only the powers of beta are float32, since a beta near 1 is 1 in bfloat16."""
    case = CASES[name]
    optimizer = case.make()
    found = await trained(optimizer, lambda w: squares(tg.cast(w, "float64")), 3, dtype)
    assert {v.dtype.name for v in optimizer.variables() if "beta" not in v.name} <= {dtype}
    w, state = START, case.start(START)
    for t in range(1, 4):
        w = case.step(w, 2 * (w - TARGET), state, t)
    atol = {"float16": 4e-3, "float32": 1e-6, "bfloat16": 4e-2}[dtype]
    np.testing.assert_allclose(np.asarray(found[-1], np.float64), w, atol=atol)


@pytest.mark.parametrize("kind", [AdamOptimizer, AdamWOptimizer, LambOptimizer])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
async def test_defaults_do_for_small_dtypes(kind, dtype):
    """Neither 1 - beta2 nor epsilon is 0 in float32; the second column has no gradient."""

    def loss(w):
        return 0.1 * tg.reduce_sum(tg.cast(w, "float32")[:, 0])

    small = np.asarray((await trained(kind(0.5), loss, 2, dtype))[-1], np.float32)
    wanted = (await trained(kind(0.5), loss, 2, "float32"))[-1]
    np.testing.assert_allclose(small, wanted, atol=0.05)
    assert (small[:, 0] < START[:, 0] - 0.5).all()


async def test_norms_of_float16_are_taken_in_float32():
    large = [[300.0, 300.0]] * 3
    with tg.Graph().as_default() as graph:
        w = tg.Variable(large, name="w", dtype="float16")
        train = LambOptimizer(0.1).minimize(tg.reduce_sum(tg.cast(w, "float32")))
        initialize = tg.global_variables_initializer()
    async with tg.Session(graph) as session:
        await session.run(initialize)
        await session.run(train)
        np.testing.assert_allclose((await session.read_variables(["w"]))["w"], np.full((3, 2), 270), rtol=1e-3)


async def test_gradients_that_hardly_change_have_no_negative_spread():
    optimizer = RMSPropOptimizer(1e-6, centered=True)
    found = await trained(optimizer, lambda w: tg.reduce_sum(w * 3.3), 400, "float32")
    assert np.isfinite(found[-1]).all()


def test_an_optimizer_may_be_used_in_several_graphs():
    optimizer = AdamOptimizer(0.1)
    for _ in range(2):
        with tg.Graph().as_default() as graph:
            w = tg.Variable(START, name="w")
            train = optimizer.minimize(squares(w))
            initialize = tg.global_variables_initializer()
        with tg.SyncSession(graph) as session:
            session.run(initialize)
            session.run(train)
            np.testing.assert_allclose(session.run(w), START - 0.1 * np.sign(START - TARGET), rtol=1e-6)


def test_powers_of_dtypes_without_an_update_stay():
    with tg.Graph().as_default() as graph:
        v, w = tg.Variable([1.0], name="v"), tg.Variable(START, name="w")
        optimizer = AdamOptimizer()
        both = optimizer.apply_gradients([(tg.constant([1.0]), v), (tg.constant(START), w)])
        one = optimizer.apply_gradients([(tg.constant([1.0]), v)])
        powers = [optimizer.get_slot(x, "beta1_power") for x in (v, w)]
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        for train in (initialize, both, one):
            session.run(train)
        np.testing.assert_allclose(session.run(powers), [0.9**3, 0.9**2], rtol=1e-6)


def test_one_variable_may_be_given_alone():
    with tg.Graph().as_default():
        w, other = tg.Variable([1.0, 2.0]), tg.Variable(1.0)
        pairs = GradientDescentOptimizer(0.1).compute_gradients(tg.reduce_sum(w) * other, w)
    assert [v for _, v in pairs] == [w]


OUT_OF_RANGE = [
    lambda: AdagradOptimizer(0.1, 0.0),
    lambda: FtrlOptimizer(0.1, learning_rate_power=0.5),
    lambda: FtrlOptimizer(0.1, initial_accumulator_value=-1.0),
    lambda: FtrlOptimizer(0.1, l1_regularization_strength=-1.0),
    lambda: FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=np.float32(-1)),
]


@pytest.mark.parametrize("make", OUT_OF_RANGE)
def test_numbers_out_of_range_are_refused(make):
    with pytest.raises(tg.GraphError, match="out of range"):
        make()


def test_no_update_of_rows_goes_through_the_table():
    for case in CASES.values():
        with tg.Graph().as_default() as graph:
            case.make().minimize(rows(tg.Variable(START, name="w")))
        types = {op.type for op in graph.get_operations()}
        assert types & {"ScatterSub", "ScatterUpdate"}
        assert "ScatterNd" not in types
        large = [op for op in graph.get_operations() if op.type.startswith("Assign") and op.inputs[1].rank == 2]
        assert {op.name.rpartition("/")[2] for op in large} == {"initialize"}


@pytest.mark.parametrize("name", CASES)
def test_slots_are_on_the_device_of_their_variable(name):
    case = CASES[name]
    with tg.Graph().as_default() as graph:
        with tg.device("/cpu:1"):
            w = tg.Variable(START, name="w")
        optimizer = case.make()
        train = optimizer.minimize(squares(w) + rows(w))
        initialize = tg.global_variables_initializer()
    assert {v.device for v in optimizer.variables()} <= {"/device:CPU:1"}
    with tg.SyncSession(graph, devices=2) as session:
        session.run(initialize)
        session.run(train)
        wanted = case.step(START, 2 * (START - TARGET) * [[3], [1], [2]], case.start(START), 1)
        np.testing.assert_allclose(session.run(w), wanted, rtol=1e-8)


def test_weights_and_layers_may_be_left_out_of_decay_and_scaling():
    with tg.Graph().as_default() as graph:
        w, bias = tg.Variable([3.0, 4.0], name="layer/w"), tg.Variable([3.0, 4.0], name="layer/bias")
        zero = tg.Variable([0.0, 0.0], name="layer/zero")
        decayed = AdamWOptimizer(0.5, weight_decay=0.5, exclude_from_weight_decay=["bias$"])
        scaled = LambOptimizer(1.0, exclude_from_layer_adaptation=["bias$"])
        loss = tg.reduce_sum(w + bias + zero)
        steps = [decayed.minimize(loss), scaled.minimize(loss)]
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.run(steps[0])
        np.testing.assert_allclose(session.run(w), [3 - 0.5 - 0.75, 4 - 0.5 - 1], rtol=1e-5)
        np.testing.assert_allclose(session.run(bias), [2.5, 3.5], rtol=1e-5)
        session.run(initialize)
        session.run(steps[1])
        np.testing.assert_allclose(session.run(w), np.array([3.0, 4.0]) - 5 / 2**0.5, rtol=1e-5)
        np.testing.assert_allclose(session.run(bias), [2.0, 3.0], rtol=1e-5)
        np.testing.assert_allclose(session.run(zero), [-1.0, -1.0], rtol=1e-5, err_msg="a norm of 0 scales nothing")


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


@pytest.mark.parametrize("name", CASES)
def test_steps_on_rows_copy_no_table(name):
    with tg.Graph().as_default() as graph:
        w = tg.Variable(np.ones((100_000, 4)), name="w")
        ids = tg.placeholder("int32", [3])
        train = CASES[name].make().minimize(tg.reduce_sum(tg.square(tg.gather(w, ids))))
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.run(train, {ids: np.int32([0, 7, 0])})  # which compiles it
        tracemalloc.start()
        try:
            for k in range(5):
                session.run(train, {ids: np.int32([k, 7, k])})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < START.itemsize * 400_000 / 4
