"""Python functions that are traced, compiled and awaited."""

import asyncio
import gc
import logging
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.session.sync import wait_for_abandoned_sessions


async def test_arrays_go_in_and_come_out_in_the_structure_that_the_function_returns():
    @tg.function
    def f(x, pair, *, scale=2.0):
        a, b = pair
        return {"sum": x + a * scale, "rest": (b, None)}

    result = await f(np.float32([1, 2]), (np.float32(3), [1.0, 2.0]))
    assert list(result) == ["sum", "rest"]
    assert result["sum"].tolist() == [7, 8]
    assert [float(b) for b in result["rest"][0]] == [1, 2]
    assert result["rest"][1] is None


async def test_a_function_is_traced_once_for_dtypes_shapes_and_constants():
    calls = []

    @tg.function
    def f(x, mode="double"):
        calls.append(mode)
        return x * 2 if mode == "double" else x * 3

    assert (await f(np.float32([1, 2]))).tolist() == [2, 4]
    assert (await f(np.float32([3, 4]))).tolist() == [6, 8]
    assert calls == ["double"]
    assert (await f(np.float32([1, 2, 3]))).tolist() == [2, 4, 6]
    assert (await f(np.int32([1]))).dtype == np.int32
    assert (await f(np.float32([1, 2]), mode="triple")).tolist() == [3, 6]
    assert (await f(np.float32([1, 2]), "double")).tolist() == [2, 4]
    assert calls == ["double", "double", "double", "triple"]
    assert f.traces == 4


async def test_numbers_are_tensors_and_bools_are_constants():
    @tg.function
    def f(x, k, negate=False):
        return -(x + k) if negate else x + k

    assert [float(await f(1.0, k)) for k in (1.0, 2.0, 3.0)] == [2, 3, 4]
    assert f.traces == 1
    assert float(await f(1.0, 1.0, True)) == -2
    assert float(await f(1.0, 1.0, np.True_ is True)) == 2
    assert f.traces == 2


async def test_defaults_are_known_to_python():
    @tg.function
    def f(x, n=2, more=[1.0], *rest, **options):  # noqa: B006  a default that can not be hashed
        return [x * k + more[0] for k in range(n)]

    assert [float(y) for y in await f(3.0)] == [1, 4]
    assert (await tg.function(tg.cumsum)(np.float32([1, 2, 3]))).tolist() == [1, 3, 6]


async def test_static_arguments_are_known_to_python():
    @tg.function(static_argnames="n")
    def power(x, n):
        y = 1.0
        for _ in range(n):
            y = x * y
        return y

    assert float(await power(2.0, 3)) == 8
    assert float(await power(2.0, n=5)) == 32
    assert power.traces == 2


async def test_an_argument_that_python_has_to_know_is_named_in_the_error():
    @tg.function
    def f(x, n):
        return x if n > 3 else -x

    with pytest.raises(tg.GraphError) as caught:
        await f(1.0, 2)
    assert "f was traced with x: float32[], n: int32[]" in caught.value.__notes__[0]
    assert "static_argnames" in caught.value.__notes__[0]


async def test_a_signature_leaves_sizes_open():
    @tg.function(input_signature=[tg.TensorSpec([None], "float32"), {"k": tg.TensorSpec([], "float32")}])
    def f(x, options):
        return tg.reduce_sum(x) * options["k"]

    assert float(await f([1.0, 2.0], {"k": 2.0})) == 6
    assert float(await f(np.ones(5, np.float32), {"k": 2.0})) == 10
    assert f.traces == 1
    with pytest.raises(tg.GraphError, match="another structure than its input_signature"):
        await f([1.0], {"j": 2.0})
    with pytest.raises(tg.ShapeError):
        await f([[1.0]], {"k": 2.0})
    assert float(await f([], {"k": 2.0})) == 0


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(tg.GraphError, match="no parameter of this name"):
        tg.function(lambda x: x, static_argnames=["y"])
    with pytest.raises(tg.GraphError, match="input_signature does not fit"):
        tg.function(lambda x: x, input_signature=["float32"])
    with pytest.raises(tg.GraphError, match="another graph"):
        tg.function(lambda x: x, graph=tg.Graph(), session=tg.Session(tg.Graph()))


async def test_wrong_arguments_are_a_type_error_as_in_python():
    f = tg.function(lambda x: x)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        f()
    with pytest.raises(tg.GraphError, match="an unhashable set"):
        f({1, 2})


# ---- variables


