"""Programs with cond and while_loop inside each other, for any way to repeat and to choose."""

import tagloom as tg

from tests.gradients.building import Unrolled


def loop_in_loop(flow, x):
    def outer(i, a):
        (b,) = flow.repeat(3, lambda j, b: (tg.sin(b) * x + a,), a)
        return (b * a,)

    return flow.repeat(2, outer, x)[0]


def cond_in_loop(flow, x):
    def body(i, a):
        return (flow.choose(i % 2 < 1, lambda: tg.sin(a) * x, lambda: a * a),)

    return flow.repeat(4, body, x)[0]


def loop_in_cond(flow, x):
    scaled = x * 1.5
    left = flow.choose(True, lambda: flow.repeat(3, lambda i, a: (tg.sin(a * scaled),), x)[0], lambda: x)
    return left * flow.choose(False, lambda: flow.repeat(3, lambda i, a: (a * a,), x)[0], lambda: scaled * x)


def cond_in_cond(flow, x):
    def inner():
        s = tg.exp(x)
        return flow.choose(False, lambda: s * x, lambda: tg.sin(s) * s)

    return flow.choose(True, inner, lambda: x) * x


def loop_in_cond_in_loop(flow, x):
    def body(i, a):
        power = tg.tanh(a)
        return (flow.choose(i % 2 < 1, lambda: flow.repeat(2, lambda j, b: (b * power + x,), a)[0], lambda: tg.sin(a)),)

    return flow.repeat(3, body, x)[0]


def cond_in_loop_in_loop(flow, x):
    def outer(i, a):
        def inner(j, b):
            return (flow.choose(j < 1, lambda: tg.sin(b) * a, lambda: b + a * x),)

        return flow.repeat(2, inner, a * x)

    return flow.repeat(2, outer, x)[0]


def loop_in_loop_in_loop(flow, x):
    def outer(i, a):
        def middle(j, b):
            return flow.repeat(2, lambda k, c: (tg.sin(c) * b + a,), b * x)

        return flow.repeat(2, middle, a)

    return flow.repeat(2, outer, x)[0]


def inner_trips_differ(flow, x):
    def outer(i, a):
        if isinstance(flow, Unrolled):
            return flow.repeat(i, lambda j, b: (tg.sin(b) * a,), x)
        return (tg.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, tg.sin(b) * a), [0, x])[1],)

    return flow.repeat(4, outer, x)[0]


PROGRAMS = [
    loop_in_loop,
    cond_in_loop,
    loop_in_cond,
    cond_in_cond,
    loop_in_cond_in_loop,
    cond_in_loop_in_loop,
    loop_in_loop_in_loop,
    inner_trips_differ,
]
