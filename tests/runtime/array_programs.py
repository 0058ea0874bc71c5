"""Programs with TensorArrays in loops, by how the loops access the elements: each gives feeds, ys, and xs."""

import numpy as np
import tagloom as tg

COUNT = 7
ROWS = np.random.default_rng(0).standard_normal((COUNT, 3))
FIRST = np.array([-1, -1, 0, -1, 2, 1, 4])  # children of the nodes of a tree, -1 of leaves
SECOND = np.array([-1, -1, 1, -1, 3, 1, 5])
CHOSEN = np.array([2, 0, 2, 5, 6, 2, 1])
ONES = np.ones(3)


def below(n):
    return lambda i, *_: i < n


def rows(known=True):
    return tg.placeholder("float64", [COUNT if known else None, 3])


def array(size=COUNT, **options):
    return tg.TensorArray("float64", size, **{"clear_after_read": False, **options})


def reads(**loop):
    """Reads, twice in an iteration, elements that were written before the loop, by indices that are data."""
    x, chosen = rows(), tg.constant(CHOSEN, "int32")
    source = array().unstack(x)

    def body(i, s):
        return i + 1, s * source.read(chosen[i]) + tg.sin(source.read(i))

    return {x: ROWS}, [tg.while_loop(below(COUNT), body, [0, ONES], **loop)[1]], [x]


def hub(**loop):
    """Reads an element in all iterations, so that many cotangents are added to it, at different depths."""
    x = rows()
    source = array().unstack(x)

    def body(i, s, t):
        k, first = i // 4, source.read(0)
        s = tg.tanh(s * source.read(k) + tg.sin(first))
        return i + 1, s, t + tg.sin(source.read(0) * 1.7) * tg.cos(source.read(k))

    _, s, t = tg.while_loop(below(COUNT), body, [0, ONES, ONES], **loop)
    return {x: ROWS}, [s * t, source.read(0)], [x]


def writes(**loop):
    """Writes elements that are stacked after the loop."""
    x = rows()

    def body(i, s, out):
        s = tg.tanh(s + x[i])
        return i + 1, s, out.write(i, s * s)

    _, s, out = tg.while_loop(below(COUNT), body, [0, np.zeros(3), array(clear_after_read=True)], **loop)
    return {x: ROWS}, [tg.square(out.stack()), s], [x]


def tree(size=COUNT, known=True, options=(("element_shape", [3]),), **loop):
    """Writes nodes, and reads those that a node is made of, in a branch of the body."""
    x, first, second = rows(known), tg.constant(FIRST, "int32"), tg.constant(SECOND, "int32")

    def body(i, nodes):
        def inner():
            return tg.tanh(nodes.read(first[i]) * x[i] + nodes.read(second[i]))

        return i + 1, nodes.write(i, tg.cond(first[i] < 0, lambda: tg.sin(x[i]), inner))

    nodes = tg.while_loop(below(COUNT), body, [0, array(size, **dict(options))], **loop)[1]
    return {x: ROWS}, [nodes.read(COUNT - 1)], [x]


def growing_tree(**loop):
    return tree(0, options=(("element_shape", [3]), ("dynamic_size", True)), **loop)


def tree_of_batches(**loop):
    """The same, with nodes whose first dimension is known in the step only."""
    x = rows(known=False)
    first, second = tg.constant(FIRST, "int32"), tg.constant(SECOND, "int32")

    def body(i, nodes):
        parts = [nodes.read(tg.maximum(each[i], 0)) for each in (first, second)]
        return i + 1, nodes.write(i, tg.tanh(parts[0] * x + parts[1]))

    nodes = tg.while_loop(below(COUNT), body, [1, array().write(0, x)], **loop)[1]
    return {x: ROWS}, [nodes.read(COUNT - 1), nodes.read(2)], [x]


