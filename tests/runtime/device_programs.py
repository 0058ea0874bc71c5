"""Programs for devices whose arrays are not NumPy's: each gives what to fetch, and what to feed."""

import asyncio

import numpy as np
import tagloom as tg

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
W = np.linspace(-0.5, 0.7, 9, dtype=np.float32).reshape(3, 3)


def fed(array, name=None):
    """Return a placeholder for arrays like one, and this."""
    return tg.placeholder(str(array.dtype), [None] * array.ndim, name=name), array


def elementwise():
    x, array = fed(X)
    return [tg.tanh(x) * 2.0 + tg.exp(-x), tg.matmul(x, W), tg.reduce_mean(x, 0), tg.cast(x > 0, "int32")], {x: array}


def branches():
    x, array = fed(X)
    index = tg.cast(tg.argmax(x[0], 0), "int32")
    big = tg.cond(tg.reduce_sum(x) > 100.0, lambda: x * 2.0, lambda: x - 1.0)
    return [big, tg.switch_case(index, {0: lambda: x, 1: lambda: x + 1.0}, lambda: x + 2.0)], {x: array}


def loop():
    x, array = fed(X)
    return tg.while_loop(lambda i, a: i < 7, lambda i, a: (i + 1, tg.sin(a) + x), [0, x]), {x: array}


def loop_until_small():
    x, array = fed(X)
    return tg.while_loop(lambda a: tg.reduce_max(tg.abs(a)) > 0.1, lambda a: (a * 0.7,), [x]), {x: array}


def nested_loops():
    x, array = fed(X)

    def outer(i, a):
        inner = tg.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b * 0.9 + x), [0, a])
        return i + 1, inner[1]

    return tg.while_loop(lambda i, a: i < 4, outer, [0, x]), {x: array}


def gradients():
    x, array = fed(X)
    y = tg.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tg.tanh(tg.matmul(a, W)) + x), [0, x])[1]
    (first,) = tg.gradients(tg.reduce_sum(y * y), [x])
    return [first, *tg.gradients(tg.reduce_sum(first * first), [x])], {x: array}


def gradients_of_branches():
    x, array = fed(X)

    def body(i, a):
        big = tg.reduce_sum(tg.abs(a)) > 6.0  # by more than rounding
        return i + 1, tg.cond(big, lambda: a * x, lambda: a + tg.sin(x))

    y = tg.while_loop(lambda i, a: i < 6, body, [0, x])[1]
    return tg.gradients(y, [x]), {x: array}


def tensor_arrays():
    x, array = fed(X)
    rows = tg.TensorArray("float32", 4).unstack(x)
    out = tg.TensorArray("float32", 4, clear_after_read=False)
    done = tg.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t.write(i, rows.read(3 - i) * 2.0)), [0, out])[1]
    return [done.stack(), done.concat(), *tg.gradients(done.stack() * x, [x])], {x: array}


def higher_order():
    x, array = fed(X)
    scanned = tg.scan(lambda a, row: a * 0.5 + row, x)
    return [scanned, tg.map_fn(tg.exp, x), *tg.gradients(scanned, [x])], {x: array}


def python_functions():
    x, array = fed(X)

    async def later(value):
        await asyncio.sleep(0)
        assert type(value) is np.ndarray
        return value + 1

    def body(i, a):
        return i + 1, tg.py_function(later, [a * 0.5], "float32", output_shapes=a.shape)

    return tg.while_loop(lambda i, a: i < 3, body, [0, x]), {x: array}


def random_numbers():
    x, array = fed(X)
    body = lambda i, a: (i + 1, a + tg.random_normal([4, 3], seed=3) * tg.random_uniform([], seed=4))  # noqa: E731
    return tg.while_loop(lambda i, a: i < 3, body, [0, x]), {x: array}


def shapes():
    x, array = fed(X)
    size = tg.shape(x)
    flat = tg.reshape(x, [size[0] * size[1]])
    return [flat, tg.zeros([size[1], size[0]]), tg.tile(x, [2, 1]), tg.gather(x, [2, 0]), tg.range(size[0])], {x: array}


def integers():
    ids, array = fed(np.arange(10, dtype=np.int64) % 4)
    table = tg.constant(X)
    rows = tg.gather(table, ids)
    (slices,) = tg.gradients(rows * rows, [table])
    return [rows, ids // 3, tg.one_hot(ids, 4), tg.convert_to_tensor(slices)], {ids: array}


def strings_and_bfloat16():
    x, array = fed(X)
    rough = tg.cast(tg.cast(x, "bfloat16") * 2, "float32")
    return [rough + x, tg.constant(["a", "b"]) + "c"], {x: array}


PROGRAMS = [
    elementwise,
    branches,
    loop,
    loop_until_small,
    nested_loops,
    gradients,
    gradients_of_branches,
    tensor_arrays,
    higher_order,
    python_functions,
    random_numbers,
    shapes,
    integers,
    strings_and_bfloat16,
]


def lstm(optimizer, steps=5, batch=4, units=3):
    """Return what trains an LSTM on a feed, its loss, and the feed."""
    x = tg.placeholder("float32", [steps, batch, units])
    w = tg.Variable(np.linspace(-1, 1, 8 * units**2, dtype=np.float32).reshape(-1, 4 * units), name="w")
    b = tg.Variable(np.zeros(4 * units, np.float32), name="b")
    rows = tg.TensorArray("float32", steps).unstack(x)

    def body(t, h, c):
        i, f, o, g = tg.split(tg.matmul(tg.concat([rows.read(t), h], 1), w) + b, 4, 1)
        c = tg.sigmoid(f) * c + tg.sigmoid(i) * tg.tanh(g)
        return t + 1, tg.sigmoid(o) * tg.tanh(c), c

    zeros = tg.zeros([batch, units])
    h = tg.while_loop(lambda t, h, c: t < steps, body, [0, zeros, zeros])[1]
    loss = tg.reduce_mean(tg.square(h - 0.5))
    return optimizer.minimize(loss), loss, x