async def test_variables_are_made_once_and_begin_with_their_initial_values():
    @tg.function
    def count(x):
        total = tg.Variable(tg.zeros([2]), name="total")
        return total.assign_add(x)

    ones = np.ones(2, np.float32)
    assert (await count(ones)).tolist() == [1, 1]
    assert (await count(ones)).tolist() == [2, 2]
    assert (await count([1.0, 2.0])).tolist() == [3, 4]  # another trace, the same variable
    names = [v.name for v in count.graph.collections["variables"] if v.name.startswith("count/total")]
    assert count.traces == 2
    assert len(names) == 1


async def test_variables_may_begin_with_what_the_first_call_is_given():
    @tg.function
    def f(x):
        largest = tg.Variable(tg.zeros_like(x) - 1.0)
        return largest.assign(tg.maximum(largest, x))

    assert (await f(np.float32([1, 5]))).tolist() == [1, 5]
    assert (await f(np.float32([3, 2]))).tolist() == [3, 5]


async def test_calls_at_the_same_time_initialize_once():
    @tg.function
    def f(x):
        n = tg.Variable(0.0)
        return n.assign_add(x)

    results = await asyncio.gather(*(f(1.0) for _ in range(10)))
    assert sorted(float(r) for r in results) == list(range(1, 11))


async def test_two_variables_of_one_name_are_two():
    @tg.function
    def f(x):
        a, b = tg.Variable(1.0, name="v"), tg.Variable(2.0, name="v")
        return a * x, b * x

    for x in (1.0, np.ones(2, np.float32)):
        a, b = await f(x)
        assert (a == 1).all()
        assert (b == 2).all()


async def test_training_in_a_function_with_an_optimizer_of_its_own():
    from tagloom.training import MomentumOptimizer

    @tg.function
    def train(x, y):
        w = tg.Variable(tg.zeros([3, 1]), name="w")
        loss = tg.reduce_mean(tg.square(x @ w - y))
        MomentumOptimizer(0.05, 0.9).minimize(loss, var_list=[w])
        return loss

    random = np.random.default_rng(0)
    target = np.float32([[1], [-2], [3]])
    losses = []
    for k in range(60):
        x = random.normal(size=(16 + k % 2, 3)).astype(np.float32)
        losses.append(float(await train(x, x @ target)))
    assert losses[-1] < 1e-2 * losses[0]
    assert train.traces == 2


async def test_each_object_has_variables_of_its_own():
    class Counter:
        def __init__(self, begin):
            self.begin = begin

        @tg.function
        def add(self, x):
            n = tg.Variable(self.begin)
            return n.assign_add(x)

    a, b = Counter(0.0), Counter(10.0)
    assert [float(await a.add(1.0)), float(await b.add(1.0)), float(await a.add(1.0))] == [1, 11, 2]
    assert isinstance(Counter.add, tg.Function)


# ---- effects


async def test_effects_happen_in_the_order_of_lines_though_nobody_uses_them():
    seen = []

    @tg.function
    def f(x):
        v = tg.Variable(1.0)
        v.assign_add(x)
        tg.py_function(lambda a: seen.append(float(a)), [v], [])
        v.assign(v * 10.0)
        return v

    assert float(await f(2.0)) == 30
    assert float(await f(0.5)) == 305
    assert seen == [3, 30.5]


async def test_effects_in_branches_loops_and_predicates_happen():
    seen = []

    def note(name, i):
        tg.py_function(lambda i: seen.append((name, int(i))), [i], [])

    @tg.function
    def f(n):
        total = tg.Variable(0, name="total")

        def even(i):
            note("even", i)
            return i + 1

        def predicate(i):
            note("test", i)
            return i < n

        def body(i):
            total.assign_add(i)
            return tg.cond(tg.equal(i % 2, 0), lambda: even(i), lambda: i + 1)

        tg.while_loop(predicate, body, [0], parallel_iterations=1)
        return total

    assert int(await f(3)) == 3
    assert seen == [("test", 0), ("even", 0), ("test", 1), ("test", 2), ("even", 2), ("test", 3)]


async def test_a_check_that_nobody_waits_for_ends_the_call():
    @tg.function
    def f(x):
        tg.assert_greater(x, 0.0)
        return x

    assert float(await f(1.0)) == 1
    with pytest.raises(tg.OpError):
        await f(-1.0)


async def test_a_function_that_returns_nothing_or_an_operation():
    seen = []

    @tg.function
    def f(x):
        tg.py_function(lambda a: seen.append(float(a)), [x], [])

    @tg.function
    def g(x):
        v = tg.Variable(0.0)
        return v.assign(x).op

    assert await f(1.0) is None
    assert await g(1.0) is None
    assert seen == [1]


