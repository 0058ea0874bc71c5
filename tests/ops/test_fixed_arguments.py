"""Arguments that are known while the graph is built: a step may not feed them something else (rule 58)."""

import pytest
import tagflow as tg


@pytest.mark.rule(58, 60)
@pytest.mark.parametrize("relay", [lambda t: t, tg.identity])
def test_an_axis_may_be_a_constant_that_is_not_fed(relay):
    with tg.Graph().as_default() as graph:
        axis, x = tg.constant(0), tg.constant([[1, 2], [3, 4]])
        y = tg.reduce_sum(x, relay(axis))
    with tg.SyncSession(graph) as session:
        assert session.run([y, axis])[0].tolist() == [4, 6]
        with pytest.raises(tg.GraphError, match="used while the graph was built") as refused:
            session.run(y, {axis: 1})
        assert refused.value.operation is axis.op
        assert session.run(y, {x: [[1, 1], [1, 1]]}).tolist() == [2, 2]
    assert not graph.is_feedable(axis)
