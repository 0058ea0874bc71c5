"""Rows of a tensor are a tensor where one is wanted, and have no operators of their own."""

import numpy as np
import pytest
import tagloom as tg


@pytest.fixture
def rows(graph):
    return tg.IndexedSlices(tg.constant([[1.0, 2.0], [3.0, 4.0]]), tg.constant([2, 0]), tg.constant([3, 2]))


@pytest.mark.parametrize(
    "use",
    [
        lambda r: r + 1.0,
        lambda r: 0.1 * r,
        lambda r: r / 2,
        lambda r: -r,
        lambda r: r @ [[1.0]],
        lambda r: r + r,
        lambda r: r**2,
        lambda r: np.ones((3, 2), np.float32) * r,
    ],
)
def test_operators_are_refused(rows, use):
    with pytest.raises(tg.GraphError, match="IndexedSlices have no operators") as caught:
        use(rows)
    assert "convert_to_tensor(slices)" in caught.value.hint
    assert caught.value.operation is rows.values.op


def test_operators_are_refused_for_what_was_fetched(graph):
    table = tg.placeholder("float32", [3, 2])
    (g,) = tg.gradients(tg.gather(table, [2, 0, 2]), [table])
    with tg.SyncSession(graph) as session:
        found = session.run(g, {table: np.ones((3, 2))})
    assert found.shape == tg.Shape([3, 2])
    with pytest.raises(tg.GraphError, match=r"IndexedSlices have no operators(.|\n)*shape \[3,2\]"):
        found - 1.0


def test_beside_a_tensor_they_are_dense(graph, rows):
    dense = [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    sums = [rows + tg.zeros([3, 2]), tg.zeros([3, 2]) + rows, tg.add(rows, 0.0), rows * tg.Variable(1.0)]
    with tg.SyncSession(graph) as session:
        session.run(tg.global_variables_initializer())
        for found in session.run(sums):
            assert found.tolist() == dense
