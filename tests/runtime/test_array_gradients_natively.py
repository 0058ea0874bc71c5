"""Gradients of TensorArrays in loops: native, with the bits of the step machine, at the first and the second order."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.runtime.array_programs import COUNT, ONES, PROGRAMS, ROWS, below, hub, rows, tree
from tests.support.settings import ON

PLAIN = replace(ON, straight=False)
NATIVE = {"walk": replace(ON, llvm=False), "llvm": ON, "no workers": replace(ON, workers=0, reuse=False)}


def with_gradients(make, orders, **loop):
    """Return feeds, and the ys of a program with their gradients up to an order."""
    feeds, ys, xs = make(**loop)
    found = list(ys)
    for _ in range(orders):
        ys = tg.gradients([tg.reduce_sum(tg.square(y)) for y in ys], xs)
        found += ys
    return feeds, found


async def run(graph, fetches, feeds, settings=ON, **options):
    """Return what a second run gives, and the loops of the report."""
    async with tg.Session(graph, settings=settings, **options) as session:
        for _ in range(2):
            found = await session.run(fetches, feeds)
        return found, session.report().loops


def assert_native(loops):
    assert [(loop.name, loop.not_native) for loop in loops if loop.limited_by != "native"] == []


def assert_same_bits(found, wanted):
    assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted]


@pytest.mark.parametrize("name", PROGRAMS)
async def test_bits_are_those_of_the_step_machine(graph, name):
    feeds, fetches = with_gradients(PROGRAMS[name], 2)
    wanted, _ = await run(graph, fetches, feeds, PLAIN)
    for settings in NATIVE.values():
        found, loops = await run(graph, fetches, feeds, settings)
        assert_native(loops)
        assert_same_bits(found, wanted)


@pytest.mark.sampled(every=13)
@pytest.mark.parametrize("parallel_iterations", [1, 32])
@pytest.mark.parametrize("options", [{}, {"memory_limit": "4MiB"}, {"devices": ["/cpu:0", "/cpu:1"]}], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
async def test_windows_limits_and_devices_change_no_bit(graph, name, options, parallel_iterations):
    feeds, fetches = with_gradients(PROGRAMS[name], 2, parallel_iterations=parallel_iterations)
    wanted, _ = await run(graph, fetches, feeds, PLAIN, **options)
    found, loops = await run(graph, fetches, feeds, **options)
    assert_native(loops)
    assert_same_bits(found, wanted)


@pytest.mark.parametrize("name", ["reads", "tree", "nested", "hub"])
async def test_third_order(graph, name):
    feeds, fetches = with_gradients(PROGRAMS[name], 3)
    wanted, _ = await run(graph, fetches, feeds, PLAIN)
    found, loops = await run(graph, fetches, feeds)
    assert_native(loops)
    assert_same_bits(found, wanted)


async def test_gradients_are_those_of_a_program_without_arrays(graph):
    feeds, found = with_gradients(tree, 2)
    x = next(iter(feeds))
    nodes = []
    for i, (a, b) in enumerate([(-1, -1), (-1, -1), (0, 1), (-1, -1), (2, 3), (1, 1), (4, 5)]):
        nodes.append(tg.sin(x[i]) if a < 0 else tg.tanh(nodes[a] * x[i] + nodes[b]))
    wanted = [nodes[-1]]
    for _ in range(2):
        wanted += tg.gradients(tg.reduce_sum(tg.square(wanted[-1])), [x])
    values, loops = await run(graph, [*found, *wanted], feeds)
    assert_native(loops)
    for ours, theirs in zip(values[:3], values[3:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128"])
async def test_dtypes(graph, dtype):
    x = tg.placeholder(dtype, [COUNT, 5])
    source = tg.TensorArray(dtype, COUNT, clear_after_read=False).unstack(x)

    def body(i, s):
        return i + 1, s * source.read(0) + source.read(i) * source.read(i // 2)

    y = tg.while_loop(below(COUNT), body, [0, tg.ones([5], dtype)])[1]
    fetches = [y, *tg.gradients(y, [x])]
    feeds = {x: np.random.default_rng(1).standard_normal((COUNT, 5)).astype(dtype)}
    wanted, _ = await run(graph, fetches, feeds, PLAIN)
    found, loops = await run(graph, fetches, feeds)
    assert_native(loops)
    assert_same_bits(found, wanted)


# ---- the order of sums


def many_addends(count, width):
    """Return a placeholder, and a loop whose reads of a few elements add up, with its gradient."""
    x = tg.placeholder("float32", [4, width])
    source = tg.TensorArray("float32", 4, clear_after_read=False).unstack(x)

    def body(i, s, t):
        a, b = source.read(i % 4), source.read((i // 3) % 4)
        return i + 1, tg.tanh(s * a + b), t + tg.sin(source.read(0) * a)

    zeros = tg.zeros([width], "float32")
    _, s, t = tg.while_loop(below(count), body, [0, zeros, zeros], name="loop")
    return x, [s * t, *tg.gradients(s * t, [x])]


@pytest.mark.parametrize("workers", [0, 2])
async def test_sums_do_not_depend_on_who_comes_first(graph, workers):
    x, fetches = many_addends(60, 50)
    feeds = {x: np.random.default_rng(2).standard_normal((4, 50)).astype("f")}
    wanted, _ = await run(graph, fetches, feeds)
    for window in (PLAIN, replace(PLAIN, workers=workers), replace(PLAIN, fuse=False)):
        found, _ = await run(graph, fetches, feeds, window)
        assert_same_bits(found, wanted)


async def test_writes_that_meet_each_element_once_keep_no_order(graph):
    x = rows()
    source = tg.TensorArray("float64", COUNT).unstack(x)
    y = tg.while_loop(below(COUNT), lambda i, s: (i + 1, tg.sin(s * source.read(i))), [0, ONES])[1]
    gradient = tg.gradients(y, [x])
    async with tg.Session(graph) as session:
        assert "/order" not in session.make_step(gradient, [x]).to_text()
    other, fetches = many_addends(9, 3)
    async with tg.Session(graph) as session:
        assert "/order" in session.make_step(fetches, [other]).to_text()


async def test_loops_beside_each_other_add_to_one_array(graph):
    """Both take several slices, so that each finds the sums of the other."""
    count = 20_000
    x = tg.placeholder("float64", [count, 3])
    source = tg.TensorArray("float64", count, clear_after_read=False).unstack(x)

    def looped(index):
        return tg.while_loop(below(count), lambda i, s: (i + 1, tg.sin(s + source.read(index(i)) * 0.5)), [0, ONES])[1]

    y = looped(lambda i: i) * looped(lambda i: count - 1 - i)
    fetches = [y, *tg.gradients(y, [x])]
    feeds = {x: np.random.default_rng(3).standard_normal((count, 3))}
    wanted, _ = await run(graph, fetches, feeds, PLAIN)
    found, loops = await run(graph, fetches, feeds, replace(ON, llvm=False))
    assert_native(loops)
    assert_same_bits(found, wanted)


# ---- rules and errors


def unwritten(x):
    """Reads an element whose shape nobody knows."""
    out = tg.TensorArray("float64", 9, infer_shape=False).write(0, x[0])
    return tg.while_loop(below(3), lambda i, s: (i + 1, s + tg.reduce_sum(out.read(i))), [0, x[0, 0]])[1]


def twice(x):
    out = tg.TensorArray("float64", 9)
    return tg.while_loop(below(3), lambda i, out: (i + 1, out.write(i // 2, x[i])), [0, out])[1].stack()


def read_again(x):
    source = tg.TensorArray("float64", COUNT).unstack(x)
    return tg.while_loop(below(3), lambda i, s: (i + 1, s + source.read(i // 2)), [0, ONES])[1]


def out_of_range(x):
    source = tg.TensorArray("float64", COUNT).unstack(x)
    return tg.while_loop(below(9), lambda i, s: (i + 1, s + source.read(i)), [0, ONES])[1]


def behind_the_end(x):
    """Reads behind the elements of an array that grows by writes alone, though there is room."""
    out = tg.TensorArray("float64", 0, dynamic_size=True, element_shape=[3], clear_after_read=False).write(1, x[0])
    return tg.while_loop(below(6), lambda i, s: (i + 1, s + out.read(i + 1)), [0, ONES])[1]


def too_many_rows(x):
    def body(i, s):
        made = tg.TensorArray("float64", tg.maximum(i, COUNT - 1))  # a size that no one knows before
        return i + 1, s + made.unstack(x * s).read(0)

    return tg.while_loop(below(3), body, [0, ONES])[1]


def scattered_twice(x):
    out = tg.TensorArray("float64", 9)
    return tg.while_loop(below(3), lambda i, out: (i + 1, out.scatter(tg.stack([2 * i, i + 1]), x[:2])), [0, out])[
        1
    ].stack()


FAILING = [unwritten, twice, read_again, out_of_range, behind_the_end, too_many_rows, scattered_twice]


@pytest.mark.parametrize("make", FAILING, ids=lambda make: make.__name__)
async def test_errors_are_those_of_the_step_machine(graph, make):
    x = rows()
    y = make(x)
    fetches = [y, *tg.gradients(y, [x])]
    messages = []
    for settings in (PLAIN, ON, replace(ON, llvm=False)):
        async with tg.Session(graph, settings=settings) as session:
            for _ in range(2):
                with pytest.raises(tg.TensorArrayError) as caught:
                    await session.run(fetches, {x: ROWS})
                messages.append(str(caught.value).partition("\n  at ")[0])
    assert len(set(messages)) == 1


async def test_an_array_is_used_after_a_native_loop_as_after_any_other(graph):
    """Reads by the loop are noted: an element that was read as zeros cannot be written."""
    x = rows()
    source = tg.TensorArray("float64", COUNT, element_shape=[3], clear_after_read=False)
    y = tg.while_loop(below(COUNT), lambda i, s: (i + 1, s + source.read(i)), [0, ONES], name="loop")[1]
    with tg.control_dependencies([y]):
        late = source.write(2, x[0]).read(2)
    for settings in (PLAIN, ON):
        async with tg.Session(graph, settings=settings) as session:
            assert (await session.run(y)).tolist() == [1.0, 1.0, 1.0]
            with pytest.raises(tg.TensorArrayError, match="has already been read"):
                await session.run(late, {x: ROWS})


async def test_zeros_of_another_shape_are_left_to_the_step_machine(graph):
    """The elements differ in shape, so that there are no rows."""
    x = tg.placeholder("float64", [None])
    source = tg.TensorArray("float64", 2, infer_shape=False, clear_after_read=False).write(0, x).write(1, x[:1])
    y = tg.while_loop(below(2), lambda i, s: (i + 1, s + tg.reduce_sum(tg.square(source.read(i)))), [0, x[0]])[1]
    fetches = [y, *tg.gradients(y, [x])]
    found, _ = await run(graph, fetches, {x: ROWS[0]})
    wanted, _ = await run(graph, fetches, {x: ROWS[0]}, PLAIN)
    assert_same_bits(found, wanted)


async def test_an_array_saved_for_another_use_is_not_native(graph):
    """A second gradient, of a loop with an array that each iteration makes, saves no handle."""
    feeds, fetches = with_gradients(PROGRAMS["made_in_the_body"], 1)
    async with tg.Session(graph, settings=PLAIN) as session:
        text = session.make_step(fetches, list(feeds)).to_text()
    assert "TensorArrayGrad" not in text


async def test_the_loop_of_a_hub_is_parallel_in_all_but_its_sums(graph):
    feeds, fetches = with_gradients(hub, 1, parallel_iterations=1)
    wanted, _ = await run(graph, fetches, feeds, PLAIN)
    with graph.as_default():
        others, more = with_gradients(hub, 1, parallel_iterations=32)
    found, _ = await run(graph, more, others, PLAIN)
    assert_same_bits(found, wanted)
