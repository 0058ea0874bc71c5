"""What is fused lives and dies together: the miscompile of auto-clustering never happens (DA5, rule 132)."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile import Target, compile_until
from tagloom.deadness.regions import loops_are_regular
from tagloom.ir.program import Program
from tagloom.kernels.elementary.functions import elementary_function

from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

exp, tanh = elementary_function(np, "exp"), elementary_function(np, "tanh")  # of whose bits the results are
X = np.asarray([0.5, 1.0, 2.0], np.float32)


@pytest.fixture
def x():
    return tg.placeholder("float32", [3], "x")


@pytest.fixture
def p():
    return tg.placeholder("bool", [], "p")


def example(p, q, r):
    """Return S and T of the literature's graph: X uses A and B, Y uses B and C; its C is dead where R is."""
    a, b, c = tg.exp(p) + 1.0, tg.tanh(q) * 2.0, tg.sin(r) + 3.0
    return a + b, b * c


def values():
    return (exp(X) + np.float32(1)) + tanh(X) * np.float32(2)


def fused(graph, feeds, fetches):
    """Return the sets of steps that became one operation."""
    program = compile_until("fuse", Program(graph, feeds, fetches), Target(ON))
    return [[name for name, *_ in op.attrs["steps"]] for op in program.graph.root.walk() if op.type == "Fused"]


def observed(graph, results, feeds, settings=ON):
    """Return the results that are alive, by their number."""
    seen = {}
    with graph.as_default():
        targets = [
            tg.py_function(lambda v, k=k: seen.update({k: np.array(v)}), [t], [], stateful=False)
            for k, t in enumerate(results)
        ]
    with tg.SyncSession(graph, settings=settings) as session:
        session.run(targets, feeds)
    return seen


@pytest.mark.rule(132)
@pytest.mark.parametrize("alive", [True, False])
def test_the_example_of_the_literature(graph, x, p, alive):
    s, t = example(x, x, tg.switch(x, p)[1])
    assert sorted(fused(graph, [x, p], [s, t]), key=len) == [
        ["sin", "add", "multiply"],
        ["exp", "add", "tanh", "multiply", "add"],
    ]
    found = observed(graph, [s, t], {x: X, p: alive})
    assert sorted(found) == ([0, 1] if alive else [0])
    np.testing.assert_array_equal(found[0], values())


@pytest.mark.rule(132)
@pytest.mark.parametrize("alive", [True, False])
def test_a_dead_value_from_outside_of_a_branch(graph, x, p, alive):
    dead = tg.switch(x, p)[1]
    s, t = tg.cond(tg.reduce_sum(x) > 0, lambda: example(x, x, dead), lambda: (x, x))
    found = observed(graph, [s, t], {x: X, p: alive})
    assert sorted(found) == ([0, 1] if alive else [0])
    np.testing.assert_array_equal(found[0], values())


@pytest.mark.rule(132)
@pytest.mark.parametrize("alive", [True, False])
def test_a_dead_value_from_outside_of_a_loop(graph, x, p, alive):
    dead = tg.switch(x, p)[1]
    _, s, t = tg.while_loop(lambda i, s, t: i < 1, lambda i, s, t: (i + 1, *example(x, x, dead)), [0, x, x])
    found = observed(graph, [s, t], {x: X, p: alive})
    assert sorted(found) == ([0, 1] if alive else [0])
    np.testing.assert_array_equal(found[0], values())


@pytest.mark.parametrize("alive", [True, False])
def test_a_variable_of_a_loop_that_is_dead(graph, x, p, alive):
    """Nothing is known of the others: passes that take loops for regular leave this one as it is."""
    dead = tg.switch(x, p)[1]
    body = lambda a, s, k: (a + 1.0, s * 2.0, k)  # noqa: E731
    results = tg.while_loop(lambda a, s, k: tg.reduce_sum(s) < 100.0, body, [dead, x, x])
    program = Program(graph, [x, p], results)
    assert not loops_are_regular(compile_until("prune", program))
    plain = observed(graph, results, {x: X, p: alive}, ON.without("all"))
    found = observed(graph, results, {x: X, p: alive})
    assert found.keys() == plain.keys()
    assert all(np.array_equal(found[k], plain[k]) for k in plain)


def test_what_hangs_on_one_side_of_a_switch_is_fused_too(graph, x, p):
    low, high = tg.switch(x, p)
    y = tg.merge([tg.exp(low) + 1.0, tg.sin(high) * 2.0])[0]
    assert sorted(fused(graph, [x, p], [y])) == [["exp", "add"], ["sin", "multiply"]]
    for alive, expected in ((True, np.sin(X) * np.float32(2)), (False, exp(X) + np.float32(1))):
        with tg.SyncSession(graph, settings=ON) as session:
            np.testing.assert_array_equal(session.run(y, {x: X, p: alive}), expected)


def test_a_loop_that_is_dead_or_alive_as_a_whole_is_regular(graph, x, p):
    y = tg.while_loop(lambda a: tg.reduce_sum(a) < 100.0, lambda a: a * 2.0, [tg.switch(x, p)[1]])
    assert loops_are_regular(compile_until("prune", Program(graph, [x, p], [y])))


def test_loops_and_branches_are_regular_without_primitives(graph, x, p):
    body = lambda i, a: (i + 1, tg.cond(p, lambda: tg.exp(a), lambda: a))  # noqa: E731
    y = tg.while_loop(lambda i, a: i < 3, body, [0, x])[1]
    (slope,) = tg.gradients(tg.reduce_sum(y), [x])
    program = compile_until("prune", Program(graph, [x, p], [slope]))
    assert loops_are_regular(program)
