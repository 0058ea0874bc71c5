"""Gradients of functions of one tensor, of first and second order, beside central differences."""

import numpy as np
import tagloom as tg

STEP = 1e-5


def weighted(y):
    """Return a sum of all elements, each with a weight of its own."""
    return tg.reduce_sum(tg.reshape(y, [-1]) * tg.cos(tg.cast(tg.range(tg.size(y)), y.dtype)))


def slopes(function, x):
    """Differentiate a function from arrays to numbers by central differences."""
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][at] += STEP
        moved[1][at] -= STEP
        found[at] = (function(moved[0]) - function(moved[1])) / (2 * STEP)
    return found


def differences(function, x, known=None):
    """Fail unless the gradient of ``function(tensor)`` is what differences say, at an array of float64."""
    _check(lambda t: weighted(function(t)), x, known)


def second_order(function, x, known=None):
    """Fail unless the gradient is right, and that of the gradient."""
    differences(function, x, known)

    def slope(t):
        (found,) = tg.gradients(weighted(function(t)), [t])
        return weighted(tg.convert_to_tensor(found))

    _check(slope, x, known)


def _check(function, x, known):
    with tg.Graph().as_default() as graph:
        t = tg.placeholder("float64", known)
        y = function(t)
        (g,) = tg.gradients(y, [t])
        g = tg.convert_to_tensor(g)
    with tg.SyncSession(graph) as session:
        wanted = slopes(lambda moved: session.run(y, {t: moved}), x)
        np.testing.assert_allclose(session.run(g, {t: x}), wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max(initial=1))
