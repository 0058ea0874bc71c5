"""Passes can be switched off; what a program computes does not depend on them."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import GraphError
from tagloom.base.settings import FAST_PATHS
from tagloom.compile import PIPELINE, Target, compile_until
from tagloom.ir.program import Program
from tagloom.training import AdamOptimizer

from tests.support.compiling import plan_of
from tests.support.settings import ON

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
    nodes = plan_of(Program(graph, [x], [y]), replace(ON, **switches)).nodes
    assert {kind: sum(node.type == kind for node in nodes) for kind in wanted} == wanted
    with tg.SyncSession(graph, settings=replace(ON, **switches)) as session:
        assert session.run(y, {x: 1.0}) == 49.0


@pytest.mark.parametrize("switches", SWITCHES)
def test_gradients_through_a_loop_do_not_need_the_passes(switches):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2])
        _, y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tg.cond(i > 0, lambda: a * x, lambda: a)), [0, x])
        fetches = [y, *tg.gradients(y, [x])]
    with tg.SyncSession(graph, settings=replace(ON, **switches)) as session:
        value, gradient = session.run(fetches, {x: np.array([2.0, 3.0], np.float32)})
    assert value.tolist() == [8.0, 27.0]
    assert gradient.tolist() == [12.0, 27.0]


def lstm(length=4, batch=16, inputs=128, units=32):
    """Build the plain LSTM a user writes; return its input, its loss and the gradients of its weights and input."""
    rng = np.random.default_rng(0)
    x = tg.placeholder("float64", [length, batch, inputs])
    w = tg.constant(rng.normal(size=(inputs + units, 4 * units)) * 0.1)
    b = tg.constant(rng.normal(size=(4 * units,)))
    rows = tg.TensorArray("float64", length).unstack(x)

    def body(t, h, c, ys):
        i, f, o, g = tg.split(tg.concat([rows.read(t), h], 1) @ w + b, 4, axis=1)
        c = c * tg.sigmoid(f + (tg.constant(0.5, "float64") + 0.5)) + tg.sigmoid(i) * tg.tanh(g)
        h = tg.tanh(c) * tg.sigmoid(o)
        return t + 1, h, c, ys.write(t, h)

    start = tg.zeros([batch, units], "float64")
    *_, ys = tg.while_loop(lambda t, *_: t < length, body, [0, start, start, tg.TensorArray("float64", length)])
    loss = tg.reduce_sum(tg.square(ys.stack()))
    return x, [loss, *tg.gradients(loss, [w, b, x])]


@pytest.fixture(scope="module", params=[3, 4], ids=["weights", "weights and input"])
def trained(request):
    """The LSTM with the gradients of some, something to feed, and what it gives without any fast path."""
    with tg.Graph().as_default() as graph:
        x, fetches = lstm()
    fetches, feeds = fetches[: request.param], {x: np.random.default_rng(1).normal(size=x.shape.as_tuple())}
    with tg.SyncSession(graph, settings=ON.without("all")) as session:
        return graph, fetches, feeds, session.run(fetches, feeds)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("off", [None, *FAST_PATHS])
def test_a_hand_written_lstm_does_not_need_the_fast_paths(trained, off):
    graph, fetches, feeds, expected = trained
    with tg.SyncSession(graph, settings=ON.without(*filter(None, [off]))) as session:
        for result, wanted in zip(session.run(fetches, feeds), expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-10, atol=1e-12)


def adam():
    """Build a step of Adam on a bias that a loop hands through."""
    x = tg.placeholder("float64", [2, 8])
    bias = tg.Variable(np.ones(8), name="bias")
    _, y, _ = tg.while_loop(lambda i, y, b: i < 3, lambda i, y, b: (i + 1, tg.tanh(y * b + y), b), [0, x, bias.value()])
    return [x], [], [AdamOptimizer(0.1).minimize(tg.reduce_sum(y))]


def product():
    """Build the gradient of an elementwise product of which the batch is not known."""
    x = tg.placeholder("float64", [None, 8])
    return [x], tg.gradients(tg.reduce_sum(x * tg.exp(x)), [x]), []


def small_lstm():
    x, fetches = lstm()
    return [x], fetches[:3], []


def gates():
    """Build a loop with two products of one state."""
    x, v, w = (tg.placeholder("float64", [2, 2]) for _ in range(3))
    y = tg.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tg.tanh(y @ v) * (y @ w)), [0, x])[1]
    return [x, v, w], [y], []


def unrelated_widths():
    """Build a chain of which nothing is elementwise."""
    x = tg.placeholder("float64", [2, 2])
    y = x
    for _ in range(8):
        y = tg.transpose(y @ x)
    return [x], [y], []


WORK = {
    "cluster": unrelated_widths,
    "merge_products": gates,
    "broadcast_sums": product,
    "forward_assignments": adam,
    "loop_invariants": adam,
}  # others have some in lstm


@pytest.mark.parametrize("off", sorted({row.switch for row in PIPELINE} - {None}))
def test_each_pass_has_something_to_do_in_it(off):
    with tg.Graph().as_default() as graph:
        feeds, fetches, targets = WORK.get(off, small_lstm)()
    program = Program(graph, feeds, fetches, targets)
    # What these leave is taken; a native program has no use for it.
    before = {
        "accumulate": ["batch"],
        "block_bytes": ["hoist_bytes", "keep_products"],
        "hoist_bytes": ["keep_products"],
    }
    on = ON.without(*before.get(off, []))
    texts = [compile_until("cluster", program, Target(each)).graph.to_text() for each in (on, on.without(off))]
    assert texts[0] != texts[1]


def test_every_pass_that_can_be_switched_off_is_a_fast_path():
    assert {row.switch for row in PIPELINE} - {None} <= FAST_PATHS.keys() & tg.Switches.__dataclass_fields__.keys()


def test_rows_have_names_of_their_own():
    names = [row.name for row in PIPELINE]
    assert len(names) == len(set(names))


def test_a_program_is_dumped_behind_the_rows_that_are_named(capsys):
    with tg.Graph().as_default() as graph:
        x, y = program()
    plan_of(Program(graph, [x], [y]), replace(ON, dump="fold, lower,plan"))
    shown = capsys.readouterr().err
    assert [line for line in shown.splitlines() if line.startswith("# ")] == [
        "# after fold (structured)",
        "# after lower (lowered)",
        "# after plan (planned)",
    ]
    assert "Mul" in shown
    assert "fetch_0 FETCH" in shown


def test_all_rows_can_be_dumped(capsys):
    with tg.Graph().as_default() as graph:
        x, y = program()
    plan_of(Program(graph, [x], [y]), replace(ON, dump="all"))
    dumped = [line.split()[2] for line in capsys.readouterr().err.splitlines() if line.startswith("# after")]
    assert dumped == [row.name for row in PIPELINE if row.is_on(Target(ON))]


def test_an_unknown_row_is_refused():
    with tg.Graph().as_default() as graph:
        x, y = program()
    with pytest.raises(GraphError, match=r"no such pass\n.*partial_run, prune.*\n.*fuze"):
        plan_of(Program(graph, [x], [y]), replace(ON, dump="fuze"))
    with pytest.raises(GraphError, match="no such pass"):
        compile_until("melt", Program(graph, [x], [y]))
