import tracemalloc

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.dtypes import as_dtype, float32
from tagloom.base.errors import GraphError, ShapeError
from tagloom.ir.apply import constant
from tagloom.ir.definition import definition_of
from tagloom.ir.graph import Graph
from tagloom.ops.math import arithmetic, elementwise  # noqa: F401
from tagloom.ops.math.random import random_normal, random_uniform, truncated_normal
from tagloom.ops.random import discrete
from tagloom.ops.random.discrete import categorical, random_shuffle

from tests.ops.instances import Instance, Walk, make_step

pytestmark = pytest.mark.usefixtures("graph")


def draw(*, number=1, seed=7, frame_id=0, iteration=0, op_seed=3):
    context = Instance(make_step(number, seed), "op", frame_id, iteration)
    return tuple(definition_of("RandomUniform").kernel(np, context, [4], dtype=float32, seed=op_seed).tolist())


def test_a_draw_is_a_function_of_its_instance_only():
    assert draw() == draw()
    changes = [
        {"number": 2},
        {"seed": 8},
        {"frame_id": 1},
        {"frame_id": (1 << 63) + 5},
        {"iteration": 1},
        {"op_seed": 4},
    ]
    assert len({draw(), *(draw(**change) for change in changes)}) == len(changes) + 1


@pytest.mark.parametrize("frame_id", [0, 5, (1 << 63) + 5])
def test_an_operation_may_draw_what_another_instance_drew(frame_id):
    there = Instance(frame_id=frame_id, iteration=4)
    instance = definition_of("Instance").kernel(np, there)
    uniform = {"dtype": float32, "seed": 3}
    for type, inputs, given in (("RandomUniform", [[4]], uniform), ("RandomShuffle", [np.arange(9)], {"seed": 3})):
        kernel = definition_of(type).kernel
        wanted = kernel(np, there, *inputs, **given)
        np.testing.assert_array_equal(kernel(np, Instance(), *inputs, *instance, **given), wanted)
        assert not np.array_equal(kernel(np, Instance(), *inputs, **given), wanted)


def test_long_draws_of_neighbouring_iterations_do_not_overlap():
    kernel, shape = definition_of("RandomStandardNormal").kernel, [5000]
    a, b = (kernel(np, Instance(iteration=i), shape, dtype=float32, seed=1) for i in (0, 1))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.06
    assert not np.isin(a, b).any()


def test_operations_without_a_seed_differ_and_with_one_agree():
    assert not np.array_equal(Walk().run(random_uniform([8])), Walk().run(random_uniform([8])))
    np.testing.assert_array_equal(Walk().run(random_uniform([8], seed=5)), Walk().run(random_uniform([8], seed=5)))


def test_the_same_program_built_again_draws_the_same_numbers():
    results = []
    for _ in range(2):
        with Graph(seed=1).as_default():
            random_uniform([1])
            results.append(Walk().run(random_normal([3])))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_stays_below_its_upper_end(dtype):
    tensor = random_uniform([2000], dtype=dtype, seed=1)
    values = Walk().run(tensor)
    assert (tensor.dtype, tensor.shape, values.dtype) == (dtype, [2000], tensor.dtype.numpy)
    values = values.astype(np.float64)
    assert 0 <= values.min() < 0.05
    assert 0.95 < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.03


def test_ranges_and_moments():
    values = Walk().run(random_uniform([4000], -2.0, 6.0))
    assert -2 <= values.min() < -1.9
    assert 5.9 < values.max() <= 6
    values = Walk().run(random_normal([20000], 3.0, 0.5, seed=2))
    assert abs(values.mean() - 3) < 0.02
    assert abs(values.std() - 0.5) < 0.02
    values = Walk().run(truncated_normal([20000], 1.0, 2.0, "float64", seed=2))
    assert np.abs(values - 1).max() <= 4
    assert abs(values.std() - 2 * 0.8796) < 0.03


def test_integers_cover_their_range():
    values = Walk().run(random_uniform([500], 2, 5, "int64", seed=1))
    assert values.dtype == np.int64
    assert set(values.tolist()) == {2, 3, 4}
    with pytest.raises(GraphError, match="needs a maxval"):
        random_uniform([1], dtype="int32")
    with pytest.raises(ValueError, match="minval < maxval"):
        Walk().run(random_uniform([1], 3, 3, "int32"))


def test_each_integer_may_have_a_range_of_its_own():
    values = Walk().run(random_uniform([200, 2], [0, 10], [2, 11], "int32", seed=1))
    assert (values.dtype, set(values[:, 0].tolist()), set(values[:, 1].tolist())) == (np.int32, {0, 1}, {10})
    with pytest.raises(ValueError, match="minval < maxval"):
        Walk().run(random_uniform([2], [0, 3], [1, 3], "int32"))


def test_seeds_are_integers_of_any_kind():
    np.testing.assert_array_equal(*(Walk().run(random_normal([4], seed=kind(5))) for kind in (int, np.int64)))
    with pytest.raises(GraphError, match="not a seed"):
        random_normal([4], seed=1.5)


