"""Errors of tagloom are caught as Python's own too, where these say the same."""

import pytest
import tagloom as tg


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (ValueError, lambda: tg.Shape([-1])),
        (ValueError, lambda: tg.reshape(tg.zeros([3]), [2])),
        (TypeError, lambda: tg.constant(1.0) + tg.constant(1)),
        (TypeError, lambda: tg.as_dtype("float33")),
    ],
)
def test_shapes_are_values_and_dtypes_are_types(graph, kind, wrong):
    with pytest.raises(kind) as caught:
        wrong()
    assert isinstance(caught.value, tg.GraphError)


def test_sizes_that_a_step_knows_are_tensors(graph):
    x = tg.placeholder("float32", [None, 2])
    for wrong in (lambda: tg.zeros([x.shape[0], 2]), lambda: tg.reshape(x, [None, 2])):
        with pytest.raises(tg.DtypeError, match="has to be integers") as caught:
            wrong()
        assert "shape(x)[0]" in caught.value.hint
        assert "-1" in caught.value.hint