def unknown_length(**loop):
    """Reads and writes arrays of as many elements as are fed."""
    x = rows(known=False)
    n = tg.shape(x)[0]
    source = array(n).unstack(x)

    def body(i, s, out):
        s = tg.sin(s + source.read(i) * source.read(i // 2))
        return i + 1, s, out.write(i, s)

    _, s, out = tg.while_loop(lambda i, *_: i < n, body, [0, ONES, array(0, dynamic_size=True)], **loop)
    return {x: ROWS}, [tg.square(out.stack()), s], [x]


def chain(**loop):
    """Reads what the iterations before wrote: scalars."""
    x = tg.placeholder("float64", [COUNT])
    source, out = array().unstack(x), array(element_shape=[])

    def body(i, s, out):
        out = out.write(i, s * source.read(i))
        return i + 1, tg.sin(out.read(i) + out.read(i // 2) * source.read(i)), out

    _, s, out = tg.while_loop(below(COUNT), body, [0, tg.constant(1.0, "float64"), out], **loop)
    return {x: ROWS[:, 0]}, [s, tg.square(out.stack())], [x]


def nested(**loop):
    """Writes, and reads, an array in a loop in a loop."""
    x = rows()
    nodes = array(2 * COUNT, element_shape=[3]).write(0, tg.constant(ONES))

    def outer(i, nodes):
        def inner(j, nodes):
            k = 2 * i + j
            return j + 1, nodes.write(k + 1, tg.sin(nodes.read(k) * x[i]) + nodes.read(k // 2))

        return i + 1, tg.while_loop(below(2), inner, [0, nodes], **loop)[1]

    nodes = tg.while_loop(below(COUNT - 1), outer, [0, nodes], **loop)[1]
    return {x: ROWS}, [nodes.read(2 * COUNT - 2)], [x]


def missing(**loop):
    """Reads elements that nobody wrote, as zeros, and writes some that nobody reads."""
    x = rows()
    source = array(2 * COUNT, element_shape=[3]).scatter([1, 3, 5], x[:3])

    def body(i, s, out):
        s = tg.cos(s + source.read(i) * x[i])
        return i + 1, s, out.write(2 * i, s)

    _, s, out = tg.while_loop(below(COUNT), body, [0, ONES, array(2 * COUNT, element_shape=[3])], **loop)
    return {x: ROWS}, [s, out.read(4), out.read(5)], [x]


def pieces(**loop):
    """Reads pieces of equal lengths, and writes such: the arrays are split and joined outside of the loop."""
    x = tg.placeholder("float64", [2 * COUNT, 3])
    source = array().split(x, [2] * COUNT)

    def body(i, s, out):
        s = tg.sin(s + source.read(i) * source.read(COUNT - 1 - i))
        return i + 1, s, out.write(i, s)

    start = [0, np.ones((2, 3)), array(element_shape=[2, 3])]
    _, s, out = tg.while_loop(below(COUNT), body, start, **loop)
    return {x: np.concatenate([ROWS, ROWS[::-1]])}, [tg.square(out.concat()), s], [x]


def gathers(**loop):
    """Reads several elements at once, and writes several."""
    x, chosen = rows(), tg.constant(CHOSEN, "int32")
    source = array().unstack(x)

    def body(i, s, out):
        found = source.gather(tg.stack([i, chosen[i], 0]))
        s = tg.sin(s + tg.reduce_prod(found, axis=0))
        return i + 1, s, out.scatter(tg.stack([2 * i, 2 * i + 1]), tg.stack([s, found[1]]))

    _, s, out = tg.while_loop(below(COUNT), body, [0, ONES, array(2 * COUNT)], **loop)
    return {x: ROWS}, [s, tg.square(out.stack()), out.gather([1, 1, 3])], [x]


def stacks(**loop):
    """Reads all elements in each iteration."""
    x = rows()
    source = array().unstack(x)

    def body(i, s):
        return i + 1, tg.tanh(s + tg.reduce_sum(source.stack() * x[i], axis=0))

    return {x: ROWS}, [tg.while_loop(below(COUNT), body, [0, ONES], **loop)[1]], [x]


def made_in_the_body(**loop):
    """Makes arrays in each iteration of an outer loop, for an inner loop."""
    x = rows()

    def outer(i, s):
        def inner(j, t, out):
            t = tg.sin(t + source.read(j) * source.read(j // 2))
            return j + 1, t, out.write(j, t * s)

        source = array().unstack(x * s)
        _, t, out = tg.while_loop(below(COUNT), inner, [0, s, array()], **loop)
        return i + 1, tg.tanh(t + tg.reduce_mean(out.stack(), axis=0))

    return {x: ROWS}, [tg.while_loop(below(4), outer, [0, ONES], **loop)[1]], [x]


def two_loops(**loop):
    """Reads an array in two loops, which run side by side."""
    x = rows()
    source = array().unstack(x)

    def one(i, s):
        return i + 1, tg.sin(s * source.read(i))

    def other(i, s):
        return i + 1, tg.cos(s + source.read(COUNT - 1 - i))

    a, b = (tg.while_loop(below(COUNT), body, [0, ONES], **loop)[1] for body in (one, other))
    return {x: ROWS}, [a * b], [x]


PROGRAMS = {
    each.__name__: each
    for each in (
        reads,
        hub,
        writes,
        tree,
        growing_tree,
        tree_of_batches,
        unknown_length,
        chain,
        nested,
        missing,
        pieces,
        gathers,
        stacks,
        made_in_the_body,
        two_loops,
    )
}
