"""Elements of TensorArrays by their C kernels: as the Python kernels have it, and they take over what is special."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import TensorArrayError
from tagloom.base.shapes import UNKNOWN, Shape
from tagloom.kernels.cpu.elements import Element
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.memory.pool import Pool
from tagloom.ops.state.tensor_array.element_rules import ElementRules
from tagloom.ops.state.tensor_array.storage import ArrayStorage
from tagloom.ops.support.context import StepContext
from tagloom.runtime.resources.manager import ResourceManager

from tests.kernels.odd_arrays import KINDS, odd
from tests.support.settings import ON


class Context:
    """Who asks."""

    operation, iteration, step = "here", 3, StepContext(0, 0, ResourceManager())


def storage(size=4, dtype="float32", **options):
    return ArrayStorage(tg.as_dtype(dtype), size, ElementRules(**options))


def test_an_element_knows_who_came_first():
    element = Element()
    assert (element.value, element.shape, element.writer, element.reader) == (None, None, None, None)
    array = storage()
    array.write_rows(range(4), np.ones((4, 2), np.float32), Context())
    array.read(1, Context())
    assert [e.writer for e in array.elements] == [("here", 3)] * 4
    assert [e.reader for e in array.elements] == [None, ("here", 3), None, None]
    assert array.elements[1].value is None
    assert array.elements[1].shape == (2,)


@pytest.mark.parametrize("shape", [UNKNOWN, Shape([2]), Shape([None])])
@pytest.mark.parametrize("identical", [False, True])
def test_rows_come_back_whatever_is_known_of_their_shape(shape, identical):
    array = storage(element_shape=shape, identical_shapes=identical)
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    array.write_rows(range(4), rows, Context())
    np.testing.assert_array_equal(array.stack(range(4), Context(), None, UNKNOWN), rows)


def test_a_row_already_written_stops_the_quick_way():
    array = storage()
    array.write(2, np.zeros(2, np.float32), Context())
    with pytest.raises(TensorArrayError, match=r"index 2 .* already been written"):
        array.write_rows(range(4), np.ones((4, 2), np.float32), Context())


def test_rows_of_another_dtype_or_shape_are_refused():
    with pytest.raises(TensorArrayError, match="dtype"):
        storage().write_rows(range(4), np.ones((4, 2)), Context())
    with pytest.raises(TensorArrayError, match="shape"):
        storage(element_shape=Shape([3])).write_rows(range(4), np.ones((4, 2), np.float32), Context())


def test_a_closed_array_is_refused():
    array = storage()
    array.close()
    for use in (
        lambda: array.write_rows(range(1), np.ones((1, 2), np.float32), Context()),
        lambda: array.read(0, Context()),
    ):
        with pytest.raises(TensorArrayError, match="closed"):
            use()


JOINS = {
    "stack": (4, lambda array: [array.stack(range(4), Context(), None, UNKNOWN)]),
    "gather": (4, lambda array: [array.stack(np.array([2, 0]), Context(), None, UNKNOWN)]),
    "zeros": (2, lambda array: [array.stack(range(4), Context(), None, UNKNOWN)]),
    "concat": (4, lambda array: array.concat((), Context(), Shape(None))),
    "concat_like": (2, lambda array: array.concat(((32,), [8] * 4), Context(), Shape(None))),
}


@pytest.mark.parametrize("join", JOINS)
def test_elements_are_not_read_if_there_is_no_room_for_what_is_made_of_them(join):
    written, read = JOINS[join]
    pool = Pool(0)
    inside = KernelContexts(pool).run
    expected, ended = None, []
    for room in range(2000, -1, -4):
        array = storage(element_shape=Shape([8]))
        for k in range(written):
            array.write(k, np.full(8, k, np.float32), Context())
        values = [element.value for element in array.elements]
        pool.limit = pool.live_bytes + room
        try:
            got = inside(read, array)
        except MemoryError:
            ended.append("refused")
            assert all(element.value is value for element, value in zip(array.elements, values, strict=True))
            pool.limit = None
            got = inside(read, array)
        else:
            ended.append("read")
        expected = got if expected is None else expected
        assert all(map(np.array_equal, got, expected))
    assert set(ended) == {"refused", "read"}


def test_a_growing_array_makes_room_for_all_rows():
    array = storage(0, dynamic_size=True)
    array.write_rows(range(5), np.ones((5, 2), np.float32), Context())
    assert array.size == 5


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex128"])
def test_scalars(dtype):
    array = storage(3, dtype)
    array.write_rows(range(3), np.array([1, 0, 1], tg.as_dtype(dtype).numpy), Context())
    np.testing.assert_array_equal(array.stack(range(3), Context(), None, UNKNOWN), [1, 0, 1])


def looped(values, index_dtype="int32"):
    """Write rows in a loop, read them in another, and return their sums."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None, None])
        n = tg.shape(x)[0]
        start = tg.cast(0, index_dtype)
        end = tg.cast(n, index_dtype)
        given = tg.TensorArray("float32", n).unstack(x)
        *_, out = tg.while_loop(
            lambda t, _: t < end,
            lambda t, a: (t + 1, a.write(t, given.read(t) * 2.0)),
            [start, tg.TensorArray("float32", n)],
        )
        fetched = out.stack()
    with tg.SyncSession(graph) as session:
        return session.run(fetched, {x: values})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_odd_arrays_through_loops(kind, index):
    values = odd(np.arange(12, dtype=np.float32).reshape(4, 3), kind)
    np.testing.assert_array_equal(looped(values, index), np.asarray(values, np.float32) * 2)


