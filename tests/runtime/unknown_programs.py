"""Ordinary loops over a batch whose size is unknown while they are built: ``program(x)`` of float64 ``[None, 8]``."""

import numpy as np
import tagloom as tg


class Weights:
    """Constants of a program, the same in each graph."""

    def __init__(self):
        self.random = np.random.default_rng(3)
        self.all = []

    def __call__(self, *shape):
        self.all.append(tg.constant(0.3 * self.random.standard_normal(shape)))
        return self.all[-1]


def repeat(body, x, times=4):
    """Return the value of ``x = body(i, x)`` after some iterations."""
    return tg.while_loop(lambda i, _: i < times, lambda i, h: (i + 1, body(i, h)), [0, x], name="loop")[1]


def batch_of(x):
    return tg.shape(x)[0]


def lstm(x, weights):
    kernel, bias = weights(16, 32), weights(32)

    def body(i, h, c):
        a, b, d, e = tg.split(tg.concat([x, h], 1) @ kernel + bias, 4, axis=1)
        c = tg.sigmoid(a) * c + tg.sigmoid(b) * tg.tanh(d)
        return i + 1, tg.sigmoid(e) * tg.tanh(c), c

    zero = tg.zeros(tg.stack([batch_of(x), 8]), "float64")
    return tg.while_loop(lambda i, *_: i < 4, body, [0, zero, zero], name="loop")[1]


def gru(x, weights):
    u, v = weights(8, 16), weights(8, 8)

    def body(_, h):
        gates = tg.sigmoid(h @ u)
        z, r = gates[:, :8], gates[:, 8:]
        return z * h + (1.0 - z) * tg.tanh((h * r) @ v)

    return repeat(body, x)


def attention(x, weights):
    """Attend to a cache of shape [batch, time, units]."""
    q = weights(8, 8)
    cache = tg.expand_dims(x, 1) * weights(1, 3, 8)

    def body(_, h):
        scores = tg.softmax(tg.reduce_sum(cache * tg.expand_dims(h @ q, 1), 2))
        return 0.5 * h + tg.reduce_sum(cache * tg.expand_dims(scores, 2), 1)

    return repeat(body, x)


def among_rows(x, weights):
    q = weights(8, 8)
    return repeat(lambda _, h: h + tg.softmax(tg.matmul(h @ q, x, transpose_b=True)) @ x, x)


def softmax_layer(x, weights):
    w = weights(8, 8)
    return repeat(lambda _, h: h + tg.softmax(h @ w) - tg.log_softmax(h), x)


def cumulative(x, weights):
    def body(_, h):
        return tg.sin(tg.cumsum(h, axis=1) * 0.2) + tg.cumsum(h, axis=0, exclusive=True) * 0.01

    return repeat(body, x)


def gathered(x, weights):
    w = weights(8, 8)
    order = tg.range(batch_of(x))[::-1]

    def body(_, h):
        return tg.tanh(tg.gather(h, order) @ w) + 0.3 * tg.gather(h, [7, 0, 3, 3, 2, 1, 5, 6], axis=1)

    return repeat(body, x)


def normalised(x, weights):
    scale = weights(8)

    def body(_, h):
        mean = tg.reduce_mean(h, axis=1, keepdims=True)
        variance = tg.reduce_mean(tg.square(h - mean), axis=1, keepdims=True)
        h = (h - mean) * tg.rsqrt(variance + 1e-3) * scale
        return h - tg.reduce_mean(h, axis=0) + 0.1 * tg.reduce_mean(h)

    return repeat(body, x)


def convolution(x, weights):
    k = weights(3, 3, 1, 2)

    def body(_, h):
        y = tg.relu(tg.conv2d(tg.reshape(h, [-1, 2, 4, 1]), k, [1, 1, 1, 1], "SAME"))
        y = tg.max_pool(y, [1, 2, 2, 1], [1, 1, 1, 1], "SAME")
        return 0.5 * h + tg.reshape(tg.reduce_sum(y, 3), [batch_of(h), 8])

    return repeat(body, x)


def pieces(x, weights):
    w = weights(24, 8)

    def body(_, h):
        left, right = tg.split(h, 2, axis=1)
        joined = tg.concat([right, left, tg.zeros_like(h), h], 1)
        return tg.tanh(joined @ w) + 0.2 * tg.concat([h[1:], h[:1]], 0)

    return repeat(body, x)


def chain(x, weights):
    a, b = weights(8, 8), weights(8, 8)
    return repeat(lambda _, h: tg.tanh(h @ a) @ b + tg.transpose(tg.transpose(h)) * 0.5, x)


def padded(x, weights):
    def body(_, h):
        wide = tg.pad(h, [[0, 0], [1, 1]])
        filled = tg.fill(tg.shape(h), tg.constant(0.01, "float64"))
        return tg.sin(wide[:, 2:] + wide[:, :-2]) + tg.tile(h[:, :2], [1, 4]) * 0.1 + filled

    return repeat(body, x)


def broadcast(x, weights):
    b = weights(8)

    def body(_, h):
        highest = tg.broadcast_to(tg.reduce_max(h, axis=1, keepdims=True), tg.shape(h))
        return tg.where(h > 0.0, h * b, highest * 0.1)

    return repeat(body, x)


def branches(x, weights):
    w, b = weights(8, 8), weights(8)

    def body(i, h):
        even = tg.equal(i % 2, 0)
        return tg.cond(even, lambda: tg.tanh(h @ w + b), lambda: h - tg.reduce_mean(h, 1, keepdims=True) * b)

    return repeat(body, x)


def losses(x, weights):
    w = weights(8, 5)
    labels = tg.range(batch_of(x)) % 5

    def body(i, h, total):
        loss = tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h @ w)
        return i + 1, tg.tanh(h) * 0.9, total + tg.reduce_mean(loss)

    return tg.while_loop(lambda i, *_: i < 4, body, [0, x, tg.constant(0.0, "float64")], name="loop")[2]


def segments(x, weights):
    def body(_, h):
        ids = tg.range(batch_of(h)) % 2
        return tg.sin(h) + tg.gather(tg.unsorted_segment_sum(h, ids, 2), ids) * 0.1

    return repeat(body, x)


def scanned(x, weights):
    w = weights(8, 8)
    return tg.scan(lambda h, row: tg.tanh((tg.expand_dims(h, 0) @ w)[0] + row), x, tg.zeros([8], "float64"))


NATIVE = {
    function.__name__: function
    for function in (
        *(lstm, gru, attention, among_rows, softmax_layer, cumulative, gathered, normalised, convolution, pieces),
        *(chain, padded, broadcast, branches, losses, segments, scanned),
    )
}


def growing(x, weights):
    """Return rows whose number grows by one in each iteration."""
    shapes = [tg.Shape([]), tg.Shape([None, 8])]
    body = lambda i, h: (i + 1, tg.concat([tg.sin(h), h[:1]], 0))  # noqa: E731
    return tg.while_loop(lambda i, _: i < 3, body, [0, x], shape_invariants=shapes, name="loop")[1]


def growing_inside(x, weights):
    """Keep the variables' shapes, around a value of more rows in each iteration."""
    return repeat(lambda i, h: h + tg.reduce_sum(tg.sin(x[: i + 1] * h[0]), 0), x, 3)


CHANGING = {function.__name__: function for function in (growing, growing_inside)}
