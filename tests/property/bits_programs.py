"""Programs of all kinds for `bits.py`: each builds results and gradients, and returns them with feeds."""

from __future__ import annotations

import numpy as np
import tagloom as tg


def _draw(tensor, number, scale=1.0):
    drawn = np.random.default_rng(number).standard_normal(tensor.shape.as_tuple()) * scale
    return drawn.astype(tensor.dtype.numpy)


def _feeds(*inputs):
    """Return feeds for placeholders, each with the scale of its numbers."""
    return {tensor: _draw(tensor, k, scale) for k, (tensor, scale) in enumerate(inputs)}


def _loop(count, body, start, how):
    return tg.while_loop(lambda i, *_: i < count, body, [0, *start], **how)[1:]


def lstm(batch, units, dtype="float32", length=12, joined=True):
    """Make an LSTM whose product is of inputs and state together, or the sum of two products."""

    def make(**how):
        x, w, b = (tg.placeholder(dtype, s) for s in ([length, batch, units], [2 * units, 4 * units], [4 * units]))
        rows = tg.TensorArray(dtype, length, clear_after_read=False).unstack(x)

        def body(t, h, c, loss):
            row = rows.read(t)
            product = tg.concat([row, h], 1) @ w if joined else row @ w[:units] + h @ w[units:]
            i, j, f, o = tg.split(product + b, 4, axis=1)
            c = tg.sigmoid(f + 1.0) * c + tg.sigmoid(i) * tg.tanh(j)
            h = tg.sigmoid(o) * tg.tanh(c)
            return t + 1, h, c, loss + tg.reduce_mean(tg.square(h - row))

        zeros = tg.zeros([batch, units], dtype)
        h, _, loss = _loop(length, body, [zeros, zeros, tg.zeros([], dtype)], how)
        return [h, loss, *tg.gradients([loss, h], [x, w, b])], _feeds((x, 1), (w, units**-0.5), (b, 0.1))

    return make


def gru(**how):
    """Make a GRU of few rows, of a length that is data, with a product of each part behind and in front."""
    x, w, v = (tg.placeholder("float32", s) for s in ([None, 4, 128], [384, 512], [384, 256]))

    def body(t, h):
        r, z = tg.split(tg.sigmoid(tg.concat([h, x[t]], 1) @ w), 2, axis=1)
        return t + 1, z * h + (1 - z) * tg.tanh(tg.concat([x[t], r * h], 1) @ v)

    (h,) = _loop(tg.shape(x)[0], body, [tg.zeros([4, 256])], how)
    feeds = {x: np.random.default_rng(5).standard_normal((11, 4, 128)).astype(np.float32)}
    return [h, *tg.gradients(tg.reduce_sum(tg.square(h)), [x, w, v])], feeds | _feeds((w, 0.05), (v, 0.05))


def attention(**how):
    q, k, w = (tg.placeholder("float32", s) for s in ([8, 64], [8, 12, 64], [64, 64]))

    def body(t, q):
        scores = tg.softmax(tg.einsum("bd,bnd->bn", q @ w, k) / 8.0)
        return t + 1, tg.tanh(tg.einsum("bn,bnd->bd", scores, k) + q)

    (y,) = _loop(9, body, [q], how)
    return [y, *tg.gradients(tg.reduce_sum(tg.square(y)), [q, k, w])], _feeds((q, 1), (k, 1), (w, 0.1))


def nested(**how):
    x, w, v = (tg.placeholder("float64", s) for s in ([6, 16, 128], [128, 128], [128, 128]))

    def body(t, h):
        (inner,) = _loop(3, lambda j, a: (j + 1, tg.tanh(a @ w + x[t] @ v)), [h], how)
        return t + 1, inner * 0.9 + tg.sin(h)

    (h,) = _loop(6, body, [tg.zeros([16, 128], "float64")], how)
    return [h, *tg.gradients(tg.reduce_sum(tg.square(h)), [x, w, v])], _feeds((x, 1), (w, 0.1), (v, 0.1))


def branches(**how):
    x, w = (tg.placeholder("float32", s) for s in ([9, 16, 128], [128, 128]))

    def body(t, h):
        even = lambda: tg.tanh(x[t] @ w + h)  # noqa: E731
        return t + 1, tg.cond(tg.equal(t % 3, 0), even, lambda: tg.tanh(h @ w) + tg.reduce_mean(h, axis=0))

    (h,) = _loop(9, body, [tg.zeros([16, 128])], how)
    return [h, *tg.gradients(tg.reduce_sum(tg.square(h)), [x, w])], _feeds((x, 1), (w, 0.1))


