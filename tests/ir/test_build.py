"""Building operations: long chains, masks, literals of two kinds, tensors of two graphs."""

import numpy as np
import pytest
import tagloom as tg

pytestmark = pytest.mark.usefixtures("graph")


def test_a_value_behind_a_long_chain_is_known():
    shape = tg.constant([3])
    for _ in range(3000):
        shape = tg.identity(shape)
    assert tg.zeros(shape).shape == tg.Shape([3])
    assert tg.reshape(tg.ones([3]), tg.cast(shape, "int64")).shape == tg.Shape([3])


def test_numpy_masks_choose_rows(graph):
    x = tg.constant(np.arange(6.0).reshape(2, 3))
    with tg.SyncSession(graph) as session:
        rows, elements = session.run([x[np.array([True, False])], x[np.arange(6).reshape(2, 3) > 3]])
    assert rows.tolist() == [[0.0, 1.0, 2.0]]
    assert elements.tolist() == [4.0, 5.0]


def test_a_literal_of_strings_and_numbers_is_refused():
    with pytest.raises(tg.DtypeError, match="strings and other values"):
        tg.constant([1, "a"])


@pytest.mark.parametrize(("value", "dtype"), [(7e4, "float16"), (1e300, "float32"), (300, "uint8"), (-1, "uint64")])
def test_a_literal_too_large_for_its_dtype_is_refused(value, dtype):
    with pytest.raises(tg.DtypeError, match="cannot be converted"):
        tg.constant(value, dtype)
    assert tg.constant(float("-inf"), "float16").dtype == "float16"


def test_a_loop_variable_used_outside_names_the_loop():
    kept = []
    tg.while_loop(lambda i: i < 3, lambda i: kept.append(i) or i + 1, [0])
    with pytest.raises(tg.GraphError, match="outside the loop body") as refused:
        kept[0] + 1
    assert "test_build.py" in refused.value.got


def test_a_tensor_of_another_graph_is_refused_where_it_is_used():
    with tg.Graph().as_default():
        stranger = tg.constant(1.0)
    with pytest.raises(tg.GraphError, match="another graph") as refused:
        stranger + 1.0
    assert refused.value.source != stranger.op.source
    assert str(stranger.op.source) in refused.value.got


@pytest.mark.rule(63)
def test_a_tensor_used_outside_its_loop_names_both_places():
    inside = []
    tg.while_loop(lambda i: i < 3, lambda i: inside.append(i + 1) or inside[0], [0])
    with pytest.raises(tg.GraphError, match="outside the loop body") as refused:
        inside[0] + 1
    assert refused.value.source != inside[0].op.source
    assert str(inside[0].op.source) in refused.value.got
