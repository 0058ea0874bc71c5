"""check_numerics: NaN and infinity are caught where they arise, and only where they are real."""

import numpy as np
import pytest
import tagloom as tg

NAN, INF = float("nan"), float("inf")


async def failure(graph, executor, fetches, feeds=None):
    async with tg.Session(graph, executor=executor, check_numerics=True) as session:
        with pytest.raises(tg.OpError) as caught:
            await session.run(fetches, feeds)
    assert isinstance(caught.value.__cause__, FloatingPointError)
    return caught.value


async def value(graph, executor, fetches, feeds=None):
    async with tg.Session(graph, executor=executor, check_numerics=True) as session:
        return await session.run(fetches, feeds)


async def test_names_operation_path_and_iteration(graph, executor):
    def inner(j, a):
        return j + 1, tg.log(a - 1.0, name="shrink")

    def outer(i, a):
        return i + 1, tg.while_loop(lambda j, _: j < 1, inner, [0, a], name="inner")[1]

    x = tg.placeholder("float32", [], name="x")
    _, y = tg.while_loop(lambda i, _: i < 9, outer, [0, x], name="outer")
    error = await failure(graph, executor, y, {x: 5.0})  # log(4) = 1.4, log(0.4) = -0.9, log(-1.9) = NaN
    assert error.tag == "shrink@root/0/outer/2/inner/0"
    assert error.operation.name == "shrink"
    assert "1 NaN in an array of float32[]" in str(error)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "complex64", "complex128"])
async def test_every_floating_dtype(graph, executor, dtype):
    x = tg.placeholder(dtype, [2], name="x")
    y = tg.identity(x * x, name="y")
    bad = np.array([1.0, NAN]).astype(tg.as_dtype(dtype).numpy)
    assert "1 NaN" in str(await failure(graph, executor, y, {x: bad}))
    np.testing.assert_array_equal(await value(graph, executor, y, {x: np.ones_like(bad)}), np.ones_like(bad))


async def test_infinity_and_nan_are_counted_apart(graph, executor):
    x = tg.placeholder("float64", [3], name="x")
    error = await failure(graph, executor, tg.negative(x, name="y"), {x: [INF, -INF, NAN]})
    assert "1 NaN and 2 Inf in an array of float64[3]" in str(error)


async def test_dead_values_are_ignored(graph, executor):
    x = tg.placeholder("float32", [], name="x")

    def body(i, a):
        return i + 1, tg.cond(tg.equal(x, 0.0), lambda: a + 1.0, lambda: a + tg.log(x - x) / x)

    y = tg.while_loop(lambda i, _: i < 3, body, [0, tg.constant(0.0)])[1]
    assert await value(graph, executor, y, {x: 0.0}) == 3.0
    assert (await failure(graph, executor, y, {x: 1.0})).tag.endswith("/0")


async def test_integers_booleans_strings_and_effects_pass(graph, executor):
    x = tg.placeholder("float32", [2], name="x")
    text = tg.py_function(lambda a: np.array("text", np.dtypes.StringDType()), [x], "string")
    fetches = [tg.is_nan(x), tg.cast(tg.is_inf(x), "int32"), text, tg.no_op()]
    nan, inf, word, _ = await value(graph, executor, fetches, {x: [NAN, INF]})
    assert nan.tolist() == [True, False]
    assert inf.tolist() == [0, 1]
    assert str(word) == "text"


async def test_awaited_kernels_are_checked(graph, executor):
    async def answer(a):
        return np.array([np.inf], np.float32)

    y = tg.py_function(answer, [1.0], "float32", name="ask")
    assert (await failure(graph, executor, y)).tag == "ask@root/0"


async def test_off_by_default_and_the_session_goes_on(graph, executor):
    x = tg.placeholder("float32", [], name="x")
    y = tg.log(x)
    async with tg.Session(graph, executor=executor) as session:
        assert np.isnan(await session.run(y, {x: -1.0}))
    async with tg.Session(graph, executor=executor, check_numerics=True) as session:
        with pytest.raises(tg.OpError, match="NaN"):
            await session.run(y, {x: -1.0})
        assert await session.run(y, {x: 1.0}) == 0.0


async def test_operations_that_would_be_fused_are_seen_one_by_one(graph, executor):
    x = tg.placeholder("float32", [3], name="x")
    y = tg.where(x > 0.0, tg.log(x, name="inner") * 2.0, tg.zeros([3]))
    assert (await failure(graph, executor, y, {x: [-1.0, 1.0, 2.0]})).operation.name == "inner"
