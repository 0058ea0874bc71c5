"""Parts of variables are assigned as NumPy assigns them."""

import numpy as np
import pytest
import tagloom as tg

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
KEYS = [
    np.s_[0],
    np.s_[-1],
    np.s_[1:],
    np.s_[:, 1],
    np.s_[:, 1:3],
    np.s_[..., 0],
    np.s_[..., 1:3],
    np.s_[0, ..., -1],
    np.s_[:, ::-1],
    np.s_[:, ::2, 1::2],
    np.s_[1, 2, 3],
    np.s_[:],
    np.s_[...],
    np.s_[0:0],
    np.s_[1, :, 2:],
    np.s_[5:],
]


def assigned(build, start=X, feeds=None):
    with tg.Graph().as_default() as graph:
        v = tg.Variable(start, name="v")
        new = build(v)
    with tg.SyncSession(graph) as session:
        session.run(v.initializer)
        found = session.run(new, feeds)
        np.testing.assert_array_equal(session.run(v), found)
        return found


@pytest.mark.parametrize("kind", ["whole", "scalar", "row"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys(key, kind):
    shape = X[key].shape
    if kind == "row" and (not shape or not shape[-1]):
        pytest.skip("has no rows")
    sizes = {"whole": shape, "scalar": (), "row": shape[-1:]}[kind]
    value = -1 - np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    wanted = X.copy()
    wanted[key] = value
    np.testing.assert_array_equal(assigned(lambda v: v[key].assign(value)), wanted)
    np.testing.assert_array_equal(assigned(lambda v: v.assign_part(key, value)), wanted)


def test_bounds_that_a_step_knows():
    wanted = X.copy()
    wanted[:, 1:3] = 7
    wanted[1] = 8

    def build(v):
        low, row = tg.placeholder_with_default(1, []), tg.placeholder_with_default(1, [])
        with tg.control_dependencies([v[:, low : low + 2].assign(7.0)]):
            return v[row].assign(8.0)

    np.testing.assert_array_equal(assigned(build), wanted)


def test_a_variable_whose_sizes_vary():
    def build(v):
        with tg.control_dependencies([v[1:].assign(5.0)]):
            return v[:, 0].assign([1.0, 2.0])

    with tg.Graph().as_default() as graph:
        v = tg.Variable(X[0, :2], shape=[None, None])
        new = build(v)
    with tg.SyncSession(graph) as session:
        session.run(v.initializer)
        assert session.run(new).tolist() == [[1, 1, 2, 3], [2, 5, 5, 5]]


def test_a_scalar_variable():
    assert assigned(lambda v: v[...].assign(3.0), np.float32(1)) == 3


def test_integers_take_literals():
    assert assigned(lambda v: v[1].assign(9), np.int64([1, 2])).tolist() == [1, 9]


def test_in_a_loop():
    def build(v):
        def body(i):
            with tg.control_dependencies([v[i].assign(tg.cast(i, "float32"))]):
                return i + 1

        with tg.control_dependencies([tg.while_loop(lambda i: i < 2, body, [0])]):
            return v.value()

    assert assigned(build)[:, 0, 0].tolist() == [0, 1]


def test_other_parts_are_kept_by_updates_beside_each_other():
    with tg.Graph().as_default() as graph:
        v = tg.Variable(np.zeros(4, np.float32))
        updates = [v[i].assign(float(i + 1)).op for i in range(4)]
    with tg.SyncSession(graph) as session:
        session.run(v.initializer)
        session.run(updates)
        assert session.run(v).tolist() == [1, 2, 3, 4]


def test_what_is_refused(graph):
    v = tg.Variable(X)
    for part in (tg.constant(X)[0], v[0] + 1.0, v + 0.0):
        with pytest.raises(tg.GraphError, match="no part of one"):
            part.assign(1.0)
    with pytest.raises(tg.ShapeError, match="does not fit the part"):
        v[0].assign(np.zeros(3, np.float32))
    with pytest.raises(tg.ShapeError, match="does not fit the part"):
        v[0, 0].assign(np.zeros((1, 4), np.float32))
    with pytest.raises(tg.GraphError, match="no new axes"):
        v[:, None].assign(1.0)
    with pytest.raises(tg.DtypeError):
        v[0, 0].assign(np.ones(4) * 1j)
