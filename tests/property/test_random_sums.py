"""Loops that add up products of matrices: rows of factors are gathered, in place or not, whatever else looks at them.

Other random programs have few products that are large enough for that.
"""

import asyncio
import random
from functools import partial

import numpy as np
import tagloom as tg
from hypothesis import given
from hypothesis import strategies as st
from tagloom.kernels.native.run import limit_values

from tests.property.runs import batch_settings, batches
from tests.property.switched import run_switched
from tests.support.settings import ON

NATIVE = {"llvm": ON, "not fused": ON.without("fuse"), "straight": ON.without("llvm"), "off": ON.without("straight")}

OPERATIONS = (
    lambda i, a, b, w, v: tg.tanh(a),
    lambda i, a, b, w, v: a + b,
    lambda i, a, b, w, v: a * b * 0.3,
    lambda i, a, b, w, v: tg.matmul(a, w) * 0.2,
    lambda i, a, b, w, v: a + v,
    lambda i, a, b, w, v: tg.where(a > b, a, b),
    lambda i, a, b, w, v: tg.reduce_sum(a, axis=0) * 0.1 + b,
    lambda i, a, b, w, v: tg.reduce_mean(a, axis=1, keepdims=True) + b,
    lambda i, a, b, w, v: tg.concat([a[:, :2], b[:, 2:]], 1),
    lambda i, a, b, w, v: tg.cond(i % 2 == 0, lambda: tg.sin(a), lambda: b * 0.5),
    lambda i, a, b, w, v: tg.softmax(a),
    lambda i, a, b, w, v: -a,
    lambda i, a, b, w, v: a * w[i % 4],
    lambda i, a, b, w, v: a + tg.gather(w, 3 - i % 4),
)


def add(numbers, i, total, a, b):
    """Add a product to a sum, in some iterations or in all."""
    more = partial(tg.matmul, a, b, transpose_a=True)
    return total + more() if numbers.random() < 0.8 else tg.cond(i % 3 == 1, lambda: total + more(), lambda: total)


def sums(numbers):
    """Return what a loop with some sums computes, gradients of it, and feeds."""
    rows, columns, trips = numbers.randint(2, 6), numbers.randint(4, 7), numbers.randint(1, 7)
    count, operations = numbers.randint(1, 3), numbers.randint(2, 6)
    x, w, v = (tg.placeholder("float64", shape) for shape in ([rows, columns], [columns, columns], [columns]))

    def body(i, y, z, *totals):
        pool, totals = [y, z], list(totals)
        order = [None] * operations + list(range(count))
        numbers.shuffle(order)
        for k in order:
            if k is None:
                pool.append(numbers.choice(OPERATIONS)(i, numbers.choice(pool), numbers.choice(pool), w, v))
            else:
                last = numbers.choice(pool[-2:])  # more often than others seen by nobody afterwards
                totals[k] = add(numbers, i, totals[k], numbers.choice([*pool, last, last]), last)
        return i + 1, tg.tanh(pool[-1]), numbers.choice(pool), *totals

    zeros = tg.zeros([columns, columns], "float64")
    found = tg.while_loop(lambda i, *_: i < trips, body, [0, x, x * 0.5, *[zeros] * count])[1:]
    loss = sum(tg.reduce_sum(tg.tanh(each)) for each in found)
    drawn = np.random.default_rng(numbers.randint(0, 1000))
    feeds = {each: drawn.standard_normal(each.shape.as_tuple()) for each in (x, w, v)}
    gradients = tg.gradients(loss, [x, w, v]) if numbers.random() < 0.5 else []  # for which values are saved
    return list(found), [tg.convert_to_tensor(each) for each in gradients if each is not None], feeds


@batches(30)
@batch_settings(30)
@given(st.integers(0, 2**32), st.sampled_from([8, 256]))
def test_sums_of_products(batch, seed, size):
    numbers = random.Random(seed)  # not the smallest ones, as those of Hypothesis are
    with tg.Graph().as_default() as graph:
        values, gradients, feeds = sums(numbers)

    async def run():
        switched = run_switched(graph, lambda session: session.run([values, gradients], feeds), NATIVE)
        return {name: found async for name, found in switched}

    limit_values(size)
    try:
        found = asyncio.run(run())
    finally:
        limit_values(256)
    for name, (values, gradients) in found.items():
        tolerance = 1e-9 if name == "not fused" else 0
        for one, other in zip(values, found["off"][0], strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance / 1000, err_msg=name)
        for one, other in zip(gradients, found["off"][1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=name)
