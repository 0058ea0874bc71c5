"""Long rows of series and TensorArrays are seen where they lie: nothing is copied, and nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.native.jit import compilation

from tests.support.settings import ON

WIDE = 80  # float64: more bytes than a value of compiled code has


def below(n):
    return lambda i, *_: i < n


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, WIDE))


def cell():
    """What is saved comes from one fused operation, a concatenation, and a product; the variables are saved too."""
    x, w = tg.placeholder("float64", [7, 2, WIDE]), tg.placeholder("float64", [2 * WIDE, 2 * WIDE])
    source, zeros = tg.TensorArray("float64", 7).unstack(x), np.zeros((2, WIDE))

    def body(i, h, c, out):
        gates = tg.sigmoid(tg.concat([source.read(i), h], 1) @ w)
        forget, new = tg.split(gates, 2, axis=1)
        c = forget * c + new
        return i + 1, tg.tanh(c), c, out.write(i, c)

    y = tg.while_loop(below(7), body, [0, zeros, zeros, tg.TensorArray("float64", 7)])[3].stack()
    feeds = {x: rows(14).reshape(7, 2, WIDE), w: rows(4 * WIDE, 1).reshape(2 * WIDE, 2 * WIDE) / 9}
    return [y, *tg.gradients(tg.reduce_sum(y * y), [x, w])], feeds


def second_order():
    x = tg.placeholder("float64", [WIDE])
    y = tg.while_loop(below(5), lambda i, y: (i + 1, tg.sin(y * x) + y), [0, x])[1]
    first = tg.gradients(tg.reduce_sum(y * y), [x])[0]
    return [y, first, *tg.gradients(tg.reduce_sum(first * first), [x])], {x: rows(1)[0]}


def branches():
    """What is saved is computed in one branch alone."""
    x = tg.placeholder("float64", [WIDE])

    def body(i, y):
        return i + 1, tg.cond(i % 3 == 0, lambda: tg.sin(y) * tg.exp(-y * y), lambda: tg.cos(y * x) + x)

    y = tg.while_loop(below(8), body, [0, x])[1]
    return [y, *tg.gradients(tg.reduce_sum(y), [x])], {x: rows(1)[0]}


def loops_in_a_loop():
    x = tg.placeholder("float64", [WIDE])

    def body(i, y):
        h = tg.sin(y)
        z = tg.while_loop(lambda j, z: j < 3, lambda j, z: (j + 1, tg.tanh(z * h) + tg.sin(z)), [0, y])[1]
        return i + 1, z + h

    y = tg.while_loop(below(4), body, [0, x])[1]
    return [y, *tg.gradients(tg.reduce_sum(y), [x])], {x: rows(1)[0]}


def a_length_that_depends_on_data():
    """Room is made for rows in the middle of an iteration."""
    x = tg.placeholder("float64", [WIDE])

    def body(y, z):
        z = tg.sin(z) * y
        return y * 1.01 + tg.sqrt(y), tg.tanh(z) + tg.sin(z * x)

    y = tg.while_loop(lambda y, z: y[0] < 500.0, body, [abs(x), x])[1]
    return [y, *tg.gradients(tg.reduce_sum(y), [x])], {x: rows(1)[0]}


def elements_that_are_read_again():
    """A row is read that the loop has just written, and those before stay what they were."""
    x = tg.placeholder("float64", [6, WIDE])
    array = tg.TensorArray("float64", 7, clear_after_read=False, element_shape=[WIDE])

    def body(i, array):
        last = array.read(i)
        array = array.write(i + 1, tg.sin(last) + x[i])
        return i + 1, array

    return [tg.while_loop(below(6), body, [0, array.write(0, x[0])])[1].stack()], {x: rows(6)}


def rows_that_are_returned():
    """The loop hands out what it read; the array keeps it."""
    x = tg.placeholder("float64", [6, WIDE])
    array = tg.TensorArray("float64", 6, clear_after_read=False).unstack(x)

    def body(i, last, total):
        row = array.read(i)
        return i + 1, row, total + row * last

    _, last, total = tg.while_loop(below(6), body, [0, np.zeros(WIDE), np.zeros(WIDE)])
    return [last, total, array.stack()], {x: rows(6)}


def a_sum_in_place():
    """A product is added to what a variable is, which is saved before and after."""
    a, w = tg.placeholder("float64", [4, WIDE]), tg.placeholder("float64", [WIDE, WIDE])

    def body(i, y):
        z = tg.tanh(y) @ w
        return i + 1, y + z @ w

    y = tg.while_loop(below(6), body, [0, a])[1]
    feeds = {a: rows(4), w: rows(WIDE, 2) / 20}
    return [y, *tg.gradients(tg.reduce_sum(y * y), [a, w])], feeds


def recurrent(body, n, seed=5):
    """Return the gradients of a loop with two matrices of weights."""
    x, w, u = (tg.placeholder("float64", shape) for shape in ([2, WIDE], [WIDE, WIDE], [WIDE, WIDE]))
    y = tg.while_loop(below(n), lambda i, y: (i + 1, body(i, y, w, u)), [0, x])[1]
    feeds = {x: rows(2), w: rows(WIDE, seed) / 20, u: rows(WIDE, seed + 1) / 20}
    return tg.gradients(tg.reduce_sum(y * y), [x, w, u]), feeds


def sums_that_are_multiplied_on_the_way():
    return recurrent(lambda i, y, w, u: tg.tanh(y @ w @ u), 600)


def sums_that_share_a_factor():
    return recurrent(lambda i, y, w, u: tg.tanh(y @ w + tg.sin(y) @ u), 7)


def sums_whose_first_factor_is_computed():
    """What the second one is was saved."""
    x, w = tg.placeholder("float64", [2, WIDE]), tg.placeholder("float64", [WIDE, WIDE])
    y = tg.while_loop(below(7), lambda i, y: (i + 1, tg.tanh(tg.matmul(y, w, transpose_b=True))), [0, x])[1]
    return tg.gradients(tg.reduce_sum(y * y), [x, w]), {x: rows(2), w: rows(WIDE, 5) / 9}


def a_sum_in_a_branch():
    return recurrent(lambda i, y, w, u: tg.cond(i % 3 == 1, lambda: tg.tanh(y @ w), lambda: tg.sin(y @ u)), 11)


def a_sum_of_what_is_used_afterwards():
    """The rows of a forward sum are added up too, behind the product."""
    x, w = tg.placeholder("float64", [2, WIDE]), tg.placeholder("float64", [WIDE, WIDE])

    def body(i, y, total, last):
        z = tg.tanh(y @ w)
        return i + 1, z * 0.5 + y, total + tg.matmul(y, z, transpose_a=True), last + z

    return tg.while_loop(below(6), body, [0, x, tg.zeros_like(w), x])[1:], {x: rows(2), w: rows(WIDE, 3) / 20}


def a_sum_of_squares():
    """Both factors are the same rows."""
    x, w = tg.placeholder("float64", [2, WIDE]), tg.placeholder("float64", [WIDE, WIDE])

    def body(i, y, total):
        z = tg.tanh(y @ w)
        return i + 1, y * 0.5 + z, total + tg.matmul(z, z, transpose_a=True)

    return tg.while_loop(below(6), body, [0, x, tg.zeros_like(w)])[1:], {x: rows(2), w: rows(WIDE, 3) / 20}


def rows_by_index():
    """Rows of what stays the same; of what changes they are copied, and so is what does not lie in order."""
    x, table = tg.placeholder("float64", [6, 2, WIDE]), tg.placeholder("float64", [4, WIDE])

    def body(i, y, z):
        y = tg.sin(x[i, 1] + tg.gather(table, i % 4)) * x[5 - i, i % 2] + y
        return i + 1, y + table[-1], z[::-1] + tg.concat([y[None], z[i % 3][None], x[i, :1, ::-1]], 0)

    y, z = tg.while_loop(below(6), body, [0, np.zeros(WIDE), np.zeros((3, WIDE))])[1:]
    return [y, z], {x: rows(12).reshape(6, 2, WIDE), table: rows(4, 1)}


def rows_that_become_variables():
    x = tg.placeholder("float64", [5, WIDE])

    def body(i, y, last):
        return i + 1, y * x[i] + last, x[i]

    return tg.while_loop(below(5), body, [0, x[0], x[1]])[1:], {x: rows(5)}


def variables_that_change_places():
    """An odd and an even number of times, in loops within a loop, in branches, and with each other."""
    x, w = tg.placeholder("float64", [2, WIDE]), tg.placeholder("float64", [WIDE, WIDE])

    def inner(y, n):
        return tg.while_loop(lambda j, z: j < n, lambda j, z: (j + 1, tg.tanh(z @ w) + z), [0, y])[1]

    def body(i, y, z, u, v):
        y, z = inner(z, i), inner(y, 2) + y
        return i + 1, tg.cond(i % 2 == 0, lambda: y @ w, lambda: tg.sin(y)), z, v, tg.sin(u) @ w + u

    found = tg.while_loop(below(5), body, [0, x, x + 1.0, x, x * 0.5])[1:]
    more = tg.reshape(found[0], [WIDE, 2]), found[1][:, ::2], inner(found[2], 3)
    loss = tg.add_n([tg.reduce_sum(each * each) for each in found])
    return [*found, *more, *tg.gradients(loss, [x])], {x: rows(2), w: rows(WIDE, 3) / 20}


def variables_that_are_seen_elsewhere():
    """The next values are fetched, written to arrays, and used in the iteration that follows."""
    x, w = tg.placeholder("float64", [2, WIDE]), tg.placeholder("float64", [WIDE, WIDE])

    def body(i, y, before, out):
        following = tg.tanh(y @ w) + y
        return i + 1, following, following * 2.0 + before, out.write(i, following)

    _, y, before, out = tg.while_loop(below(5), body, [0, x, x, tg.TensorArray("float64", 5)])
    return [y, before, out.stack()], {x: rows(2), w: rows(WIDE, 3) / 20}


PROGRAMS = (
    rows_by_index,
    rows_that_become_variables,
    variables_that_change_places,
    variables_that_are_seen_elsewhere,
    a_sum_of_squares,
    sums_that_are_multiplied_on_the_way,
    sums_that_share_a_factor,
    sums_whose_first_factor_is_computed,
    a_sum_in_a_branch,
    a_sum_of_what_is_used_afterwards,
    cell,
    second_order,
    branches,
    loops_in_a_loop,
    a_length_that_depends_on_data,
    elements_that_are_read_again,
    rows_that_are_returned,
    a_sum_in_place,
)


async def values(graph, fetches, feeds, settings):
    async with tg.Session(graph, settings=settings) as session:
        found = await session.run(fetches, feeds)
        assert {loop.limited_by == "native" for loop in session.report().loops} == {settings.straight}
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_the_same_values_as_on_the_step_machine(graph, program):
    fetches, feeds = program()
    wanted = await values(graph, fetches, feeds, replace(ON, straight=False))
    for settings in (ON, replace(ON, llvm=False), replace(ON, llvm=False, workers=0, reuse=False)):
        for one, other in zip(await values(graph, fetches, feeds, settings), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


async def test_what_was_saved_stays_when_a_loop_gives_up(graph):
    """The second loop reads rows, fails, and is done again on the step machine, which reads them too."""
    x, zero = tg.placeholder("float64", [WIDE]), tg.placeholder("int32", [])
    y = tg.while_loop(below(5), lambda i, y: (i + 1, tg.sin(y) + y * x), [0, x])[1]

    def backward(grad):
        return grad * tg.cast(7 // zero, "float64")

    @tg.custom_gradient
    def divided(y):
        return y * 2.0, backward

    z = tg.while_loop(below(5), lambda i, z: (i + 1, divided(tg.sin(z))), [0, y])[1]
    (gradient,) = tg.gradients(tg.reduce_sum(z), [x])
    feed = {x: rows(1)[0], zero: 0}
    async with tg.Session(graph, settings=ON) as session:
        with pytest.raises(tg.OpError, match="division by zero"):
            await session.run(gradient, feed)
        found = await session.run(gradient, feed | {zero: 7})
    wanted = await values(graph, gradient, feed | {zero: 7}, replace(ON, straight=False))
    np.testing.assert_array_equal(found, wanted)


async def test_a_row_out_of_range_is_an_error(graph):
    x, n = tg.placeholder("float64", [6, WIDE]), tg.placeholder("int32", [])
    y = tg.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y + x[i]), [0, np.zeros(WIDE)], name="rows")[1]
    async with tg.Session(graph, settings=ON) as session:
        with pytest.raises(tg.OpError, match=r"index 6 is out of bounds(.|\n)*rows/6"):
            await session.run(y, {x: rows(6), n: 8})
        np.testing.assert_allclose(await session.run(y, {x: rows(6), n: 6}), rows(6).sum(0))


async def steps_of(graph, fetches, feeds, monkeypatch):
    """Return the steps of each loop, by name."""
    pytest.importorskip("llvmlite")
    listed = {}

    class Noted(compilation.Compilation):
        def __init__(self, name, steps, layout):
            listed[name] = steps
            super().__init__(name, steps, layout)

    monkeypatch.setattr(compilation, "Compilation", Noted)
    await values(graph, fetches, feeds, replace(ON, llvm=True, llvm_seconds=0.0))
    return listed


def long_copies(steps):
    """Return the copies of long rows and variables in a loop."""
    moving = ("PUSH_ROW", "READ_ROW", "ADD_ROWS", "CALL")
    back = next(s.target for s in steps if s.code.name == "GO_BACK")
    copied = [s for s in steps[back:] if s.code.name == "COPY" and s.amount > 256]
    rows = [s for s in steps if s.code.name in moving and s.num_places is None and s.amount > 256]
    # Those that change places have the sizes of both, at operands 1 and 2.
    return [s.code.name for s in copied] + [s.code.name for s in rows if s.sizes[2] <= 8]


async def test_no_long_row_is_copied(graph, monkeypatch, fast_paths):
    listed = await steps_of(graph, *cell(), monkeypatch)
    copied = {name: long_copies(steps) for name, steps in listed.items()}
    # Variables that are rows of series or arrays: so are their next values. What is read there is added to.
    assert copied == {"while": ["COPY", "COPY", "PUSH_ROW"], "gradients/while_grad": ["CALL"]}


async def test_the_factor_that_is_computed_is_not_copied(graph, monkeypatch, fast_paths):
    listed = await steps_of(graph, *sums_whose_first_factor_is_computed(), monkeypatch)
    (gathers,) = [s for s in listed["gradients/while_grad"] if s.code.name == "ADD_ROWS"]
    assert gathers.num_places is not None


async def test_no_row_by_index_is_copied(graph, monkeypatch, fast_paths):
    x, w = tg.placeholder("float64", [6, 2, WIDE]), tg.placeholder("float64", [WIDE, WIDE])
    y = tg.while_loop(below(6), lambda i, y: (i + 1, y @ w + x[i] + tg.gather(x, 5 - i)), [0, np.zeros((2, WIDE))])[1]
    listed = await steps_of(graph, y, {x: rows(12).reshape(6, 2, WIDE), w: rows(WIDE)}, monkeypatch)
    assert {name: long_copies(steps) for name, steps in listed.items()} == {"while": []}