def test_scale_and_mean_are_reached_through_arithmetic():
    mean, scale = constant(2.0), constant(3.0)
    result = random_normal([5], mean, scale, seed=9)
    assert result.op.inputs[1] is mean
    assert result.op.inputs[0].op.inputs[1] is scale
    standard = Walk().run(random_normal([5], seed=9))
    np.testing.assert_allclose(Walk().run(result), 2 + 3 * standard, rtol=1e-6)


def test_shapes_may_be_scalars_or_tensors():
    assert random_uniform([]).shape == []
    assert Walk().run(random_uniform([])).shape == ()
    assert random_uniform(constant([2, 3])).shape == [2, 3]
    assert random_uniform((2, 3)).shape == [2, 3]


def test_categorical_draws_by_probability():
    logits = np.log(np.float32([[0.1, 0.9], [0.5, 0.5]]))
    tensor = categorical(logits, 4000, seed=4)
    values = Walk().run(tensor)
    assert (tensor.dtype, tensor.shape) == ("int64", [2, 4000])
    np.testing.assert_allclose(values.mean(axis=1), [0.9, 0.5], atol=0.03)


def test_categorical_draws_the_same_in_blocks(monkeypatch):
    logits = np.log([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    whole = Walk().run(categorical(logits, 50, seed=3))
    monkeypatch.setattr(discrete, "_BLOCK", 20)
    np.testing.assert_array_equal(Walk().run(categorical(logits, 50, seed=3)), whole)
    assert Walk().run(categorical(logits, 0)).shape == (2, 0)


def test_categorical_takes_no_memory_for_each_class_of_each_sample():
    samples = categorical(np.zeros((1, 1000)), 20_000, seed=3)
    tracemalloc.start()
    Walk().run(samples)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_categorical_never_draws_what_is_impossible():
    values = Walk().run(categorical([[0.0, -np.inf, 0.0]], 200, dtype="int32", seed=4))
    assert (values.dtype, set(values.ravel().tolist())) == (np.int32, {0, 2})


def test_shuffle_keeps_the_rows():
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    values = Walk().run(random_shuffle(rows, seed=1))
    assert not np.array_equal(values, rows)
    np.testing.assert_array_equal(np.sort(values, axis=0), rows)


def test_a_scalar_has_no_rows_to_shuffle():
    with pytest.raises(ShapeError, match="rank 1 or more"):
        random_shuffle(3.0)
    with pytest.raises(ValueError, match="takes rows, got a scalar"):
        Walk().run(random_shuffle(tg.placeholder_with_default(3.0, None)))


@pytest.mark.parametrize("type", ["RandomUniform", "RandomStandardNormal", "TruncatedNormal", "Categorical"])
def test_draws_have_no_gradient_and_are_never_merged(type):
    assert not definition_of(type).is_differentiable
    assert definition_of(type).stateful


def drawn(graph, build):
    with graph.as_default():
        numbers = build()
    with tg.SyncSession(graph) as session:
        return session.run(numbers).tolist()


def test_the_seed_of_a_graph_changes_all_that_it_draws():
    def with_seed(seed):
        def build():
            tg.set_random_seed(seed)
            return tg.concat([tg.random_normal([2]), tg.random_normal([2], seed=5)], 0)

        return build

    default = drawn(tg.Graph(), with_seed(0))
    assert default == drawn(tg.Graph(0), lambda: tg.concat([tg.random_normal([2]), tg.random_normal([2], seed=5)], 0))
    assert default == drawn(tg.Graph(7), with_seed(0))
    other = drawn(tg.Graph(), with_seed(1))
    assert not set(default) & set(other)


def test_a_seed_of_the_systems_differs_from_graph_to_graph():
    graphs = [tg.Graph(seed=None) for _ in range(3)]
    assert len({graph.seed for graph in graphs}) == 3
    assert tg.Graph.from_text(graphs[0].to_text()).seed == graphs[0].seed
    with graphs[0].as_default():
        before = graphs[0].seed
        tg.set_random_seed(None)
    assert graphs[0].seed != before
    for wrong in ("7", 1.5, True):
        with pytest.raises(GraphError, match="not a seed"):
            tg.Graph(wrong)


def test_one_more_operation_changes_the_numbers_of_those_built_behind_it():
    first = drawn(tg.Graph(), lambda: tg.random_uniform([2]))
    assert first != drawn(tg.Graph(), lambda: [tg.random_uniform([2]), tg.random_uniform([2])][1])
    assert first == drawn(tg.Graph(), lambda: [tg.random_uniform([2]), tg.random_uniform([2])][0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 1001])
def test_uniform_numbers_are_made_of_philoxs_words(dtype, count):
    """They do not depend on the version of NumPy, and are those that its Generator has drawn so far."""
    context = Instance(make_step(4, 5), "op", 2, 3)
    found = definition_of("RandomUniform").kernel(np, context, [count], dtype=as_dtype(dtype), seed=9)
    generator = np.random.Generator(
        np.random.Philox(key=np.array([5, 9], np.uint64), counter=np.array([0, 4, 2, 3], np.uint64))
    )
    if dtype in ("float32", "float64"):
        wanted = generator.random(count, dtype)
    else:
        bits = 11 if dtype == "float16" else 8
        wanted = (generator.integers(0, 1 << bits, count) / (1 << bits)).astype(found.dtype)
    np.testing.assert_array_equal(found, wanted)
