"""A scalar of NumPy is a literal: it takes the dtype of what it meets."""

import numpy as np
import pytest
import tagloom as tg


@pytest.mark.parametrize(
    ("use", "wanted"),
    [
        (lambda x: x * np.sqrt(2.0), 2 * np.sqrt(2)),
        (lambda x: np.float64(3.0) * x, 6.0),
        (lambda x: x - np.int64(1), 1.0),
        (lambda x: np.int8(1) - x, -1.0),
        (lambda x: tg.maximum(np.float64(5.0), x), 5.0),
        (lambda x: tg.where(np.True_, x, np.float64(0)), 2.0),
        (lambda x: tg.reduce_sum(tg.stack([np.float64(1), x])), 3.0),
        (lambda x: tg.cond(x > np.float64(1), lambda: x, lambda: np.float64(0)), 2.0),
        (lambda x: tg.while_loop(lambda a: a < 9.0, lambda a: np.float64(9), [x]), 9.0),
        (lambda x: tg.clip_by_value(x, np.float64(0), np.int64(1)), 1.0),
    ],
)
def test_beside_a_tensor(graph, use, wanted):
    result = use(tg.constant(2.0))
    assert result.dtype is tg.float32
    with tg.SyncSession(graph) as session:
        assert session.run(result) == np.float32(wanted)


def test_alone_it_keeps_its_dtype(graph):
    assert [tg.constant(v).dtype.name for v in (np.float64(1), np.int64(1))] == ["float64", "int64"]
    assert tg.add(np.float64(1), 2.0).dtype is tg.float64
    assert tg.constant(np.float64(1), "float32").dtype is tg.float32
    assert tg.sqrt(np.int64(4)).dtype is tg.float32


def test_what_does_not_fit_is_refused_and_arrays_keep_their_dtype(graph):
    x, n = tg.constant(2.0), tg.constant(2)
    for wrong in (
        lambda: n * np.float64(2),
        lambda: n + np.int64(2**40),
        lambda: x * np.float64(1e300),
        lambda: x + np.ones(2),
    ):
        with pytest.raises(tg.DtypeError):
            wrong()
