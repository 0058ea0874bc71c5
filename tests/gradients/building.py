"""What the gradient tests build with: values no pass can fold, programs written once and built in two ways."""

import numpy as np
import tagloom as tg


def unknown(value, shape=None, dtype=None):
    """Return a tensor of this value that no pass can fold; of its static shape unless another is given."""
    array = np.asarray(value, dtype)
    return tg.placeholder_with_default(tg.constant(array), array.shape if shape is None else shape)


def scalar(value):
    """Return a float64 scalar that no pass can fold."""
    return unknown(np.float64(value))


def repeat(count, body, *values):
    """Run ``values = body(i, *values)`` for `count` iterations in a loop of unknown length; returns a list."""
    limit = unknown(np.int32(count))
    return list(tg.while_loop(lambda i, *_: i < limit, lambda i, *v: (i + 1, *body(i, *v)), [0, *values]))[1:]


def choose(pred, then, otherwise):
    """Run one of two functions on a predicate that is not known while building."""
    return tg.cond(unknown(pred), then, otherwise)


class Dynamic:
    """Builds control flow in the graph; the counterpart of Unrolled."""

    def repeat(self, count, body, *values):
        return repeat(count, body, *values)

    def choose(self, pred, then, otherwise):
        return choose(pred, then, otherwise) if isinstance(pred, bool) else tg.cond(pred, then, otherwise)


class Unrolled:
    """Runs control flow in Python, so that the graph has none."""

    def repeat(self, count, body, *values):
        values = list(values)
        for i in range(count):
            values = list(body(i, *values))
        return values

    def choose(self, pred, then, otherwise):
        return then() if pred else otherwise()


def derivatives(y, x, order):
    """Return y and its first `order` derivatives with respect to x, each summed over its elements."""
    found = [tg.reduce_sum(y)]
    for _ in range(order):
        (g,) = tg.gradients(found[-1], [x])
        found.append(tg.reduce_sum(g))
    return found


def assert_near(got, wanted, rtol=1e-9):
    """Check lists of arrays against each other."""
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)
