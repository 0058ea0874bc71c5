"""Loops of which only saved values are wanted, and hand-made loops named like others."""

import numpy as np
import pytest
import tagloom as tg

pytestmark = pytest.mark.usefixtures("graph")


@pytest.fixture(params=["machine", "reference"])
def run(request, graph):
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session.run


@pytest.mark.rule(39, 57, 84)
def test_a_loop_without_needed_variables_still_gives_what_it_saved(run):
    calls = []

    def three_times():
        calls.append(1)
        return len(calls) % 4 != 0

    x = tg.constant(3.0)
    y = tg.while_loop(
        lambda y: tg.reshape(tg.py_function(three_times, [], "bool"), []), lambda y: tg.exp(x) * 1.0, [1.0]
    )
    (gradient,) = tg.gradients(y, [x])
    assert run(gradient) == pytest.approx(np.exp(3.0))
    assert len(calls) == 4


@pytest.mark.rule(39, 40)
@pytest.mark.parametrize("taken", [True, False])
def test_such_a_loop_in_a_branch(run, taken):
    p, stop = tg.placeholder("bool", []), tg.placeholder("bool", [])
    x = tg.constant(3.0)
    y = tg.cond(p, lambda: tg.while_loop(lambda y: stop, lambda y: x * x, [1.0]), lambda: x * 2.0)
    (gradient,) = tg.gradients(y, [x])
    assert run(gradient, {p: taken, stop: False}) == (0.0 if taken else 2.0)


@pytest.mark.rule(23, 54)
def test_a_hand_made_loop_may_have_the_name_of_a_while(run):
    counted = tg.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="loop")
    enter = tg.enter(tg.constant(0), "loop")
    one, limit = (tg.enter(tg.constant(n), "loop", is_constant=True) for n in (1, 5))
    merged, _ = tg.merge([enter, enter])
    ended, going = tg.switch(merged, tg.loop_cond(merged < limit))
    merged.op.update_input(1, tg.next_iteration(going + one))
    assert run([counted, tg.exit(ended)]) == [3, 5]
