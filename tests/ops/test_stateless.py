"""Draws by a key: the same bits for the same key whatever runs them, and independent ones for other keys."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON

DRAWS = {
    "uniform": lambda key, n: tg.stateless_random_uniform([n], key),
    "uniform of float64": lambda key, n: tg.stateless_random_uniform([n], key, -1.0, 2.0, "float64"),
    "uniform of float16": lambda key, n: tg.stateless_random_uniform([n], key, dtype="float16"),
    "whole numbers": lambda key, n: tg.stateless_random_uniform([n], key, -5, 1000, "int64"),
    "normal": lambda key, n: tg.stateless_random_normal([n], key, 1.0, 2.0),
    "truncated normal": lambda key, n: tg.stateless_truncated_normal([n], key, 1.0, 2.0),
    "gamma": lambda key, n: tg.stateless_random_gamma([n], key, 2.0, 3.0),
    "poisson": lambda key, n: tg.stateless_random_poisson([n], key, 30.0),
    "categorical": lambda key, n: tg.stateless_categorical(np.zeros((1, 50), "float32"), n, key)[0],
    "shuffle": lambda key, n: tg.stateless_shuffle(tg.range(n), key),
    "dropout": lambda key, n: tg.stateless_dropout(tg.ones([n]), 0.5, key),
    "fold_in": lambda key, n: tg.fold_in(key, n),
    "split": lambda key, n: tg.stateless_split(key, n),
}
KEY = [7, -3]


def fixed(draw, key=KEY, n=40, **options):
    """Return what a draw by a fed key gives in a session."""
    with tg.Graph().as_default() as graph:
        fed = tg.placeholder("int64", [2])
        y = draw(fed, n)
    with tg.SyncSession(graph, **options) as session:
        return session.run(y, {fed: np.asarray(key, np.int64)})


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_key_gives_the_same_bits(name):
    draw = DRAWS[name]
    wanted = fixed(draw)
    np.testing.assert_array_equal(fixed(draw, executor="reference"), wanted)
    np.testing.assert_array_equal(fixed(draw, devices=2, settings=tg.Settings(fuse=False, native=False)), wanted)
    assert (fixed(draw, [7, -2]) != wanted).any()
    assert (fixed(draw, [8, -3]) != wanted).any()
    with tg.Graph(seed=5).as_default() as graph:  # constant keys, in loops and branches, of int32, in any step
        ones = tg.placeholder_with_default(tg.constant(1), [])
        keys = [tg.constant(KEY), tg.constant(KEY, "int64"), [7, -3], tg.stack([7 * ones, -3])]
        found = [draw(key, 40) for key in keys]
        found.append(tg.while_loop(lambda i, _: i < 3, lambda i, _: (i + 1, draw(KEY, 40)), [0, found[0]])[1])
        found.append(tg.cond(ones > 0, lambda: draw(KEY, 40), lambda: found[0]))
    with tg.SyncSession(graph) as session:
        for _ in range(2):
            for got in session.run(found):
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", [n for n in DRAWS if n not in ("shuffle", "dropout", "fold_in", "split")])
def test_distributions(name):
    count = 20000
    drawn = fixed(DRAWS[name], n=count).astype(float)
    mean, deviation = {
        "uniform": (0.5, 12**-0.5),
        "uniform of float64": (0.5, 3 * 12**-0.5),
        "uniform of float16": (0.5, 12**-0.5),
        "whole numbers": (497, 1005 * 12**-0.5),
        "normal": (1, 2),
        "truncated normal": (1, 2 * 0.8796),
        "gamma": (2 / 3, 2**0.5 / 3),
        "poisson": (30, 30**0.5),
        "categorical": (24.5, 50 * 12**-0.5),
    }[name]
    assert drawn.mean() == pytest.approx(mean, abs=5 * deviation / count**0.5)
    assert drawn.std() == pytest.approx(deviation, rel=0.05)


def test_a_shuffle_keeps_all_rows_and_dropout_scales():
    assert sorted(fixed(DRAWS["shuffle"]).tolist()) == list(range(40))
    dropped = fixed(DRAWS["dropout"], n=1000)
    assert set(dropped.tolist()) == {0.0, 2.0}
    assert 400 < (dropped == 0).sum() < 600


def test_new_keys_differ_from_each_other():
    made = [tuple(fixed(DRAWS["fold_in"], n=n).tolist()) for n in (0, 1, -1, 2**40)]
    made += [tuple(key) for key in fixed(DRAWS["split"], n=50).tolist()]
    made += [tuple(key) for key in fixed(DRAWS["split"], [1, 0], n=50).tolist()]
    assert len(set(made)) == len(made)
    few = fixed(DRAWS["split"], n=2)
    np.testing.assert_array_equal(few, fixed(DRAWS["split"], n=50)[:2])


def test_keys_in_a_loop():
    """A key of each iteration, and the same draws by keys folded outside."""
    with tg.Graph().as_default() as graph:
        step = lambda i, a: (i + 1, a.write(i, tg.stateless_random_normal([3], tg.fold_in(KEY, i))))  # noqa: E731
        inside = tg.while_loop(lambda i, a: i < 4, step, [0, tg.TensorArray("float32", 4)])[1].stack()
        outside = tg.stack([tg.stateless_random_normal([3], tg.fold_in(KEY, k)) for k in range(4)])
    with tg.SyncSession(graph) as session:
        a, b = session.run([inside, outside])
    np.testing.assert_array_equal(a, b)
    assert len(np.unique(a)) == 12


def in_loops(names, settings):
    """Return the draws of five iterations, of odd numbers of elements, each by a key of its own, and the reports."""
    with tg.Graph().as_default() as graph:
        start = tg.placeholder("int64", [2])
        found = []
        for name in names:
            first = tg.zeros_like(DRAWS[name](start, 33))
            step = lambda i, key, _, name=name: (i + 1, tg.fold_in(key, i), DRAWS[name](key, 33))  # noqa: E731
            found.append(tg.while_loop(lambda i, *_: i < 5, step, [0, start, first])[2])
    with tg.SyncSession(graph, settings=settings) as session:
        return session.run(found, {start: np.asarray(KEY, np.int64)}), session.report().loops


@pytest.mark.parametrize("llvm", [False, True])
def test_draws_of_loops_are_steps(llvm):
    """Native programs draw without the interpreter, with the bits of NumPy's generators."""
    names = [name for name in DRAWS if name != "uniform of float16"]
    found, loops = in_loops(names, replace(ON, llvm=llvm))
    wanted, _ = in_loops(names, replace(ON, straight=False))
    for a, b in zip(found, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
    assert {loop.limited_by for loop in loops} == {"native"}
    assert {name for loop in loops for name in loop.called} == set()


def test_gradients_reach_parameters():
    with tg.Graph().as_default() as graph:
        mean, alpha, high = (tg.placeholder_with_default(tg.constant(v), []) for v in (1.0, 2.0, 3.0))
        x = tg.placeholder_with_default(tg.ones([50]), [50])
        normal = tg.stateless_random_normal([5], KEY, mean, 2.0)
        gamma = tg.stateless_random_gamma([200], KEY, alpha)
        uniform = tg.stateless_random_uniform([5], KEY, 0.0, high)
        dropped = tg.stateless_dropout(x, 0.5, KEY)
        grads = [tg.gradients(y, [v])[0] for y, v in ((normal, mean), (gamma, alpha), (uniform, high), (dropped, x))]
        again = tg.random_gamma([200], alpha)
        other = tg.gradients(again, [alpha])[0]
    with tg.SyncSession(graph) as session:
        by_mean, by_alpha, by_high, by_x, kept, u = session.run([*grads, dropped, uniform / high])
        assert session.run(other) / 200 == pytest.approx(by_alpha / 200, rel=0.2)
    assert by_mean == 5
    assert by_high == pytest.approx(u.sum())
    np.testing.assert_array_equal(by_x, kept)


def test_wrong_keys():
    with tg.Graph().as_default() as graph:
        for wrong in ([1, 2, 3], 7, [[1, 2]]):
            with pytest.raises(tg.ShapeError, match="a key is two integers"):
                tg.stateless_random_uniform([2], wrong)
        with pytest.raises(tg.DtypeError, match="a key is two integers"):
            tg.fold_in([1.0, 2.0], 3)
        with pytest.raises(tg.ShapeError, match="split into some"):
            tg.stateless_split([1, 2], 0)
        with pytest.raises(tg.GraphError, match="needs a maxval"):
            tg.stateless_random_uniform([2], [1, 2], dtype="int32")
        with pytest.raises(tg.DtypeError, match="floating dtype"):
            tg.stateless_random_normal([2], [1, 2], dtype="int32")
        late = tg.placeholder("int32", [None])
        y = tg.stateless_random_uniform([2], late)
    with tg.SyncSession(graph) as session, pytest.raises(tg.OpError, match="two integers"):
        session.run(y, {late: [1, 2, 3]})
