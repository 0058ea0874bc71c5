"""Comparison of a vectorized function with its calls one after the other."""

import numpy as np
import tagloom as tg


def check(function, *arguments, in_axes=0, rtol=1e-6):
    """Fail unless `vmap` of a function gives the stacked results of single calls; return the results."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(arguments)
    number = next(np.shape(x)[a] for x, a in zip(arguments, axes, strict=True) if a is not None)
    found = tg.function(tg.vmap(function, in_axes=in_axes)).sync(*arguments)
    single = tg.function(function)
    rows = [single.sync(*row(arguments, axes, i)) for i in range(number)]
    for k, value in enumerate(tg.nest.flatten(found)):
        np.testing.assert_allclose(value, np.stack([tg.nest.flatten(r)[k] for r in rows]), rtol=rtol, atol=1e-12)
    return found


def row(arguments, axes, i):
    return [x if a is None else np.take(x, i, a) for x, a in zip(arguments, axes, strict=True)]


def check_gradient(function, *arguments, in_axes=0, rtol=1e-6):
    """Fail unless gradients inside of `vmap`, and outside, are those of single calls of a scalar function."""
    inside = check(tg.grad(function), *arguments, in_axes=in_axes, rtol=rtol)
    mapped = tg.vmap(function, in_axes=in_axes)
    outside = tg.function(tg.grad(lambda *xs: tg.reduce_sum(mapped(*xs)))).sync(*arguments)
    first = in_axes[0] if isinstance(in_axes, tuple) else in_axes
    np.testing.assert_allclose(outside, inside if first is not None else np.sum(inside, 0), rtol=rtol, atol=1e-12)
