"""Cells and what runs them give TensorFlow's results and gradients, where that is installed."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import nest

from tests.peers.other_side import answers, needs
from tests.support.tiers import choose

COUNT = 30
KINDS = {"basic": tg.nn.BasicRNNCell, "lstm": tg.nn.LSTMCell, "gru": tg.nn.GRUCell}


def drawn(random):
    """Return a random case."""
    kind = str(random.choice(list(KINDS)))
    options = {}
    if kind == "lstm":
        options = {"use_peepholes": bool(random.random() < 0.5), "forget_bias": float(random.choice([0.0, 1.0]))}
        options |= {"cell_clip": 0.3} if random.random() < 0.3 else {}
        options |= {"num_proj": 3, "proj_clip": 0.2} if random.random() < 0.3 else {}
    batch, time, depth, units = (int(random.integers(low, high)) for low, high in ((1, 6), (1, 7), (1, 4), (1, 5)))
    layers, bidirectional, time_major = int(random.integers(1, 3)), bool(random.random() < 0.4), random.random() < 0.5
    lengths = None if random.random() < 0.3 else random.integers(0, time + 1, batch).astype(np.int32)
    x = random.standard_normal((time, batch, depth) if time_major else (batch, time, depth)).astype(np.float32)
    case = {
        "kind": kind,
        "options": options,
        "units": units,
        "layers": layers,
        "residual": bool(random.random() < 0.5),
        "bidirectional": bidirectional,
        "time_major": bool(time_major),
        "lengths": lengths,
        "x": x,
    }
    size = options.get("num_proj", units)
    weights = []
    for _ in range(1 + bidirectional):
        for layer in range(layers):
            weights += layer_weights(random, case, size if layer else depth, size)
    return {**case, "weights": [w.astype(np.float32) for w in weights]}


def layer_weights(random, case, depth, size):
    """Return weights of one cell, in TensorFlow's order."""
    units, rows = case["units"], depth + size
    shapes = {"basic": [(rows, units), (units,)], "lstm": [(rows, 4 * units), (4 * units,)]}
    shapes["gru"] = [(rows, 2 * units), (2 * units,), (rows, units), (units,)]
    found = list(shapes[case["kind"]])
    if case["options"].get("use_peepholes"):
        found += [(units,)] * 3
    if "num_proj" in case["options"]:
        found.append((units, size))
    return [random.standard_normal(shape) for shape in found]


def variables_of(cell):
    """Return the variables of a cell in TensorFlow's order."""
    if isinstance(cell, tg.nn.MultiRNNCell):
        return [v for each in cell.cells for v in variables_of(each)]
    if isinstance(cell, tg.nn.ResidualWrapper):
        return variables_of(cell.cell)
    if not isinstance(cell, tg.nn.LSTMCell):
        return cell.parameters()
    peepholes = [cell.peepholes[gate] for gate in ("forget", "input", "output")] if cell.peepholes else []
    return [cell.kernel, cell.bias, *peepholes, *([cell.projection] if cell.projection is not None else [])]


def stacked(case):
    """Return the cells of a case, one upon the other."""
    layers = [KINDS[case["kind"]](case["units"], **case["options"]) for _ in range(case["layers"])]
    if case["residual"]:
        layers[1:] = [tg.nn.ResidualWrapper(cell) for cell in layers[1:]]
    return layers[0] if len(layers) == 1 else tg.nn.MultiRNNCell(layers)


def ours(case, blocks=None):
    """Return tagloom's outputs, states and gradients."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", case["x"].shape)
        if case["bidirectional"]:
            cells = [stacked(case), stacked(case)]
            outputs, states = tg.nn.bidirectional_dynamic_rnn(*cells, x, case["lengths"], time_major=case["time_major"])
        else:
            cells = [stacked(case)]
            outputs, states = tg.nn.dynamic_rnn(
                cells[0], x, case["lengths"], time_major=case["time_major"], blocks=blocks
            )
        variables = [v for cell in cells for v in variables_of(cell)]
        found = [*nest.flatten(outputs), *nest.flatten(states)]
        loss = tg.add_n([tg.reduce_sum(tg.sin(3.0 * y)) for y in found])
        gradients = tg.gradients(loss, [x, *variables])
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        session.write_variables({v.name: value for v, value in zip(variables, case["weights"], strict=True)})
        return session.run([*found, *gradients], {x: case["x"]})


@pytest.fixture(scope="module")
def cases():
    random = np.random.default_rng(0)
    return [drawn(random) for _ in range(COUNT)]


@needs("tensorflow")
def test_outputs_states_and_gradients_are_tensorflows(cases):
    for case, theirs in zip(cases, answers("recurrent_side", cases), strict=True):
        assert not isinstance(theirs, str), f"{theirs}: {case}"
        compare(case, ours(case), theirs)


def test_blocks_of_rows_change_nothing(cases):
    some = [c for c in cases if c["lengths"] is not None and len(c["lengths"]) > 1 and not c["bidirectional"]]
    assert some
    for case in some[:: choose(thorough=1, default=4)]:
        compare(case, ours(case, blocks=len(case["lengths"])), ours(case, blocks=1))


def compare(case, found, wanted):
    """Fail unless the arrays are alike."""
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.shape == theirs.shape, case
        largest = max(1.0, float(np.abs(theirs).max(initial=0)))
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=2e-5 * largest, err_msg=str(case))
