"""Gradients of loops whose counters start or step by a constant that the step feeds (rule 58)."""

import numpy as np
import pytest
import tagloom as tg


@pytest.mark.rule(58)
@pytest.mark.parametrize("relay", [lambda t: t, tg.identity])
def test_the_gradient_follows_a_fed_step_and_start(run, relay):
    one, first = tg.constant(1), tg.constant(0)
    x = tg.constant(np.arange(6.0))
    _, y = tg.while_loop(
        lambda i, y: i < 6,
        lambda i, y: (i + relay(one), y + tg.gather(x, i) * x[i]),
        [first, tg.constant(0.0, "float64")],
    )
    gradient = tg.convert_to_tensor(tg.gradients(y, [x])[0])
    assert run(gradient).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert run(gradient, {one: 2, first: 1}).tolist() == [0.0, 2.0, 0.0, 6.0, 0.0, 10.0]
