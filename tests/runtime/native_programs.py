"""Programs with loops that are native: each gives what to fetch, and what to feed."""

import numpy as np
import tagloom as tg

F32, F64 = np.float32, np.float64


def below(n):
    return lambda i, *_: i < n


def counter():
    return [tg.while_loop(below(1000), lambda i: i + 1, [0])], {}


def product():
    a, w = tg.placeholder("float32", [2, 2]), tg.placeholder("float32", [2, 2])
    feeds = {a: np.array([[1, 2], [3, 4]], F32), w: np.array([[0.6, 0.8], [-0.8, 0.6]], F32)}
    return tg.while_loop(below(50), lambda i, x: (i + 1, x @ w), [0, a]), feeds


def branches():
    def body(n, steps):
        return tg.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), steps + 1

    n = tg.placeholder("int64", [])
    return tg.while_loop(lambda n, _: n != 1, body, [n, 0]), {n: np.int64(27)}


def many_branches():
    def body(i, x):
        return i + 1, tg.switch_case(i % 5, [lambda: x + 1.0, lambda: x * 2.0, lambda: -x], default=lambda: x / 3.0)

    return tg.while_loop(below(20), body, [0, 1.5]), {}


def nested():
    def body(i, total):
        return i + 1, tg.while_loop(below(i), lambda j, t: (j + 1, t + i * j), [0, total])[1]

    return tg.while_loop(below(12), body, [0, 0]), {}


def swapped_variables():
    x, y = (tg.placeholder("float64", [3]) for _ in range(2))
    feeds = {x: np.arange(3.0), y: np.ones(3)}
    return tg.while_loop(below(7), lambda i, a, b, c: (i + 1, b, c, a + b), [0, x, y, x]), feeds


def unchanged_variable():
    x = tg.placeholder("float64", [3])
    return tg.while_loop(below(5), lambda i, a, b: (i + 1, a, tg.tanh(a) + b), [0, x, x]), {x: np.arange(3.0)}


def reductions_and_views():
    def body(i, x):
        columns = tg.reshape(tg.transpose(x), [2, 3, 2])
        mean = tg.reduce_mean(columns, axis=[0, 2], keepdims=True)
        return i + 1, tg.reshape(columns - mean, [4, 3]) + tg.reduce_max(x)

    x = tg.placeholder("float64", [4, 3])
    return tg.while_loop(below(6), body, [0, x]), {x: np.arange(12.0).reshape(4, 3) / 7}


def indices():
    def body(i, total, last):
        return i + 1, total + x[i] + x[-i - 1, 1:], tg.gather(x, i) * tg.gather(x, tg.zeros([1], "int32"))[0]

    x = tg.placeholder("float64", [5, 2])
    zeros = tg.zeros([2], "float64")
    return tg.while_loop(below(5), body, [0, zeros, zeros]), {x: np.arange(10.0).reshape(5, 2)}


def scalars_and_shapes():
    def body(i, x, s):
        size = tg.cast(tg.reduce_prod(tg.shape(x)), "float64")
        return i + 1, tg.fill([3], s) + x * size, tg.sigmoid(s) + x[1]

    x = tg.placeholder("float64", [3])
    return tg.while_loop(below(4), body, [0, x, tg.constant(0.5, "float64")]), {x: np.arange(3.0)}


def reading_and_writing():
    size = 6
    source = tg.TensorArray("float64", size).unstack(x := tg.placeholder("float64", [size, 2]))
    sums = tg.TensorArray("float64", size, clear_after_read=False, element_shape=[2])

    def body(i, sums):
        before = tg.cond(i > 0, lambda: sums.read(tg.maximum(i - 1, 0)), lambda: tg.zeros([2], "float64"))
        return i + 1, sums.write(i, before + source.read(i))

    return [tg.while_loop(below(size), body, [0, sums])[1].stack()], {x: np.arange(12.0).reshape(size, 2)}


def growing():
    def body(i, y, elements):
        return i + 1, y * 1.5, elements.write(i, tg.zeros([2], "float64") + y)

    elements = tg.TensorArray("float64", 0, dynamic_size=True, element_shape=[2])
    _, y, elements = tg.while_loop(lambda i, y, _: y < 1e6, body, [0, x := tg.placeholder("float64", []), elements])
    return [y, elements.stack()], {x: F64(1.0)}


def sum_of_one_product_more_than_the_limit():
    x, w = tg.placeholder("float64", [40, 4]), tg.placeholder("float64", [4, 4])
    y = tg.while_loop(lambda i, _: i <= 3, lambda i, a: (i + 1, tg.tanh(a @ w)), [0, x])[1]
    feeds = {x: np.arange(160.0).reshape(40, 4) / 160, w: np.arange(16.0).reshape(4, 4) / 16 - 0.4}
    return [y, *tg.gradients(tg.reduce_sum(y), [x, w])], feeds


