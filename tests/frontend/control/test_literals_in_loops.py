"""Literals as loop variables take the dtype that the body gives them, in all that loops and branches."""

import numpy as np
import pytest
import tagloom as tg
from tagloom import LoopVariableError
from tagloom.compat import tf1

DTYPES = ["float64", "float16", "bfloat16", "float32"]
COUNT = 3


@pytest.fixture(autouse=True)
def graph():
    with tg.Graph().as_default() as graph:
        yield graph


def loop(body, start, **options):
    """Run ``value = body(value)`` for COUNT iterations."""
    return tg.while_loop(lambda i, v: i < COUNT, lambda i, v: (i + 1, body(v)), [0, start], **options)[1]


def run(tensor, **feeds):
    with tg.SyncSession(tensor.graph) as session:
        return session.run(tensor)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("start", [0, 0.0], ids=["int", "float"])
def test_the_body_decides(dtype, start):
    x = tg.constant(0.5, dtype)
    bodies = [
        lambda v: v + x,
        lambda v: x + v,
        lambda v: v * 2.0 + x,
        lambda v: x,
        lambda v: tg.maximum(v, 0) + x,
        lambda v: tg.where(v > 1, x, v) + x,
        lambda v: tg.stack([v, x])[0] + x,
        lambda v: tg.cond(v < 9, lambda: v + x, lambda: 0.0),
        lambda v: tg.cond(v < 9, lambda: v, lambda: 0) + x,
        lambda v: tg.switch_case(0, [lambda: v, lambda: 1, lambda: x]) + x,
        lambda v: tg.case([(v < 9, lambda: 0.0)], default=lambda: v) + x,
        lambda v: loop(lambda u: u + x, v),
        lambda v: tg.foldl(lambda a, e: a + e, tg.stack([x, x]), v),
        lambda v: tg.scan(lambda a, e: a + e, tg.stack([x, x]), v)[-1],
    ]
    for number, body in enumerate(bodies):
        assert loop(body, start).dtype is tg.as_dtype(dtype), number
        assert loop(body, tg.constant(start, dtype)).dtype is tg.as_dtype(dtype), number


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_values_are_those_of_a_typed_start(dtype):
    x = tg.constant(0.1, dtype)
    for body in (lambda v: v * 0.5 + x, lambda v: loop(lambda u: u + x, v), lambda v: tg.exp(-x) - v):
        got, wanted = run(tg.stack([loop(body, 1), loop(body, tg.constant(1, dtype))]))
        assert got == wanted


@pytest.mark.parametrize("fold", [tg.foldl, tg.foldr, tg.scan])
@pytest.mark.parametrize("start", [0, 0.0])
def test_initializers(fold, start):
    xs = tg.constant([1 / 3, 2 / 3, 1.0], "float64")
    found = fold(lambda a, x: a + x, xs, start)
    assert found.dtype is tg.float64
    wanted = fold(lambda a, x: a + x, xs, tg.constant(0.0, "float64"))
    np.testing.assert_array_equal(run(found), run(wanted))


def test_initializers_in_structures():
    xs = tg.constant([1.5, 2.5], "float64")
    totals = tg.scan(lambda a, x: {"sum": a["sum"] + x, "n": a["n"] + 1}, xs, {"sum": 0.0, "n": 0})
    assert (totals["sum"].dtype, totals["n"].dtype) == (tg.float64, tg.int32)
    assert run(totals["sum"]).tolist() == [1.5, 4.0]
    assert run(totals["n"]).tolist() == [1, 2]


def test_map_fn_takes_literals_of_its_dtype():
    xs = tg.constant([1.0, 2.0], "float64")
    assert run(tg.map_fn(lambda x: loop(lambda v: v + x, 0), xs)).tolist() == [3, 6]
    assert run(tg.map_fn(lambda x: 1, xs)).tolist() == [1, 1]


def test_branches_of_literals():
    p, x = tg.placeholder_with_default(True, []), tg.constant(0.5, "float64")
    assert tg.cond(p, lambda: 0, lambda: 0.5).dtype is tg.float32
    assert tg.cond(p, lambda: 0, lambda: 1).dtype is tg.int32
    assert tg.cond(p, lambda: 0, lambda: x).dtype is tg.float64
    k = tg.placeholder_with_default(1, [])
    assert tg.switch_case(k, [lambda: 0, lambda: 0.5, lambda: 1j]).dtype is tg.complex64
    assert tg.switch_case(k, [lambda: 0, lambda: 0.5, lambda: x]).dtype is tg.float64
    assert tg.case([(p, lambda: 0)], default=lambda: 2.5).dtype is tg.float32
    assert run(tg.cond(p, lambda: 3, lambda: 0.5)) == 3


