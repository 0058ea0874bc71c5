"""C kernels against the Python kernels that give their meaning, on arrays of every layout: equal, or the same error."""

import zlib

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.definition import definition_of
from tagloom.kernels.cpu.registry import registered_types
from tagloom.kernels.queues import queue_kernels as _queue_kernels  # noqa: F401  registers the kernels of queues

from tests.kernels.calling import counting, got
from tests.kernels.fuzzing import CASES, LAYOUTS, Subclass, numbers

ROUNDS = 2 * len(LAYOUTS)
ELSEWHERE = {  # test_elements.py, queues/test_queue_rings.py, tests/native
    "Dequeue",
    "DequeueMany",
    "Enqueue",
    "EnqueueMany",
    "Native",
    "ProductSumAdd",
    "ProductSumBegin",
    "ProductSumEnd",
    "TensorArrayRead",
    "TensorArrayStack",
    "TensorArrayWrite",
}


def wanted(type, arguments, attrs):
    """Return what the Python kernel gives, as a list, or the error it raises."""
    definition = definition_of(type)
    attrs = {**definition.attrs, **attrs}
    flat = [a for group in arguments for a in (group if isinstance(group, list) else [group])]
    try:
        with np.errstate(all="ignore"):
            result = definition.kernel(np, *flat, **attrs)
    except Exception as error:
        return error
    return [np.asarray(r) for r in (result if isinstance(result, (list, tuple)) else [result])]


def plain(array):
    """Return the values of an odd array in an ordinary one."""
    return np.array(array, array.dtype.newbyteorder("="), order="C", subok=False)


def assert_same(result, expected):
    if isinstance(expected, Exception):
        assert type(result) is type(expected)
        assert str(result) == str(expected)
        return
    assert not isinstance(result, Exception), result
    for one, other in zip(result, expected, strict=True):
        assert type(one) is np.ndarray
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        rtol = {"float16": 2e-3, "float32": 1e-5, "complex64": 1e-5}.get(one.dtype.name, 1e-12)
        exact = one.dtype.kind not in "fc"
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(one, other, rtol=0 if exact else rtol, atol=0 if exact else rtol)


def test_every_c_kernel_is_fuzzed():
    assert set(CASES) | ELSEWHERE >= registered_types()


@pytest.mark.parametrize("type", sorted(CASES))
def test_same_as_the_python_kernel(type):
    rng = np.random.default_rng(zlib.crc32(type.encode()))
    layouts = list(LAYOUTS)
    for round in range(ROUNDS):
        arguments, attrs = CASES[type](rng)
        layout = LAYOUTS[layouts[round % len(layouts)]]
        laid = [[plain(layout(a)) for a in g] if isinstance(g, list) else plain(layout(g)) for g in arguments]
        assert_same(got(type, arguments, attrs, layout), wanted(type, laid, attrs))


@pytest.mark.parametrize("type", ["FloorDiv", "FloorMod"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 2)])
def test_integer_division(type, dtype, shape):
    smallest = np.full(shape, np.iinfo(dtype).min, dtype)
    for divisor in (np.full(shape, 0, dtype), np.zeros((), dtype), np.full(shape, 3, dtype)):
        assert_same(got(type, [smallest, divisor], {}, np.asarray), wanted(type, [smallest, divisor], {}))
    if np.dtype(dtype).kind == "i":
        minus = np.full(shape, -1, dtype)
        assert_same(got(type, [smallest, minus], {}, np.asarray), wanted(type, [smallest, minus], {}))
    assert isinstance(got(type, [smallest, np.zeros((), dtype)], {}, np.asarray), ZeroDivisionError)
    assert_same(got(type, [np.zeros((0,), dtype), np.zeros((), dtype)], {}, np.asarray), [np.zeros((0,), dtype)])


@pytest.mark.parametrize("kind", [np.matrix, np.ma.MaskedArray, np.recarray, Subclass])
def test_feeds_of_other_classes(kind):
    rng = np.random.default_rng(0)
    x = numbers(rng, (3, 4), "float32")
    with tg.Graph().as_default() as graph:
        fed = tg.placeholder("float32", [3, 4])
        fetches = [fed * fed, tg.reduce_sum(fed, 1), fed[1], tg.matmul(fed, fed, transpose_b=True), tg.softmax(fed)]
    with tg.SyncSession(graph) as session:
        results = session.run(fetches, {fed: x.view(kind)})
        expected = session.run(fetches, {fed: x})
    assert_same(results, expected)


@pytest.mark.parametrize("type", sorted(set(CASES) & registered_types()))
def test_plain_arrays_do_not_reach_the_python_kernel(type):
    rng, spared = np.random.default_rng(7), 0
    for _ in range(40):
        arguments, attrs = CASES[type](rng)
        flat = [a for group in arguments for a in (group if isinstance(group, list) else [group])]
        calls = []
        if all(a.size and a.ndim <= 4 for a in flat):
            got(type, arguments, attrs, np.asarray, lambda plan, calls=calls: counting(plan, calls))
            spared += not calls
    assert spared > 1
