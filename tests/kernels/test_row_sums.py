"""Sums of rows, of which all but long ones are added without NumPy's loops: the bits are those of adding row by row."""

import itertools

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.cpu.linear import limit_vectors

SHAPES = [
    *itertools.product((1, 2, 50), (2, 3, 8, 15, 16, 17, 64, 65, 100, 130)),
    (3, 70, 33),
    (5, 4, 3, 2, 48),
    (2, 9, 256),
    (2, 9, 257),
    (20, 1030),
    (3, 5, 4097),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_added_in_their_order(dtype, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    axes = [tuple(range(k)) for k in range(1, len(shape))] + [(k,) for k in range(1, len(shape) - 1)]
    with tg.Graph().as_default() as graph, tg.SyncSession(graph) as session:
        fed = tg.placeholder(dtype, shape)
        sums, means = session.run([[f(fed, axis) for axis in axes] for f in (tg.reduce_sum, tg.reduce_mean)], {fed: x})
    for axis, each, mean in zip(axes, sums, means, strict=True):
        rows = np.moveaxis(x, axis, range(len(axis))).reshape(-1, *np.delete(shape, axis))
        total = np.zeros_like(rows[0])
        for row in rows:
            total += row
        np.testing.assert_array_equal(each, total)
        np.testing.assert_array_equal(mean, (total / np.float64(len(rows))).astype(dtype))


@pytest.mark.parametrize("bits", [0, 256, 512])
def test_vectors_of_all_lengths_give_the_same_bits(bits):
    x = np.random.default_rng(2).standard_normal((30, 99))
    with tg.Graph().as_default() as graph, tg.SyncSession(graph) as session:
        fed = [tg.placeholder(dtype, x.shape) for dtype in ("float32", "float64")]
        given = {each: x.astype(each.dtype.numpy) for each in fed}
        try:
            limit_vectors(bits)
            found = session.run([tg.reduce_sum(each, 0) for each in fed], given)
        finally:
            limit_vectors(512)
    for ours, rows in zip(found, given.values(), strict=True):
        total = np.zeros_like(rows[0])
        for row in rows:
            total += row
        np.testing.assert_array_equal(ours, total)


def test_parts_do_not_matter():
    x = np.random.default_rng(1).standard_normal((20_000, 40)).astype(np.float32)
    with tg.Graph().as_default() as graph:
        fed = tg.placeholder("float32", x.shape)
        total = tg.reduce_sum(fed, 0)
    found = []
    for settings in (tg.Settings(workers=0), tg.Settings(workers=2, offload_seconds=0.0)):
        with tg.SyncSession(graph, settings=settings) as session:
            found.append(session.run(total, {fed: x}))
    np.testing.assert_array_equal(*found)