def gradient():
    a, w = tg.placeholder("float64", [2, 2]), tg.placeholder("float64", [2, 2])
    y = tg.while_loop(below(9), lambda i, x: (i + 1, tg.tanh(x @ w)), [0, a])[1]
    feeds = {a: np.array([[1.0, 2], [3, 4]]), w: np.array([[0.6, 0.8], [-0.8, 0.6]])}
    return [y, *tg.gradients(tg.reduce_sum(y * y), [a, w])], feeds


def gradient_of_branches():
    x = tg.placeholder("float64", [])

    def body(i, y):
        return i + 1, tg.cond(i % 3 == 0, lambda: tg.sin(y) * x, lambda: tg.cos(y) + x)

    y = tg.while_loop(below(10), body, [0, x])[1]
    first = tg.gradients(y, [x])[0]
    return [y, first, tg.gradients(first, [x])[0]], {x: F64(0.9)}


def gradient_of_a_length_that_depends_on_data():
    x = tg.placeholder("float64", [])
    y = tg.while_loop(lambda y: y < 500.0, lambda y: y * 1.01 + tg.sqrt(y), [x])
    return [y, *tg.gradients(y, [x])], {x: F64(1.0)}


def gradient_of_nested():
    x = tg.placeholder("float64", [2])

    def body(i, y):
        return i + 1, tg.while_loop(below(3), lambda j, z: (j + 1, tg.sin(z) * x), [0, y])[1]

    y = tg.while_loop(below(4), body, [0, x])[1]
    return [y, *tg.gradients(tg.reduce_sum(y), [x])], {x: np.array([0.5, 0.9])}


def gradient_of_what_an_inner_loop_reads():
    def body(i, y):
        h = tg.sin(y)
        z = tg.while_loop(below(6), lambda j, z: (j + 1, z * h + z), [0, y])[1]
        return i + 1, z * 0.02 + h

    x = tg.placeholder("float64", [])
    y = tg.while_loop(below(7), body, [0, x])[1]
    return [y, *tg.gradients(y, [x])], {x: F64(0.4)}


def gradient_of_wide_products():
    x, w, u = (tg.placeholder("float32", shape) for shape in ([64, 1024], [1024, 16], [16, 1024]))
    y = tg.while_loop(below(9), lambda i, a: (i + 1, tg.tanh(a @ w) @ u), [0, x])[1]
    random = np.random.default_rng(0)
    feeds = {each: (random.standard_normal(each.shape) / 30).astype(F32) for each in (x, w, u)}
    return [y, *tg.gradients(tg.reduce_sum(y), [w, u])], feeds


def gradient_of_small_products():
    x, w, u = (tg.placeholder("float32", shape) for shape in ([3, 2], [2, 4], [4, 2]))
    y = tg.while_loop(below(9), lambda i, a: (i + 1, tg.tanh(a @ w) @ u), [0, x])[1]
    random = np.random.default_rng(0)
    feeds = {each: random.standard_normal(each.shape).astype(F32) for each in (x, w, u)}
    return [y, *tg.gradients(tg.reduce_sum(y), [x, w, u])], feeds


def swapped_elements_of_which_one_is_seen_as_an_array():
    def body(i, a, b, v):
        return i + 1, b, a, tg.where(tg.fill([1], True), tg.reshape(a, [1]), v)

    a, b, v = (tg.placeholder("float32", shape) for shape in ([], [], [1]))
    return tg.while_loop(below(5), body, [0, a, b, v]), {a: F32(1.5), b: F32(2.5), v: np.zeros(1, F32)}


def scanned():
    x = tg.placeholder("float64", [8, 2])
    y = tg.scan(lambda a, e: tg.tanh(a + e), x, tg.zeros([2], "float64"))
    return [y, *tg.gradients(tg.reduce_sum(y * y), [x])], {x: np.arange(16.0).reshape(8, 2) / 9}


PROGRAMS = (
    counter,
    product,
    branches,
    many_branches,
    nested,
    swapped_variables,
    unchanged_variable,
    reductions_and_views,
    indices,
    scalars_and_shapes,
    reading_and_writing,
    growing,
    sum_of_one_product_more_than_the_limit,
    gradient,
    gradient_of_branches,
    gradient_of_a_length_that_depends_on_data,
    gradient_of_nested,
    gradient_of_what_an_inner_loop_reads,
    gradient_of_wide_products,
    gradient_of_small_products,
    swapped_elements_of_which_one_is_seen_as_an_array,
    scanned,
)
