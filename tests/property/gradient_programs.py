"""Gradients of random programs, of both orders."""

import numpy as np
import tagloom as tg

from tests.property.translate import build


def weights(index, shape):
    """Return fixed numbers, so that no cotangent is a mere one."""
    return 1.0 + 0.25 * np.cos(index + np.arange(np.prod(shape, dtype=int), dtype=float)).reshape(shape)


def build_gradients(program, window, **options):
    """Build a program, its gradients, and the gradients of their inner product with fixed numbers."""
    built = build(program, window, **options)
    xs = list(built.inputs.values())
    with built.graph.as_default():
        seeds = [tg.constant(weights(i, type_shape(y))) for i, y in enumerate(built.results)]
        first = tg.gradients(built.results, xs, grad_ys=seeds, unconnected_gradients="zero")
        inner = [tg.reduce_sum(g * tg.constant(weights(i, type_shape(g)))) for i, g in enumerate(first)]
        second = tg.gradients(inner, xs, unconnected_gradients="zero")
    return built, first, second


def type_shape(tensor):
    """Return the static shape of a tensor as a tuple."""
    return tensor.shape.as_tuple()
