"""Forward mode through loops, branches and arrays, against reverse mode; with itself and reverse mode around it."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile.simplify.prune import prune
from tagloom.ir.program import Program

from tests.gradients.building import Dynamic, assert_near, choose, repeat, scalar, unknown
from tests.gradients.nested_programs import PROGRAMS

X = np.float64([0.7, -0.4, 0.3])
V = np.float64([1.0, 2.0, -0.5])


def by_scan(x):
    return tg.scan(lambda a, e: tg.sin(a) * e + x[0], x)


def by_map(x):
    return tg.map_fn(lambda e: tg.tanh(e) * x, x)


def by_fold(x):
    return tg.foldr(lambda a, e: a * e + tg.cos(e), x, initializer=x[1])


def by_prefixes(x):
    return tg.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (x, tg.sin(x)))[1]


def by_late_prefixes(x):
    return by_prefixes(unknown_length(x))


def unknown_length(x):
    return tg.boolean_mask(x, x > -100.0)


def of_some_elements(x):
    """Write elements of which only some move, and read them in another order."""
    array = tg.TensorArray("float64", 4).write(3, tg.constant(2.0, "float64")).write(0, x[0] * x[1])

    def body(i, array):
        return i + 1, array.write(i, tg.sin(x[i]))

    _, array = tg.while_loop(lambda i, _: i < 3, body, [1, array])
    return tg.reduce_sum(array.gather([3, 0, 2]) * array.read(1))


def of_rows(x):
    """Split, concatenate, scatter and stack."""
    rows = tg.TensorArray("float64", 2, infer_shape=False).split(x * x, [1, 2]).concat()
    placed = tg.TensorArray("float64", 3).scatter([2, 0, 1], rows).stack()
    return placed * x


def of_a_growing_variable(x):
    n = unknown(np.int32(2))

    def body(i, a):
        return i + 1, tg.concat([a, a[-1:] * x[0]], 0)

    return tg.while_loop(lambda i, a: i < n, body, [0, x], [tg.Shape([]), tg.Shape([None])])[1]


def of_a_swapped_loop(x):
    return tg.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, tg.sin(a) * x), [0, x], swap_memory=True)[1]


def of_a_checkpointed_loop(x):
    return tg.fori_loop(0, 5, lambda i, a: tg.sin(a) * x, x, checkpoint_every=2)


def of_a_recomputed_branch(x):
    return tg.recompute_grad(lambda a: tg.tanh(tg.sin(a) * x))(x) * x


def of_a_case(x):
    n = unknown(np.int32(1))
    return tg.switch_case(n, [lambda: x, lambda: tg.fori_loop(0, 3, lambda i, a: a * x, x), lambda: tg.zeros_like(x)])


def of_carried_zeros(x):
    """A variable that begins with a constant, and one whose new value does not move."""

    def body(i, a, b):
        return a * x + b, tg.ones_like(x)

    return repeat(3, body, tg.zeros([3], "float64"), x)[0]


def of_custom_slope(x):
    @tg.custom_gradient
    def doubled(x):
        s = tg.fori_loop(0, 3, lambda i, a: tg.sin(a), x)
        return s, lambda dy: dy * 2.0 * tg.cos(x)

    return doubled(x) * x


def of_gathered_rows(x):
    return tg.gather(tg.stack([x, x * x]), [1, 1, 0]) @ tg.expand_dims(tg.softmax(x), 1)


def of_a_gradient(x):
    """Reverse mode inside: the loop that it makes, and the values that it saves, move too."""
    y = by_scan(x)
    return tg.gradients(tg.reduce_sum(y * y), [x])[0]


def of_a_nested_gradient(x):
    def body(i, a):
        y = tg.fori_loop(0, 2, lambda j, b: tg.sin(b) * a, a)
        return (a + 0.1 * tg.gradients(tg.reduce_sum(y), [a])[0],)

    return repeat(3, body, x)[0]


def of_a_branching_gradient(x):
    def body(i, a):
        return (tg.cond(i % 2 < 1, lambda: tg.sin(a) * x, lambda: a * a),)

    return tg.gradients(tg.reduce_sum(repeat(4, body, x)[0]), [x])[0]


def of_an_array_gradient(x):
    return tg.gradients(of_some_elements(x) + tg.reduce_sum(by_map(x)), [x])[0]


def of_a_recomputed_gradient(x):
    y = of_a_checkpointed_loop(x) + of_a_recomputed_branch(x)
    return tg.gradients(tg.reduce_sum(y), [x])[0]


def of_a_sum_over_captures(x):
    """Cotangents of a saved series are themselves added up in a loop."""
    rows = tg.map_fn(lambda e: e * x, x)
    return tg.gradients(tg.reduce_sum(tg.fori_loop(0, 3, lambda i, a: a * rows[i], x)), [x])[0]


OWN = [
    by_scan,
    by_map,
    by_fold,
    by_prefixes,
    by_late_prefixes,
    of_some_elements,
    of_rows,
    of_a_growing_variable,
    of_a_swapped_loop,
    of_a_checkpointed_loop,
    of_a_recomputed_branch,
    of_a_case,
    of_carried_zeros,
    of_custom_slope,
    of_gathered_rows,
    of_a_gradient,
    of_a_nested_gradient,
    of_a_branching_gradient,
    of_an_array_gradient,
    of_a_recomputed_gradient,
    of_a_sum_over_captures,
]
NESTED = [lambda x, program=program: program(Dynamic(), x) for program in PROGRAMS]
ALL = [
    *(pytest.param(p, id=p.__name__) for p in OWN),
    *(pytest.param(p, id=program.__name__) for p, program in zip(NESTED, PROGRAMS, strict=True)),
]


@pytest.mark.sampled(every=7)
@pytest.mark.parametrize("program", ALL)
def test_values_and_tangents_are_those_of_reverse_mode(run, program):
    x = unknown(X)
    y, moved = tg.jvp(program, (x,), (V,))
    z = program(x)
    assert_near(run([y, moved]), run([z, tg.jvp(z, x, V)]))


@pytest.mark.sampled(every=11)
@pytest.mark.parametrize("program", ALL)
def test_reverse_over_forward_and_forward_over_forward(run, program):
    x, u = unknown(X), tg.constant(V[::-1].copy())
    _, moved = tg.jvp(program, (x,), (V,))
    (along,) = tg.gradients(tg.reduce_sum(moved), [x], unconnected_gradients="zero")
    twice = tg.jvp(lambda x: tg.jvp(program, (x,), (V,))[1], (x,), (u,))[1]
    wanted = tg.jvp(program(x), x, V)
    (slope,) = tg.gradients(tg.reduce_sum(wanted), [x], unconnected_gradients="zero")
    found = run([along, tg.reduce_sum(twice)])
    assert_near(found, run([slope, tg.reduce_sum(slope * u)]))


@pytest.mark.parametrize("program", [by_scan, of_some_elements, NESTED[4]])
def test_forward_over_reverse_is_the_product_with_the_hessian(run, program):
    x = unknown(X)

    def loss(x):
        return tg.reduce_sum(tg.sin(program(x)))

    product = tg.jvp(lambda x: tg.gradients(loss(x), [x])[0], (x,), (V,))[1]
    assert_near(run(product), run(tg.hessian_vector_product(loss(x), x, V)[0]))


def test_third_order_by_three_ways(run):
    x = scalar(0.6)

    def f(x):
        return tg.fori_loop(0, 4, lambda i, y: tg.sin(y) * x, x)

    def along(f):
        return lambda x: tg.jvp(f, (x,), (tg.ones_like(x),))[1]

    def back(f):
        return lambda x: tg.gradients(f(x), [x])[0]

    ways = [along(along(along(f))), back(along(back(f))), along(back(along(f))), back(back(back(f)))]
    found = run([way(x) for way in ways])
    assert_near(found, [found[-1]] * 4)


def test_structures_aux_and_dtypes(run):
    x, n = unknown(X), unknown(np.int32(3))

    def f(a, b):
        y = a["x"] * b[0]
        return {"y": (y, [tg.cast(b[1] * 2, "float64")]), "n": b[1], "p": y > 0.0}, y + 1.0

    results, moved, aux = tg.jvp(f, [{"x": x}, (x, n)], ({"x": V}, (None, None)), has_aux=True)
    assert moved["n"] is None
    assert moved["p"] is None
    del moved["n"], moved["p"]
    found, tangents, other = run([results, moved, aux])
    assert_near([found["y"][0], other], [X * X, X * X + 1.0])
    assert found["n"] == 3
    assert_near([tangents["y"][0], tangents["y"][1][0]], [V * X, 0.0])


def test_the_closure_is_constant(run):
    x = unknown(X)
    y = tg.sin(x)
    moved = tg.jvp(lambda a: a * y + x, (x,), (V,))[1]
    assert_near(run(moved), V * np.sin(X))


def test_what_does_not_move_is_zero(run):
    x = unknown(X, [None])
    results = tg.jvp(lambda a: (tg.stop_gradient(a), tg.ones([2]), tg.floor(a)), (x,), (V,))[1]
    assert_near(run(results), [0 * X, np.zeros(2), 0 * X])
    assert_near(run(tg.jvp(lambda a: a * a, (x,), (None,))[1]), 0 * X)


def test_loops_without_back_prop_are_constant(run):
    def f(x):
        return tg.fori_loop(0, 3, lambda i, a: a * x, x, back_prop=False) * x

    assert run(tg.jvp(f, (scalar(2.0),), (1.0,))[1]) == 16.0


def test_overridden_gradients_hold(run, graph):
    @tg.RegisterGradient("TestsThreefoldTangent")
    def threefold(op, g):
        return 3.0 * g

    x = scalar(0.5)
    with graph.gradient_override_map({"Sin": "TestsThreefoldTangent"}):
        moved = tg.jvp(lambda x: tg.sin(x), (x,), (2.0,))[1]
    assert run(moved) == 6.0


def test_inside_of_loops_and_branches(run):
    x = scalar(0.5)

    def f(x):
        return choose(True, lambda: tg.fori_loop(0, 2, lambda i, y: y * x, x), lambda: x) - 2.0

    def newton(i, x):
        y, slope = tg.jvp(f, (x,), (tg.ones_like(x),))
        return (x - y / slope,)

    root = repeat(30, newton, x + 1.0)[0]
    assert_near([run(root)], [2.0 ** (1 / 3)])


def test_arrays_from_outside(run):
    x = unknown(X)
    array = tg.TensorArray("float64", 4).write(3, tg.constant(2.0, "float64"))

    def f(x):
        return array.write(0, x[0]).write(1, x[1] * x[0]).write(2, x[2]).stack()

    assert_near(run(tg.jvp(f, (x,), (V,))[1]), [V[0], V[0] * X[1] + X[0] * V[1], V[2], 0.0])


def test_effects_happen_once(run):
    seen = []
    x = scalar(0.5)

    def note(value):
        seen.append(float(value))
        return value

    def body(i, y):
        noted = tg.py_function(note, [y], "float64")
        noted.set_shape([])
        return y * x + tg.stop_gradient(noted * 0.0)

    y, moved = tg.jvp(lambda y: tg.fori_loop(0, 3, lambda i, y: body(i, y), y), (x,), (1.0,))
    assert_near(run([y, moved]), [0.5**4, 0.125])
    assert seen == [0.5, 0.25, 0.125]


def test_random_numbers_are_drawn_once(run):
    x = scalar(1.0)
    y, moved = tg.jvp(
        lambda x: tg.fori_loop(0, 3, lambda i, y: y * tg.random_uniform([], dtype="float64"), x), (x,), (1.0,)
    )
    value, tangent = run([y, moved])
    assert value == tangent != 0


def build_loop(length):
    x = tg.constant(np.linspace(0.1, 0.9, 32))
    return tg.jvp(lambda x: tg.fori_loop(0, length, lambda i, a: tg.sin(a) * x, x), (x,), (tg.ones_like(x),))


def test_forward_mode_loops_run_natively():
    with tg.Graph().as_default() as graph:
        found = [*build_loop(50), *tg.jvp(by_scan, (unknown(X),), (V,)), *tg.jvp(NESTED[1], (unknown(X),), (V,))]
    with tg.SyncSession(graph) as session:
        session.run(found)
        loops = session.report().loops
    assert len(loops) == 3
    assert [loop.not_native for loop in loops if loop.limited_by != "native"] == []


def test_one_loop_carries_values_and_tangents_and_saves_nothing():
    with tg.Graph().as_default() as graph:
        y, moved = build_loop(unknown(np.int32(40)))
    assert [op.type for op in graph.root.walk()].count("While") == 1
    assert y.op.attrs["saved_outputs"] == []
    assert moved.op is y.op


def test_memory_does_not_grow_with_the_iterations():
    peaks = []
    for length in (20, 2000):
        with tg.Graph().as_default() as graph:
            fetches = build_loop(length)
        with tg.SyncSession(graph, settings=tg.Settings(straight=False)) as session:
            session.run(fetches)
            peaks.append(session.statistics().peak_bytes)
    assert peaks[1] <= peaks[0] * 1.5


def test_a_tangent_that_is_not_fetched_costs_nothing():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [])
        y, moved = tg.jvp(lambda x: tg.fori_loop(0, 3, lambda i, a: tg.sin(a), x), (x,), (1.0,))

    def count(fetches):
        return len(list(prune(Program(graph, [x], fetches, [])).graph.root.walk()))

    assert count([y]) < count([y, moved])


def test_what_a_gradient_needs_alone_is_taken_out():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [3])
        y, moved = tg.jvp(lambda x: tg.softmax(x) ** 2.0, (x,), (V,))
    used = {y.op, moved.op}
    for op in reversed(list(graph.root.walk())):
        if op in used:
            used.update(t.op for t in op.inputs)
    jvp = [op for op in graph.root.walk() if op.name.startswith("jvp/")]
    assert [op for op in jvp if op not in used] == []


@pytest.mark.parametrize(
    ("error", "text", "build"),
    [
        (tg.GraphError, "arguments of the function as a tuple", lambda x: tg.jvp(tg.sin, x, V)),
        (tg.GraphError, "structure of the primals", lambda x: tg.jvp(tg.sin, (x,), (V, V))),
        (tg.GraphError, "structure of the primals", lambda x: tg.jvp(lambda d: d["a"], ({"a": x},), ((V,),))),
        (tg.DtypeError, "dtype of its primal", lambda x: tg.jvp(tg.sin, (x,), (tg.constant(np.float32(V)),))),
        (tg.DtypeError, "must be None", lambda x: tg.jvp(lambda x, n: x, (x, 3), (V, 1))),
        (tg.ShapeError, "shape of its primal", lambda x: tg.jvp(tg.sin, (x,), (1.0,))),
        (tg.GraphError, "not a function|tensors", lambda x: tg.jvp(None, (x,), (V,))),
        (tg.GraphError, "does not return a pair", lambda x: tg.jvp(tg.sin, (x,), (V,), has_aux=True)),
        (tg.GraphError, "must return tensors", lambda x: tg.jvp(lambda x: None, (x,), (V,))),
        (
            tg.GraphError,
            "differentiate by a TensorArray",
            lambda x: tg.jvp(lambda a: a, (tg.TensorArray("float64", 2),), (None,)),
        ),
        (tg.GraphError, "prevent", lambda x: tg.jvp(lambda x: tg.prevent_gradient(x, "no"), (x,), (V,))),
    ],
)
def test_mistakes_are_explained(error, text, build):
    with pytest.raises(error, match=text):
        build(tg.constant(X))


def test_shapes_are_checked_in_the_step(run):
    x, v = tg.placeholder("float64"), tg.placeholder("float64")
    moved = tg.jvp(tg.sin, (x,), (v,))[1]
    with pytest.raises(tg.TagloomError, match="a primal and its tangent"):
        run(moved, {x: X, v: V[:2]})