async def test_effects_without_a_result_to_wait_for_are_refused():
    @tg.function
    def f(x):
        tg.assert_greater(x, 0.0)
        return ()

    with pytest.raises(tg.GraphError, match="returns an empty tuple"):
        await f(1.0)


async def test_an_array_is_not_a_result():
    with pytest.raises(tg.GraphError, match="returns a TensorArray"):
        await tg.function(lambda x: tg.TensorArray("float32", 1).write(0, x))(1.0)


# ---- composition


async def test_a_function_called_in_another_is_built_there_and_shares_its_variables():
    @tg.function
    def layer(x):
        w = tg.Variable(2.0, name="w")
        return w * x

    @tg.function
    def model(x):
        return layer(layer(x))

    @tg.function
    def train(x):
        loss = model(x)
        (w,) = [v for v in tg.global_variables() if v.name.startswith("layer/w") and v.graph is layer.graph][-1:]
        w.assign_add(1.0)
        return loss

    assert float(await model(1.0)) == 4
    assert float(await train(1.0)) == 4
    assert float(await layer(1.0)) == 3
    assert float(await model(1.0)) == 9


async def test_a_function_is_called_with_tensors_while_a_graph_is_built():
    seen = []

    @tg.function
    def f(x):
        tg.py_function(lambda a: seen.append(float(a)), [x], [])
        return x * 2.0

    with tg.Graph().as_default() as graph:
        y = f(tg.constant(3.0))
    async with tg.Session(graph) as session:
        assert float(await session.run(y)) == 6
    assert seen == [3]


async def test_functions_in_control_flow():
    @tg.function
    def double(x):
        return x * 2.0

    @tg.function
    def f(x, n):
        return tg.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, double(x)), [0, x])[1]

    assert float(await f(1.0, 10)) == 1024


# ---- gradients


async def test_gradients_of_functions():
    def f(x, params):
        return tg.reduce_sum(tg.square(x) * params["a"]) + params["b"]

    x, params = np.float32([1, 2]), {"a": np.float32([3, 4]), "b": 5.0, "c": 6.0}
    value, (by_x, by_params) = await tg.value_and_grad(f, argnums=(0, 1))(x, params)
    assert float(value) == 24
    assert by_x.tolist() == [6, 16]
    assert by_params["a"].tolist() == [1, 4]
    assert [float(by_params[k]) for k in "bc"] == [1, 0]
    assert (await tg.grad(f)(x, params)).tolist() == [6, 16]


async def test_gradients_of_gradients_functions_and_auxiliary_results():
    @tg.function
    def f(x):
        return x**3, {"square": x * x}

    gradient, rest = await tg.grad(f, has_aux=True)(2.0)
    assert float(gradient) == 12
    assert float(rest["square"]) == 4
    third = tg.grad(tg.grad(tg.grad(lambda x: f(x)[0])))
    assert float(await third(2.0)) == 6


async def test_an_argument_given_twice_has_two_gradients():
    g = tg.grad(lambda a, b: a * b * b, argnums=(0, 1))

    @tg.function
    def f(x):
        return g(x, x)

    assert [float(v) for v in await f(3.0)] == [9, 18]


async def test_gradients_that_can_not_be_are_refused():
    with pytest.raises(tg.ShapeError, match="only a scalar"):
        await tg.grad(lambda x: x)(np.ones(2, np.float32))
    with pytest.raises(tg.DtypeError, match="argument that has none"):
        await tg.grad(lambda x: x * 2)(3)
    with pytest.raises(tg.DtypeError, match="only a floating value"):
        await tg.grad(lambda x: tg.cast(x, "int32"))(3.0)
    with pytest.raises(tg.GraphError, match="no such argument"):
        await tg.grad(lambda x: x, argnums=1)(3.0)


# ---- sessions


async def test_a_function_runs_in_the_session_it_is_given():
    graph = tg.Graph()
    async with tg.Session(graph) as session:
        f = tg.function(lambda x: x + 1.0, session=session)
        assert f.graph is graph
        assert float(await f(1.0)) == 2
        step = await f.step(1.0)
        assert float(await step(5.0)) == 6
        assert session.statistics().steps_started == 2
        with pytest.raises(tg.GraphError, match="was given a Session"):
            f.sync(1.0)
    with pytest.raises(tg.SessionClosed):
        await f(1.0)


