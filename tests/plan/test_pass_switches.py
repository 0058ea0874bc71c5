"""Passes can be switched off; what a program computes does not depend on them."""

import numpy as np
import pytest
import tagflow as tg
from tagflow.compile import compile_plan
from tagflow.ir.rewrite import Program

SWITCHES = [{}, {"fold": False}, {"merge": False}, {"fold": False, "merge": False}]
COUNTS = [{"Add": 1, "Mul": 1}, {"Add": 1, "Mul": 2}, {"Add": 2, "Mul": 1}, {"Add": 2, "Mul": 2}]


def program():
    x = tg.placeholder("float32", [])
    constant = tg.constant(2.0) * tg.constant(3.0)
    return x, (x + constant) * (x + constant)


@pytest.mark.parametrize(("switches", "wanted"), list(zip(SWITCHES, COUNTS, strict=True)))
def test_a_switched_off_pass_leaves_operations_alone(switches, wanted):
    with tg.Graph().as_default() as graph:
        x, y = program()
    nodes = compile_plan(Program(graph, [x], [y]), tg.Settings(**switches)).nodes
    assert {kind: sum(node.type == kind for node in nodes) for kind in wanted} == wanted
    with tg.SyncSession(graph, settings=tg.Settings(**switches)) as session:
        assert session.run(y, {x: 1.0}) == 49.0


@pytest.mark.parametrize("switches", SWITCHES)
def test_gradients_through_a_loop_do_not_need_the_passes(switches):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2])
        _, y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tg.cond(i > 0, lambda: a * x, lambda: a)), [0, x])
        fetches = [y, *tg.gradients(y, [x])]
    with tg.SyncSession(graph, settings=tg.Settings(**switches)) as session:
        value, gradient = session.run(fetches, {x: np.array([2.0, 3.0], np.float32)})
    assert value.tolist() == [8.0, 27.0]
    assert gradient.tolist() == [12.0, 27.0]
