"""Kernels: NumPy's inner loops, boxing, and what falls back to the ufunc itself."""

import ml_dtypes
import numpy as np
import pytest
from tagloom.base.settings import DEFAULTS, Settings

from tests.kernels.planning import BOOL, F32, F64, I32, Planner

DTYPES = [
    np.dtype(n)
    for n in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        ml_dtypes.bfloat16,
    )
]


def evaluate(name, *values, dtype=None, kernel=None, settings=DEFAULTS):
    """Run one ufunc node on constants."""
    plan = Planner(settings=settings)
    inputs = [plan.const(v, np.asarray(v).dtype) for v in values]
    node = plan.ufunc(name, *inputs, dtype=dtype)
    if kernel is not None:
        plan.nodes[node.node]["kernel"] = kernel
    plan.fetch(node)
    return plan.run()[0]


def not_called(*_):
    raise AssertionError("the inner loop was not used")


def inner_loop(name, *values):
    """Run a ufunc by its inner loop or not at all."""
    return evaluate(name, *values, kernel=not_called, settings=Settings(loops=True))


def check(got, expected):
    assert type(got) is np.ndarray
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "less_equal", "negative", "logical_not"])
def test_every_dtype_boxed_and_unboxed(name, dtype):
    if dtype == BOOL and name == "negative":
        return
    ufunc = getattr(np, name)
    for shape in [(), (0,), (1,), (7,), (3, 5)]:
        values = [np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape) for _ in range(ufunc.nin)]
        expected = np.asarray(ufunc(*values))
        check(evaluate(name, *values, dtype=expected.dtype), expected)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "V"], ids=str)
def test_inner_loops_are_found(dtype):
    for x, y in [(dtype.type(1), dtype.type(1)), (np.ones(3, dtype), np.ones(3, dtype))]:
        if dtype.itemsize <= 8 or np.ndim(x):
            check(inner_loop("add", x, y), np.asarray(np.add(x, y)))
    if dtype.itemsize <= 8:
        check(inner_loop("multiply", dtype.type(1), np.ones((2, 3), dtype)), np.ones((2, 3), dtype))
        check(inner_loop("multiply", np.ones((2, 3), dtype), dtype.type(1)), np.ones((2, 3), dtype))


@pytest.mark.parametrize(
    "values",
    [
        (np.ones((2, 3)), np.arange(3.0)),
        (np.ones((2, 3)).T, np.ones((3, 2))),
        (np.arange(10.0)[::2], np.arange(5.0)),
        (np.asfortranarray(np.ones((2, 3))), np.ones((2, 3))),
        (np.ones((2, 0)), np.ones((2, 0))),
        (np.ones((2, 1)), np.ones((0,))),
        (np.frombuffer(b"\0" * 33, np.uint8)[1:].view(np.float64), np.ones(4)),
    ],
    ids=["broadcast", "transposed", "strided", "fortran", "empty", "empty broadcast", "unaligned"],
)
def test_odd_layouts(values):
    check(evaluate("add", *values), np.add(*values))


def test_subclass_is_seen_as_an_array():
    plan = Planner()
    matrix = plan.call(lambda: np.ones((2, 2)).view(np.recarray), outputs=(F64,))
    plan.fetch(plan.ufunc("add", matrix, matrix))
    got = plan.run()[0]
    check(got, np.full((2, 2), 2.0))


@pytest.mark.parametrize("name", ["true_divide", "floor_divide", "log", "sqrt"])
def test_floating_errors_are_silent(name):
    values = [np.float64(-1), np.float64(0)][: getattr(np, name).nin]
    with np.errstate(all="ignore"):
        expected = np.asarray(getattr(np, name)(*values))
    with np.errstate(all="raise"):
        check(evaluate(name, *values), expected)


def test_status_flags_are_cleared():
    evaluate("true_divide", np.float64(1), np.float64(0))
    with np.errstate(all="raise"):
        np.add(np.ones(3), np.ones(3))


@pytest.mark.parametrize("values", [(np.int32(2), np.int32(-1)), (np.full(3, 2), np.full(3, -1))])
def test_loop_that_raises(values):
    plan = Planner()
    plan.ufunc("power", *(plan.const(v, np.asarray(v).dtype) for v in values))
    machine = plan.start()
    machine.drain(1)
    assert isinstance(machine.failure[2], ValueError)
    assert "negative" in str(machine.failure[2])


def test_ufunc_that_is_no_loop():
    check(evaluate("matmul", np.ones((2, 3)), np.ones((3, 2))), np.full((2, 2), 3.0))


@pytest.mark.parametrize("values", [(np.int32(1), np.int32(2)), (np.ones(3), np.ones(3))])
def test_inner_loops_can_be_switched_off(values):
    calls = []

    def add(x, y):
        calls.append(x.shape)
        return np.add(x, y)

    check(evaluate("add", *values, kernel=add, settings=Settings(loops=False)), np.asarray(np.add(*values)))
    assert calls == [np.shape(values[0])]


@pytest.mark.parametrize("reuse", [True, False])
def test_result_goes_into_an_unshared_input(reuse):
    plan, addresses = Planner(settings=Settings(loops=True, reuse=reuse)), []

    def watch(x):
        addresses.append(x.ctypes.data)
        return x

    fresh = plan.call(lambda: np.ones(100), outputs=(F64,))
    seen = plan.call(watch, fresh, outputs=(F64,))
    plan.fetch(plan.call(watch, plan.ufunc("negative", seen), outputs=(F64,)))
    assert plan.run()[0].tolist() == [-1.0] * 100
    assert (addresses[0] == addresses[1]) is reuse


def test_shared_input_is_not_overwritten():
    plan = Planner()
    fresh = plan.call(lambda: np.ones(4), outputs=(F64,))
    view = plan.call(lambda x: x[:], fresh, outputs=(F64,))
    for ref in (plan.ufunc("negative", fresh), plan.ufunc("exp", fresh), plan.ufunc("negative", view), fresh):
        plan.fetch(ref)
    negative, exp, other, same = plan.run()
    assert (negative.tolist(), other.tolist(), same.tolist()) == ([-1.0] * 4, [-1.0] * 4, [1.0] * 4)
    assert exp.tolist() == np.exp(np.ones(4)).tolist()


def test_kernels_see_arrays():
    plan, seen = Planner(), []

    def kernel(*arrays):
        seen.extend((type(a), a.dtype, a.shape) for a in arrays)

    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    plan.call(kernel, plan.const(1), plan.const(np.ones(2), F32), plan.const(2, bfloat16), outputs=())
    plan.run()
    assert seen == [(np.ndarray, I32, ()), (np.ndarray, F32, (2,)), (np.ndarray, bfloat16, ())]


def test_strings():
    plan, string = Planner(), np.dtypes.StringDType()
    joined = plan.ufunc("add", plan.const("ab", string), plan.const(["c", "de"], string))
    plan.fetch(joined)
    plan.fetch(plan.call(lambda x: str(x[1]), joined, outputs=(string,)))
    array, scalar = plan.run()
    assert array.tolist() == ["abc", "abde"]
    assert (scalar.shape, scalar.dtype, scalar[()]) == ((), string, "abde")


def test_handles_pass_as_they_are():
    plan, handle = Planner(), object()
    made = plan.call(lambda: handle, outputs=(None,))
    plan.fetch(plan.identity(made))
    plan.fetch(plan.call(lambda h: np.bool_(h is handle), made, outputs=(BOOL,)))
    assert plan.run() == [handle, True]