def test_functions_of_a_graph_share_the_session_of_a_loop_which_ends_with_it():
    graph = tg.Graph()
    read = tg.function(lambda: w.value(), graph=graph)
    write = tg.function(lambda x: w.assign(x), graph=graph)
    with graph.as_default():
        w = tg.Variable(1.0)

    async def main():
        before = float(await read())
        await write(5.0)
        started.append(asyncio.Event())
        tasks.append(asyncio.create_task(forever(0)))
        await started[-1].wait()
        return before, float(await read())

    started, ended = [], []
    tasks = []

    @tg.function(graph=graph)
    def forever(x):
        async def wait(x):
            started[-1].set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        tg.py_function(wait, [x], [])

    threads = threading.active_count()
    assert [asyncio.run(main()) for _ in range(3)] == [(1, 5), (5, 5), (5, 5)]
    assert len(ended) == 3
    assert threading.active_count() == threads, threading.enumerate()
    gc.collect()


def test_scripts_call_functions_without_a_loop():
    threads = threading.active_count()

    @tg.function(graph=tg.Graph())
    def f(x):
        n = tg.Variable(0.0)
        return n.assign_add(x)

    results = [float(f.sync(1.0)), float(f.sync(2.0))]
    assert results == [1, 3]
    del f
    gc.collect()
    wait_for_abandoned_sessions()
    assert threading.active_count() == threads, threading.enumerate()
    with tg.SyncSession(tg.Graph()) as session:
        g = tg.function(lambda x: x * 2.0, session=session)
        assert float(g.sync(4.0)) == 8
        with pytest.raises(tg.GraphError, match="was given a SyncSession"):
            asyncio.run(g(4.0))


async def test_a_function_that_fails_while_it_is_traced_can_be_called_again():
    fail = [True]

    @tg.function
    def f(x):
        v = tg.Variable(1.0)
        if fail.pop():
            raise ValueError("not yet")
        return v * x

    with pytest.raises(ValueError, match="not yet"):
        await f(2.0)
    fail.append(False)
    assert float(await f(2.0)) == 2


async def test_many_traces_are_warned_about_with_what_changed(caplog):
    f = tg.function(lambda x: x)
    with caplog.at_level(logging.DEBUG, "tagloom"):
        for n in range(9):
            await f(np.zeros(n, np.float32))
    texts = [(r.levelname, r.getMessage()) for r in caplog.records if "is traced" in r.getMessage()]
    assert [level for level, _ in texts] == ["DEBUG"] * 8 + ["WARNING"]
    assert "lambda is traced again, for the 9. time: x: float32[8] (was float32[7])" in texts[-1][1]
    assert "input_signature" in texts[-1][1]


# ---- streams


@pytest.fixture
def tokens():
    @tg.function
    def generate(seed, length):
        state = tg.Variable(0, name="calls")
        state.assign_add(1)

        def body(i, token):
            return i + 1, tg.identity(token * 3 % 101, name="token")

        last = tg.while_loop(lambda i, _: i < length, body, [0, seed])[1]
        return last, tg.identity(state.value(), name="count")

    return generate


async def test_values_are_streamed_to_each_caller(tokens):
    async def read(seed):
        stream = tokens.stream("token", seed, 6)
        found = [int(token) async for token in stream]
        last, _ = await stream.result()
        assert int(last) == found[-1]
        return found

    expected = []
    for seed in range(1, 5):
        row = [seed]
        for _ in range(6):
            row.append(row[-1] * 3 % 101)
        expected.append(row[1:])
    assert await asyncio.gather(*(read(seed) for seed in range(1, 5))) == expected
    assert tokens.traces == 1
    assert int((await tokens(1, 1))[1]) == 5


async def test_who_leaves_a_stream_ends_the_call(tokens):
    async with tokens.stream("token", 1, 10**6) as stream:
        async for token in stream:
            assert int(token) == 3
            break
    session = await tokens.session()
    assert session.statistics().steps_running == 0


async def test_a_name_that_is_none_or_several_is_refused(tokens):
    for begin in (lambda s: s.result(), lambda s: anext(s), lambda s: anext(s)):  # traced by the first
        with pytest.raises(tg.GraphError, match="no tensor of the function has this name"):
            await begin(tokens.stream("tokens", 1, 2))
    twice = tg.function(lambda x: tg.identity(x, name="a/y") + tg.identity(x, name="b/y"))
    with pytest.raises(tg.GraphError, match="several tensors have this name"):
        await anext(twice.stream("y", 1.0))
    assert [float(y) async for y in twice.stream("b/y", 1.0)] == [1]


async def test_a_stream_whose_call_fails_before_it_begins_raises_that():
    @tg.function
    def f(x):
        return tg.identity(tg.Variable(tg.check_numerics(x, "initial value")) * 1.0, name="y")

    with pytest.raises(tg.OpError, match="NaN"):
        [y async for y in f.stream("y", float("nan"))]