def arrays(**how):
    x, w = (tg.placeholder("float32", s) for s in ([9, 16, 128], [128, 128]))

    def body(t, h, a):
        h = tg.tanh(x[t] @ w + h * 0.5)
        return t + 1, h, a.write(t, tg.reduce_sum(h, axis=1))

    h, a = _loop(9, body, [tg.zeros([16, 128]), tg.TensorArray("float32", 9)], how)
    sums = a.stack()
    loss = [tg.reduce_sum(tg.square(h)), tg.reduce_mean(sums * sums)]
    return [h, sums, *tg.gradients(loss, [x, w])], _feeds((x, 1), (w, 0.1))


def convolutions(**how):
    x, f, b = (tg.placeholder("float32", s) for s in ([4, 12, 12, 8], [3, 3, 8, 8], [8]))

    def layer(h):
        return tg.relu(tg.conv2d(h, f, strides=1, padding="SAME") + b)

    (h,) = _loop(4, lambda t, h: (t + 1, layer(h) * 0.5), [x], how)
    y = tg.max_pool(layer(h), 2, 2, "VALID")
    return [h, y, *tg.gradients(tg.reduce_sum(tg.square(y)), [x, f, b])], _feeds((x, 1), (f, 0.15), (b, 1))


def reductions(**how):
    x, w = (tg.placeholder("float32", s) for s in ([7, 33, 70], [70]))

    def body(t, h, s):
        y = tg.tanh(x[t] * w + h)
        y = y - tg.reduce_mean(y, axis=1, keepdims=True)
        y = y * tg.rsqrt(tg.reduce_mean(tg.square(y), axis=1, keepdims=True) + 1e-3)
        rows = tg.softmax(y) + tg.reduce_logsumexp(y, axis=1, keepdims=True)
        return t + 1, rows + tg.reduce_sum(y, axis=0) * 0.01, s + tg.reduce_sum(y * h)

    h, s = _loop(7, body, [tg.zeros([33, 70]), 0.0], how)
    return [h, s, *tg.gradients([tg.reduce_sum(tg.square(h)), s], [x, w])], _feeds((x, 1), (w, 1))


def draws(**how):
    x, w = (tg.placeholder("float32", s) for s in ([8, 16, 128], [128, 128]))

    def body(t, h):
        mask = tg.cast(tg.stateless_random_uniform([16, 128], [7, t]) < 0.8, "float32")
        return t + 1, tg.tanh((x[t] * mask) @ w + h * tg.random_uniform([16, 1], seed=3))

    (h,) = _loop(8, body, [tg.zeros([16, 128])], how)
    return [h, *tg.gradients(tg.reduce_sum(tg.square(h)), [x, w])], _feeds((x, 1), (w, 0.1))


def long_sums(**how):
    """Make products of BLAS: more than 2,048 terms in fewer than 8 columns."""
    x, w = (tg.placeholder("float32", s) for s in ([6, 24, 4096], [4096, 4]))
    (h,) = _loop(6, lambda t, h: (t + 1, tg.tanh(x[t] @ w + h * 0.5)), [tg.zeros([24, 4])], how)
    return [h, *tg.gradients(tg.reduce_sum(tg.square(h)), [x, w])], _feeds((x, 1), (w, 0.02))


def rows_in_blocks(**how):
    """Make two products of few rows with a softmax between, independent of the state, for a length that is data."""
    x = tg.placeholder("float32", [None, 2, 300])
    w, v, u = (tg.placeholder("float32", s) for s in ([300, 512], [512, 512], [512, 512]))

    def body(t, h):
        y = tg.softmax(tg.relu(x[t] @ w) @ v)
        return t + 1, tg.tanh(h @ u + y - tg.reduce_mean(y, axis=1, keepdims=True))

    (h,) = _loop(tg.shape(x)[0], body, [tg.zeros([2, 512])], how)
    feeds = {x: np.random.default_rng(5).standard_normal((13, 2, 300)).astype(np.float32)}
    loss = tg.reduce_sum(tg.square(h))
    return [h, *tg.gradients(loss, [x, w, v, u])], feeds | _feeds((w, 0.06), (v, 0.05), (u, 0.04))


PROGRAMS = {
    "lstm": lstm(16, 64),
    "lstm of few rows": lstm(4, 256),
    "lstm of two products": lstm(16, 128, joined=False),
    "lstm in float64": lstm(3, 128, "float64"),
    "gru": gru,
    "attention": attention,
    "nested loops": nested,
    "branches": branches,
    "arrays": arrays,
    "convolutions": convolutions,
    "reductions": reductions,
    "draws": draws,
    "long sums": long_sums,
    "rows in blocks": rows_in_blocks,
}