@pytest.mark.parametrize("source", ["int8", "uint8", "int32", "int64", "uint32"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int32", "int64", "uint16"])
@pytest.mark.parametrize("value", [0, 1, 127, 200, -1, 2**31 + 5])
def test_integers_are_cast_as_numpy_does(source, target, value):
    given = np.array(value).astype(source)
    with tg.Graph().as_default() as graph:
        x = tg.placeholder(source, [])
        y = tg.cast(x, target) + tg.cast(0, target)
    with tg.SyncSession(graph) as session:
        assert session.run(y, {x: given}) == given.astype(target)


@pytest.mark.parametrize("shape", [(4, 3, 2), (300, 40, 30), (3, 0, 2), (0, 2, 2), (3, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_elements_of_any_layout_are_stacked(kind, shape):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", shape)
        array = tg.TensorArray("float32", shape[0], element_shape=shape[1:]).unstack(x)
        y = array.stack()
    with tg.SyncSession(graph) as session:
        np.testing.assert_array_equal(session.run(y, {x: odd(values, kind)}), values)


def test_an_array_with_a_special_element_is_stacked_by_its_own_rules():
    with tg.Graph().as_default() as graph:
        array = tg.TensorArray("float32", 3, element_shape=[2], clear_after_read=False).write(1, [1.0, 2.0])
        y = array.stack()
    with tg.SyncSession(graph) as session:
        np.testing.assert_array_equal(session.run(y), [[0, 0], [1, 2], [0, 0]])


@pytest.mark.parametrize("rows", [0, 1, 4, 300, 600, 1100])
@pytest.mark.parametrize("kind", KINDS)
def test_products_of_odd_rows_are_gathered(kind, rows):
    values = np.random.default_rng(0).standard_normal((5, rows, 32)).astype(np.float32)
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", values.shape)
        source = tg.TensorArray("float32", 5, clear_after_read=False).unstack(x)

        def body(i, total):
            return i + 1, total + tg.matmul(source.read(i), source.read(i), transpose_a=True)

        total = tg.while_loop(lambda i, _: i < 5, body, [0, tg.ones([32, 32])])[1]
    trace = tg.Trace()

    async def main():
        async with tg.Session(graph, settings=replace(ON, merge=False)) as session:
            return await session.run(total, {x: odd(values, kind)}, trace=trace)

    np.testing.assert_allclose(asyncio.run(main()), 1 + np.einsum("tbi,tbj->ij", values, values), rtol=1e-4, atol=1e-4)
    assert {"ProductSumBegin", "ProductSumAdd", "ProductSumEnd"} <= {span.type for span in trace.spans}


def reads(start, end):
    """Return what reads elements in a loop."""

    def use(array):
        body = lambda t, total: (t + 1, total + array.read(t))  # noqa: E731
        return tg.while_loop(lambda t, _: t < end, body, [start, tg.zeros([2])])[1]

    return use


def stack(array):
    return array.stack()


def in_turn(array, *uses):
    """Return the results of uses of an array, each of which waits for the one before."""
    results = []
    for use in uses:
        with tg.control_dependencies(results[-1:]):
            results.append(use(array))
    return results


def unstacked(x, **options):
    return tg.TensorArray("float32", 4, **options).unstack(x)


def written(start, end, array=None, **options):
    """Return an array to which a loop writes."""
    array = tg.TensorArray("float32", 4, **options) if array is None else array
    body = lambda t, a: (t + 1, a.write(t, tg.fill([2], tg.cast(t, "float32"))))  # noqa: E731
    return tg.while_loop(lambda t, _: t < end, body, [start, array])[1]


def grown(count):
    return written(0, count, tg.TensorArray("float32", 0, dynamic_size=True))


ROWS = {
    "read": lambda x: in_turn(unstacked(x), reads(0, 4)),
    "read_and_stacked": lambda x: in_turn(unstacked(x, clear_after_read=False), reads(0, 4), stack),
    "cleared_and_read": lambda x: in_turn(unstacked(x), reads(0, 3), lambda a: a.read(1)),
    "cleared_and_left": lambda x: in_turn(unstacked(x), reads(0, 3), lambda a: a.read(3)),
    "cleared_and_stacked": lambda x: in_turn(unstacked(x), reads(1, 3), stack),
    "two_readers": lambda x: in_turn(unstacked(x), reads(0, 2), reads(2, 4)),
    "two_readers_of_one": lambda x: in_turn(unstacked(x), reads(0, 2), reads(1, 4)),
    "written_and_stacked": lambda x: in_turn(written(0, 4), stack),
    "written_twice": lambda x: in_turn(written(2, 4, written(0, 2)), stack),
    "written_again": lambda x: in_turn(written(1, 4, written(0, 2)), stack),
    "unstacked_and_written": lambda x: in_turn(written(3, 4, unstacked(x)), stack),
    "some_missing": lambda x: in_turn(written(1, 4), stack),
    "missing_zeros": lambda x: in_turn(written(1, 4, element_shape=[2]), stack),
    "grown": lambda x: in_turn(grown(40), stack),
    "grown_and_written": lambda x: in_turn(grown(20).write(20, [3.0, 4.0]), stack),
    "written_and_read": lambda x: in_turn(written(0, 4), reads(0, 4)),
    "stacked_twice": lambda x: in_turn(written(0, 4, clear_after_read=False), stack, lambda a: a.stack() * 2.0),
    "cleared_by_stack": lambda x: in_turn(written(0, 4), stack, stack),
    "concatenated": lambda x: in_turn(written(0, 4), lambda a: a.concat()),
    "gathered": lambda x: in_turn(written(0, 4), lambda a: a.gather([2, 0])),
    "closed": lambda x: in_turn(unstacked(x), lambda a: a.close(), reads(0, 2)),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_loops_leave_are_elements_like_others(case):
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    found = []
    for settings in (ON, ON.without("llvm"), ON.without("straight"), ON.without("native")):
        with tg.Graph().as_default() as graph:
            x = tg.placeholder("float32", [4, 2])
            fetches = ROWS[case](x)
        with tg.SyncSession(graph, settings=settings) as session:
            try:
                results = session.run(fetches, {x: values})
            except TensorArrayError as error:
                found.append(str(error))
            else:
                found.append([np.asarray(r).tolist() for r in results])
    assert found[1:] == [found[0]] * (len(found) - 1)
