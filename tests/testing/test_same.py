"""assert_same_under: equal programs pass, differences are named with variant, result and element."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.testing import assert_same_under

REFERENCE = {"executor": "reference"}


def loop(x):
    return tg.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tg.tanh(a) * 2.0), [0, x])[1]


def test_a_program_is_the_same_under_the_usual_variants():
    x = np.float32([0.5, -1.0])
    found = assert_same_under(function=lambda d: {"y": loop(d["x"]), "n": tg.size(d["x"])}, arguments=[{"x": x}])
    expected = x
    for _ in range(5):
        expected = np.tanh(expected) * 2
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5)
    assert found["n"] == 2


def test_devices_executors_and_settings_may_vary():
    def spread(x):
        with tg.device("/cpu:1"):
            y = tg.exp(x)
        return y * 2.0

    options = {"devices": 2, "settings": tg.Settings(shuffle_seed=3)}
    assert_same_under(
        {"devices": 2}, options, {"devices": 2, **REFERENCE}, function=spread, arguments=[1.0], rtol=0, atol=0
    )


def test_fetches_of_a_graph_that_there_is():
    with tg.Graph().as_default() as graph:
        w = tg.Variable([2.0, 3.0])
        x = tg.placeholder("float32", [2])
        fetches = [w * x, w.assign_add(x)]
    count = graph.num_operations
    product, _ = assert_same_under(fetches=fetches, feeds={x: [1.0, 1.0]}, rtol=0, atol=0)
    assert product.shape == (2,)
    assert graph.num_operations == count


def varying(*values):
    """Return a program that gives one value after the other."""
    queue = list(values)
    return lambda: tg.py_function(lambda: queue.pop(0), [], tg.as_dtype(np.asarray(values[0]).dtype))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (([1.0, 2.0], [1.0, 2.5]), r"element \[1\]\n  difference: 0.5; 1 of 2 elements differ"),
        (([1.0, np.nan], [1.0, 2.0]), "wanted: .*nan"),
        (([1.0, np.inf], [1.0, -np.inf]), "wanted: .*inf"),
        (([1.0, 2.0], [1.0]), r"dtype or shape"),
    ],
)
def test_differences_are_named(values, words):
    arrays = [np.float64(value) for value in values]
    with pytest.raises(AssertionError, match="results differ under executor='reference'") as caught:
        assert_same_under({}, REFERENCE, function=varying(*arrays))
    assert caught.match(words)


@pytest.mark.parametrize(
    ("dtype", "other"), [("int64", [1, 3]), ("int32", [-1, 2]), ("uint8", [9, 2]), ("bool", [1, 0])]
)
def test_what_is_not_floating_has_to_be_equal(dtype, other):
    values = np.array([1, 2]).astype(dtype), np.array(other, dtype)
    with pytest.raises(AssertionError, match="elements differ"):
        assert_same_under({}, {}, function=varying(*values))


def test_strings_have_to_be_equal():
    values = [np.array(["a", "b"], object), np.array(["a", "c"], object)]
    queue = list(values)
    program = lambda: tg.py_function(lambda: queue.pop(0), [], "string")  # noqa: E731
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_same_under({}, {}, function=program)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex64"])
def test_small_differences_are_within_the_tolerance_but_not_equal_bits(dtype):
    one = np.array([1.0], tg.as_dtype(dtype).numpy)
    near = (one * (1 + {"float64": 2e-15, "float16": 2e-3, "bfloat16": 8e-3}.get(dtype, 1e-6))).astype(one.dtype)
    assert near != one
    assert_same_under({}, {}, function=varying(one, near))
    with pytest.raises(AssertionError, match="tolerance 0"):
        assert_same_under({}, {}, function=varying(one, near), rtol=0, atol=0)


def test_bits_tell_signed_zeros_apart():
    zeros = np.float32([0.0]), np.float32([-0.0])
    assert_same_under({}, {}, function=varying(*zeros))
    with pytest.raises(AssertionError, match="bits only"):
        assert_same_under({}, {}, function=varying(*zeros), rtol=0, atol=0)
    nans = np.float32([np.nan]), np.float32([np.nan])
    assert_same_under({}, {}, function=varying(*nans), rtol=0, atol=0)


def test_a_variant_that_fails_alone_is_named():
    with pytest.raises(AssertionError, match=r"fails under memory_limit='1KB' alone[\s\S]*DeviceMemoryError"):
        assert_same_under({}, {"memory_limit": "1KB"}, function=lambda x: tg.exp(x), arguments=[np.ones(10_000)])


def test_the_first_runs_error_is_its_own():
    with pytest.raises(tg.OpError, match="too small"):
        assert_same_under(function=lambda x: tg.identity(tg.check_numerics(tg.log(x), "too small")), arguments=[-1.0])


def test_settings_are_described_by_what_differs():
    values = varying(np.float32(1.0), np.float32(2.0))
    with pytest.raises(
        AssertionError, match=r"under Settings\(fuse=False\)\n  wanted: .* under the session's defaults"
    ):
        assert_same_under(tg.Settings(), tg.Settings(fuse=False), function=values)
    values = varying(np.float32(1.0), np.float32(2.0))
    with pytest.raises(AssertionError, match=r"and \d+ more\)"):
        assert_same_under({}, tg.Settings().without("all"), function=values)


@pytest.mark.parametrize(
    ("variants", "options", "words"),
    [
        ((), {}, "no program"),
        ((), {"function": tg.exp, "fetches": 1}, "or two"),
        (({},), {"function": tg.exp, "arguments": [1.0]}, "nothing to compare"),
        ((), {"fetches": "x:0"}, "name no graph"),
    ],
)
def test_incomplete_questions_are_refused(variants, options, words):
    with pytest.raises(tg.GraphError, match=words):
        assert_same_under(*variants, **options)


async def test_it_may_be_called_while_an_event_loop_runs():
    assert_same_under(function=loop, arguments=[1.0])
