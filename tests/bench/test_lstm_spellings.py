"""Every spelling of a recurrent cell computes what NumPy does, with a batch of known and of unknown size."""

import inspect
from contextlib import AsyncExitStack

import numpy as np
import pytest
import tagloom as tg

from bench import lstm_spellings
from bench.protocol import compare
from bench.recurrent_cells import BY_GATE, PARTED, SPELLINGS, SWAPPED, TRANSPOSED, feeds, problem

SIZES = {"batch": 2, "units": 4, "length": 3}
NAMES = [" ".join(names) for names in SPELLINGS]


def case(names, kind="static"):
    cell, spelling = names.split()
    return {"cell": cell, "spelling": spelling, "batch_kind": kind, **SIZES}


async def run(factory, case):
    """Return a step's values, laid out as its cell has them."""
    async with AsyncExitStack() as stack:
        step = factory(case, stack)
        step = await step if inspect.isawaitable(step) else step
        values = step()
        return step.compared(await values if inspect.isawaitable(values) else values)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normed(x, gain, shift):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + shift


def lstm(x, h, c, kernel, bias):
    i, j, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, 1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
    return sigmoid(o) * np.tanh(c), c


def gru(x, h, c, kernel, bias, candidate_kernel, candidate_bias):
    r, u = np.split(sigmoid(np.hstack([x, h]) @ kernel + bias), 2, 1)
    return u * h + (1 - u) * np.tanh(np.hstack([x, r * h]) @ candidate_kernel + candidate_bias), c


def layer_normed_lstm(x, h, c, kernel, *norms):
    gates = np.split(np.hstack([x, h]) @ kernel, 4, 1)
    i, j, f, o = (normed(gates[k], norms[2 * k], norms[2 * k + 1]) for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
    return sigmoid(o) * np.tanh(normed(c, norms[8], norms[9])), c


def loss(given, cell, weights):
    """Return the mean squared error in float64."""
    h = c = np.zeros(given.targets.shape[1:])
    errors = []
    for x, y in zip(given.inputs, given.targets, strict=True):
        h, c = cell(x, h, c, *weights)
        errors.append(h - y)
    return np.mean(np.square(errors))


def gradient(given, cell, weights, index, step=1e-5):
    """Return the gradient of the loss by one of the weights, by central differences."""
    found = np.zeros_like(weights[index])
    for place in np.ndindex(found.shape):
        sides = [[w.copy() for w in weights] for _ in range(2)]
        sides[0][index][place] += step
        sides[1][index][place] -= step
        found[place] = (loss(given, cell, sides[0]) - loss(given, cell, sides[1])) / (2 * step)
    return found


@pytest.fixture(scope="module")
def wanted():
    """Loss and gradients of each cell."""
    found = {}
    for cell in (lstm, gru, layer_normed_lstm):
        given = problem({"cell": cell.__name__, **SIZES})
        weights = [w.astype(np.float64) for w in given.weights]
        gradients = [gradient(given, cell, weights, index) for index in range(len(weights))]
        found[cell.__name__] = [np.asarray(loss(given, cell, weights)), *gradients]
    return found


@pytest.mark.parametrize("kind", ["static", "none"])
@pytest.mark.parametrize("names", NAMES)
async def test_a_spelling_trains_its_cell(names, kind, wanted):
    chosen = case(names, kind)
    assert compare(wanted[chosen["cell"]], await run(lstm_spellings.tagloom, chosen), 1e-4) is None


@pytest.mark.parametrize("peer", ["jax", "torch"])
@pytest.mark.parametrize("names", NAMES)
async def test_a_peer_trains_the_same_cells(names, peer, wanted):
    pytest.importorskip(peer, reason=f"{peer} is not installed; it is one of bench/requirements-peers.txt")
    chosen = case(names)
    assert compare(wanted[chosen["cell"]], await run(getattr(lstm_spellings, peer), chosen), 1e-4) is None


@pytest.mark.parametrize("names", NAMES)
def test_a_batch_of_unknown_size_is_unknown_to_the_loop(names):
    for kind, size in (("static", 2), ("none", None)):
        graph, _, fed, _ = lstm_spellings.training(tg, case(names, kind))
        axes = [axis for _, axis in feeds(case(names), problem(case(names)))]
        assert [t.shape[axis] for t, axis in zip(fed, axes, strict=True)] == [size] * len(fed)
        loop = next(op for op in graph.root.walk() if op.type == "While")
        states = [p.shape for p in loop.regions[1].params if p.rank == 2]
        assert states
        assert {shape[0] for shape in states} == {size}


def test_all_spellings_read_the_same_inputs():
    given = problem(case("lstm context"))
    (vectors, _), _ = feeds(case("lstm concat_x_h"), given)
    (words, _), _ = feeds(case("lstm embedding"), given)
    (parts, _), (context, _), _ = feeds(case("lstm context"), given)
    np.testing.assert_array_equal(given.vectors[words], vectors)
    for x, part in zip(vectors, parts, strict=True):
        np.testing.assert_array_equal(np.hstack([part, context]), x)
    assert len(np.unique(vectors[..., :2])) > len(np.unique(vectors[..., 2:]))


@pytest.mark.parametrize("layout", [SWAPPED, PARTED, BY_GATE, TRANSPOSED])
def test_a_layout_restores_what_it_arranges(layout):
    weights = problem({"cell": "lstm", **SIZES}).weights
    arranged = layout.arrange(weights)
    assert sum(w.size for w in arranged) == sum(w.size for w in weights)
    assert [w.shape for w in arranged] != [w.shape for w in weights] or not np.array_equal(arranged[0], weights[0])
    for a, b in zip(layout.restore(arranged), weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_spellings_are_compared_with_the_best_and_unknown_batches_with_static_ones():
    rates = {("a", "static"): 8.0, ("b", "static"): 4.0, ("a", "none"): 2.0, ("b", "none"): 5.0}
    medians = [
        ({"cell": "lstm", "spelling": s, "batch_kind": k, "units": u}, u * r)
        for (s, k), r in rates.items()
        for u in (1, 2)
    ]
    medians += [
        ({"cell": "gru", "spelling": "a", "batch_kind": k, "units": 1}, r) for k, r in (("static", 4.0), ("none", 3.0))
    ]
    found = {(*c.values(), name): value for c, name, value in lstm_spellings.sides(medians)}
    for units in (1, 2):
        best = {key[1:3]: value for key, value in found.items() if key[3:] == (units, "best_spelling")}
        assert best == {("a", "static"): 1.0, ("b", "static"): 0.5, ("a", "none"): 0.4, ("b", "none"): 1.0}
        static = {key[1]: value for key, value in found.items() if key[0] == "lstm" and key[3:] == (units, "static")}
        assert static == {"a": 0.25, "b": 1.25}
    assert {key: value for key, value in found.items() if key[0] == "gru"} == {("gru", "a", "none", 1, "static"): 0.75}


def test_cases_are_eight_spellings_and_two_cells_of_two_sizes_and_kinds():
    found = lstm_spellings.EXPERIMENT.cases
    assert len(found) == (8 + 2) * 2 * 2
    assert sum(c["cell"] == "lstm" for c in found) == 8 * 2 * 2
    assert {(c["batch"], c["units"], c["length"]) for c in found} == {(16, 128, 200), (64, 512, 50)}
    assert lstm_spellings.EXPERIMENT.quick().cases == found