def test_without_another_dtype_all_is_as_before():
    assert loop(lambda v: v + 1.0, 0.0).dtype is tg.float32
    assert loop(lambda v: v * 2, 1).dtype is tg.int32
    assert loop(lambda v: v * 0.5, 1).dtype is tg.float32
    assert loop(lambda v: v + tg.constant(1, "int64"), 0).dtype is tg.int64
    assert loop(lambda v: v + 1j, 0.0).dtype is tg.complex64


def test_the_function_is_called_once_if_literals_fit():
    calls = []
    loop(lambda v: calls.append(v) or v + 1.0, 0.0)
    tg.scan(lambda a, x: calls.append(a) or a + x, tg.constant([1.0]), 0.0)
    assert len(calls) == 2


def test_several_variables_depend_on_each_other():
    x = tg.constant(0.25, "float64")
    found = tg.while_loop(lambda i, *_: i < 5, lambda i, a, b, c: (i + 1, b, c, c + x), [0, 0, 0, 0])
    assert [t.dtype for t in found] == [tg.int32, tg.float64, tg.float64, tg.float64]
    swapped = tg.while_loop(lambda i, *_: i < 1, lambda i, a, b: (i + 1, b, a), [0, 1.0, x])
    assert [t.dtype for t in swapped] == [tg.int32, tg.float64, tg.float64]


def test_a_counter_beside_floats_stays_a_counter():
    x = tg.constant([1.5, 2.5], "float64")
    i, total = tg.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + i * x), [0, tg.zeros([2], "float64")])
    assert i.dtype is tg.int32
    assert run(total).tolist() == [4.5, 7.5]


def test_the_predicate_is_built_with_the_same_dtype():
    limit = tg.constant(1.25, "float64")
    found = tg.while_loop(lambda v: v < limit, lambda v: v + limit * 0.25, [0.0])
    assert found.dtype is tg.float64
    assert run(found) == 1.25


def test_tensors_and_arrays_keep_their_dtype():
    x = tg.constant(1.0, "float64")
    for start in (tg.constant(0.0), np.float32(0), np.zeros((), "float32")):
        with pytest.raises(tg.DtypeError):
            loop(lambda v: v + x, start)
    with pytest.raises(LoopVariableError, match="changes its dtype"):
        loop(lambda v: x, tg.constant(0.0))
    with pytest.raises(LoopVariableError, match="changes its dtype"):
        loop(lambda v: tg.constant(1), 0.0)  # a float does not become an int


def test_a_literal_that_the_dtype_does_not_have():
    with pytest.raises(LoopVariableError, match="begins with a literal") as caught:
        loop(lambda v: tg.constant(1, "uint8"), -1)
    assert caught.value.wanted is tg.uint8
    assert caught.value.got == "-1"


def test_what_is_built_twice_leaves_nothing_behind(graph):
    x = tg.constant(0.5, "float64")

    def body(v):
        with tg.name_scope("inner"):
            w = tf1.get_variable("w", [], "float64", initializer=tg.nn.ones_initializer("float64"))
            u = tg.Variable(2.0, dtype="float64", name="u")
        return v + x * w * u + tg.random_uniform([], dtype="float64") * 0

    found = loop(body, 0.0)
    names = [v.name for v in graph.collections["variables"]]
    assert len(names) == 2
    assert len(graph.collections["random_seeds"]) == 1
    alive = set(graph.root.walk())
    named = {op for op in graph._by_name.values() if op.type != "Param"}
    assert named <= alive
    for op in alive:
        assert all(user in alive for tensor in op.outputs for user in tensor._consumers)
    assert not any("weak" in t._derived for op in alive for t in op.outputs)
    with tg.SyncSession(graph) as session:
        session.run(tg.global_variables_initializer())
        assert session.run(found) == 3.0


def test_gradients_go_through():
    x = tg.constant(0.5, "float64")
    found = loop(lambda v: (v + x) * x, 0.0)
    (g,) = tg.gradients(found, [x])
    assert g.dtype is tg.float64
    assert run(g) == pytest.approx(4 * 0.125 + 3 * 0.25 + 2 * 0.5)


def test_functions():
    @tg.function
    def halves(x):
        w = tf1.get_variable("w", [], "float64", initializer=tg.nn.ones_initializer("float64"))
        return loop(lambda v: v * 0.5 + x * w, 0)

    assert halves.sync(np.float64(1)) == 1.75
