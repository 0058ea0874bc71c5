"""A vector as condition of matrices says whether it chooses rows or columns: TensorFlow 1 and NumPy differ there."""

import numpy as np
import pytest
import tagloom as tg

SQUARE = np.arange(9.0).reshape(3, 3)


def chosen(condition, *values, ranks_known=True):
    """Return what where gives for fed arrays, of known ranks or not."""
    with tg.Graph().as_default() as graph:
        shapes = [[None] * np.ndim(v) if ranks_known else None for v in (condition, *values)]
        kinds = ["bool", "float64", "float64"]
        tensors = [tg.placeholder(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)]
        result = tg.where(*tensors)
    with tg.SyncSession(graph) as session:
        return session.run(result, dict(zip(tensors, map(np.asarray, (condition, *values)), strict=True)))


@pytest.mark.parametrize("values", [(SQUARE, -SQUARE), (0.0, SQUARE), (SQUARE, SQUARE[0]), (SQUARE[None], 0.0)])
def test_a_vector_does_not_choose_from_matrices(values):
    rank = max(map(np.ndim, values))
    with pytest.raises(tg.ShapeError, match="rows or columns") as building:
        chosen([True, False, False], *values)
    assert building.value.hint.startswith("cond[:, None] chooses rows" if rank == 2 else "cond[:, None, None]")
    with pytest.raises(tg.OpError, match="rows or columns") as running:
        chosen([True, False, False], *values, ranks_known=False)
    cause = running.value.__cause__
    assert isinstance(cause, tg.ShapeError)
    assert (cause.what, cause.hint) == (building.value.what, building.value.hint)


@pytest.mark.parametrize("ranks_known", [True, False])
def test_conditions_that_are_clear(ranks_known):
    def run(*values):
        return chosen(*values, ranks_known=ranks_known).tolist()

    rows = np.array([True, False, False])
    assert run(rows[:, None], SQUARE, -SQUARE) == np.where(rows[:, None], SQUARE, -SQUARE).tolist()
    assert run(rows[None], SQUARE, -SQUARE) == np.where(rows, SQUARE, -SQUARE).tolist()
    assert run(np.True_, SQUARE, 0.0) == SQUARE.tolist()
    assert run(rows, 1.0, 2.0) == run(rows, [1.0] * 3, 2.0) == [1.0, 2.0, 2.0]
    assert run([True], SQUARE[0], 0.0) == SQUARE[0].tolist()


def test_the_check_is_there_only_where_a_rank_is_open(graph):
    row, some, number = (tg.placeholder("float32", shape) for shape in ([None], None, []))
    flags, one, any_flags = (tg.placeholder("bool", shape) for shape in ([None], [], None))

    def checked(*tensors):
        return tg.where(*tensors).op.inputs[0].op.type == "CheckedCondition"

    assert [checked(flags, some, 0.0), checked(any_flags, row, number), checked(any_flags, some, some)] == [True] * 3
    assert [checked(flags, row, number), checked(one, some, row), checked(flags[:, None], some, row)] == [False] * 3


def test_a_gradient_goes_through_a_condition_that_is_checked():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", None)
        (g,) = tg.gradients(tg.where(tg.placeholder_with_default([True, False], None), x, 0.0), [x])
    with tg.SyncSession(graph) as session:
        assert session.run(g, {x: [1.0, 2.0]}).tolist() == [1.0, 0.0]


def test_an_invariant_mask_of_rows_that_a_loop_lifts():
    """The row of each iteration becomes a matrix, the mask stays a vector: that is no choice of the user's."""
    with tg.Graph().as_default() as graph:
        x, mask = tg.placeholder("float64", [40, 3]), tg.placeholder("bool", [3])
        _, total = tg.while_loop(
            lambda i, s: i < 40,
            lambda i, s: (i + 1, s + tg.where(mask, x[i] * 2.0, 0.0)),
            [0, tg.zeros([3], "float64")],
        )
    with tg.SyncSession(graph) as session:
        rows = np.random.default_rng(0).normal(size=(40, 3))
        got = session.run(total, {x: rows, mask: [True, False, True]})
    np.testing.assert_allclose(got, np.where([True, False, True], 2 * rows, 0).sum(0))
