"""Gradients of loops that save much more than they work on."""

import numpy as np
import tagloom as tg

N = 1 << 12
SIZE = 4 * N  # bytes of the arrays here
TRIPS = 24


def plain(x, window=32, swap=None):
    """An iteration after the other, each with a few saved values."""

    def body(i, a):
        return i + 1, tg.tanh(a * x) + 0.1 * a

    options = {} if swap is None else {"swap_memory": swap}
    return tg.while_loop(lambda i, _: i < TRIPS, body, (0, x), parallel_iterations=window, **options)[1]


def nested(x, window=32):
    """A loop in each iteration."""

    def inner(j, b):
        return j + 1, tg.sin(b * x)

    def body(i, a):
        return i + 1, tg.while_loop(lambda j, _: j < i % 4 + 1, inner, (0, a), parallel_iterations=window)[1]

    return tg.while_loop(lambda i, _: i < TRIPS // 2, body, (0, x), parallel_iterations=window)[1]


def branching(x, window=32):
    """Something else in each third iteration."""

    def body(i, a):
        return i + 1, tg.cond(tg.equal(i % 3, 0), lambda: tg.exp(-a * a), lambda: tg.tanh(a * x))

    return tg.while_loop(lambda i, _: i < TRIPS, body, (0, x), parallel_iterations=window)[1]


def mapped(x, window=32):
    """Rows made from numbers, mapped, and added up."""
    rows = tg.map_fn(lambda k: tg.tanh(tg.sin(x * k) * x), numbers(), parallel_iterations=window)
    return tg.reduce_sum(rows, 0)


def scanned(x, window=32):
    """All states of a recurrence."""
    states = tg.scan(lambda a, k: tg.tanh(a * x * k), numbers(), x, parallel_iterations=window)
    return tg.reduce_sum(states * states, 0)


def rows(x, window=32):
    """A recurrence over the rows of what is fed, which are used up in place."""
    fed = tg.placeholder("float32", [TRIPS, N], name="rows")
    array = tg.TensorArray("float32", TRIPS).unstack(fed)

    def body(i, a):
        return i + 1, tg.exp(array.read(i)) * a

    return tg.while_loop(lambda i, _: i < TRIPS, body, (0, x), parallel_iterations=window)[1]


def written(x, window=32):
    """A loop that reads the elements which another one wrote."""
    array = tg.TensorArray("float32", TRIPS, clear_after_read=False)
    _, array = tg.while_loop(
        lambda i, _: i < TRIPS,
        lambda i, t: (i + 1, t.write(i, tg.sin(x * tg.cast(i, "float32")))),
        (0, array),
        parallel_iterations=window,
    )
    body = lambda i, a: (i + 1, tg.tanh(a * array.read(i)) + x)  # noqa: E731
    return tg.while_loop(lambda i, _: i < TRIPS, body, (0, x), parallel_iterations=window)[1]


def numbers():
    return tg.constant(np.linspace(0.5, 1.5, TRIPS, dtype=np.float32))


LOOPS = {each.__name__: each for each in (plain, nested, branching, mapped, scanned, rows, written)}


def gradient(loop, order=1, window=32, **options):
    """Return what to fetch for a loop's gradients of some order; the graph has a placeholder ``x``."""
    x = tg.placeholder("float32", [N], name="x")
    y = loop(x, window, **options)
    for _ in range(order):
        (y,) = tg.gradients(tg.reduce_sum(y * y), [x])
    return y


def feeds_of(graph):
    """Return values for the placeholders of a graph."""
    names = {op.name for op in graph.root.walk() if op.type == "Placeholder"}
    values = {"x": np.linspace(-1, 1, N, dtype=np.float32)}
    values["rows"] = np.sin(np.arange(TRIPS * N, dtype=np.float32)).reshape(TRIPS, N) * 0.1
    return {f"{name}:0": value for name, value in values.items() if name in names}
