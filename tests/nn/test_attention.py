"""Attention: values by plain NumPy, masks, queries that see nothing, dropout, lengths that are not known."""

import numpy as np
import pytest
import tagloom as tg

RANDOM = np.random.default_rng(8)


def attention(layer, values, query, key, value, seen):
    """Compute one head after the other, one query after the other."""
    q, k, v = (
        x @ values[f"{n}.kernel"] + values[f"{n}.bias"] for n, x in zip(("query", "key", "value"), (query, key, value))
    )
    size, heads = layer.head_size, []
    for h in range(layer.num_heads):
        part = slice(h * size, (h + 1) * size)
        logits = q[..., part] @ np.swapaxes(k[..., part], -1, -2) / np.sqrt(size)
        powers = np.where(seen[:, h], np.exp(logits - logits.max(-1, keepdims=True)), 0)
        total = powers.sum(-1, keepdims=True)
        heads.append(powers / np.where(total > 0, total, 1) @ v[..., part])
    return np.concatenate(heads, -1) @ values["output.kernel"] + values["output.bias"]


def built(start, run, layer, *calls):
    """Give all variables of a layer random values, which are returned."""
    start(tg.no_op())
    values = {}
    for name, v in layer.named_parameters():
        values[name] = RANDOM.standard_normal(v.shape.as_tuple())
        run(v.assign(values[name]))
    return values


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mask", [None, "queries", "batch", "heads", "keys"])
@pytest.mark.parametrize("causal", [False, True])
def test_values(start, run, mask, causal, known):
    query, key, value = (
        RANDOM.standard_normal((2, 4, 6)),
        RANDOM.standard_normal((2, 5, 3)),
        RANDOM.standard_normal((2, 5, 7)),
    )
    fed = [tg.placeholder("float64", x.shape if known else [None, None, x.shape[2]]) for x in (query, key, value)]
    shapes = {"queries": (4, 5), "batch": (2, 4, 5), "heads": (2, 3, 4, 5), "keys": (2, 1, 5)}
    seen = np.ones((2, 3, 4, 5), bool)
    given = None
    if mask:
        given = RANDOM.random(shapes[mask]) < 0.6
        seen &= given[:, None] if given.ndim == 3 else given
    if causal:
        seen &= np.arange(5) <= np.arange(4)[:, None]
    layer = tg.nn.MultiHeadAttention(3, head_size=4, output_size=5, dropout=0.5)
    y = layer(*fed, mask=given, causal=causal)
    values = built(start, run, layer)
    found = run(y, dict(zip(fed, (query, key, value))))
    np.testing.assert_allclose(found, attention(layer, values, query, key, value, seen), rtol=1e-9, atol=1e-9)


def test_self_attention_has_the_size_of_what_comes_in(start, run):
    x = RANDOM.standard_normal((2, 3, 8))
    layer = tg.nn.MultiHeadAttention(4)
    y = layer(x)
    assert {n: tuple(v.shape) for n, v in layer.named_parameters()} == {
        **{f"{n}.kernel": (8, 8) for n in ("query", "key", "value", "output")},
        **{f"{n}.bias": (8,) for n in ("query", "key", "value", "output")},
    }
    values = built(start, run, layer)
    np.testing.assert_allclose(run(y), attention(layer, values, x, x, x, np.ones((2, 4, 3, 3), bool)), rtol=1e-9)
    names = [v.name for v in layer.parameters()]
    assert names[0] == "multiheadattention/query/kernel"


def test_a_query_that_sees_nothing_has_the_bias_and_no_gradient(start, run):
    x = tg.constant(RANDOM.standard_normal((1, 3, 4)))
    mask = np.array([[True, True, False], [False] * 3, [True] * 3])
    layer = tg.nn.MultiHeadAttention(2, bias_initializer=[1.0, 2.0, 3.0, 4.0])
    y, weights = layer(x, mask=mask, return_weights=True)
    (slope,) = tg.gradients(y[:, 1], [x])
    found, shares, slopes = start([y, weights, slope])
    np.testing.assert_allclose(found[0, 1], [1, 2, 3, 4])
    np.testing.assert_allclose(shares.sum(-1), np.broadcast_to([1, 0, 1], (1, 2, 3)))
    np.testing.assert_array_equal(slopes, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_each_dtype(start, dtype):
    layer = tg.nn.MultiHeadAttention(2)
    x = tg.constant(RANDOM.standard_normal((1, 3, 4)).astype(dtype))
    y, weights = layer(x, causal=True, return_weights=True)
    found, shares = start([y, weights])
    assert found.dtype == shares.dtype == dtype
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=2e-3)
    assert (shares * np.triu(np.ones((3, 3)), 1) == 0).all()


def test_weights_are_dropped_in_training(start):
    layer = tg.nn.MultiHeadAttention(1, dropout=0.5, kernel_initializer="identity")
    x = np.ones((1, 40, 2), np.float32)
    found = start([layer(x), layer(x, training=True), layer(x, training=tg.constant(True))])
    np.testing.assert_allclose(found[0], 1, rtol=1e-6)
    for each in found[1:]:
        assert len(np.unique(np.round(each, 3))) > 3
        assert abs(each.mean() - 1) < 0.2


def test_gradients_are_the_derivatives(start, run):
    data = RANDOM.standard_normal((1, 3, 4))
    x = tg.placeholder("float64", [1, 3, 4])
    layer = tg.nn.MultiHeadAttention(2)
    total = tg.reduce_sum(tg.square(layer(x, causal=True)) * RANDOM.standard_normal((1, 3, 4)))
    slopes = tg.gradients(total, [x, layer.key.kernel])
    values = built(start, run, layer)
    found = run(slopes, {x: data})
    for at in np.ndindex(1, 3, 4):
        moved = [data.copy() for _ in range(2)]
        moved[0][at] += 1e-6
        moved[1][at] -= 1e-6
        high, low = (run(total, {x: m}) for m in moved)
        assert found[0][at] == pytest.approx((high - low) / 2e-6, rel=1e-5, abs=1e-6)
    for at in np.ndindex(4, 4):
        ends = []
        for step in (1e-6, -1e-6):
            kernel = values["key.kernel"].copy()
            kernel[at] += step
            ends.append(run(total, {x: data, layer.key.kernel: kernel}))
        assert found[1][at] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-5)


def test_self_attention_knows_the_size_of_keys(start, run):
    data = RANDOM.standard_normal((2, 3, 8)).astype(np.float32)
    x = tg.placeholder("float32", [None, None, None])
    layer = tg.nn.MultiHeadAttention(2, input_size=8)
    y, same = layer(x), layer(data)
    found, wanted = start([y, same], {x: data})
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_what_does_not_fit_is_refused():
    with pytest.raises(tg.GraphError, match="attention has heads"):
        tg.nn.MultiHeadAttention(0)
    for shape in (None, [3], [2, 1, 1, 3, 3]):
        with pytest.raises(tg.ShapeError, match="a mask of attention has another rank"):
            tg.nn.MultiHeadAttention(2)(tg.ones([2, 3, 4]), mask=tg.placeholder("bool", shape))
    with pytest.raises(tg.GraphError, match="cannot be split"):
        tg.nn.MultiHeadAttention(3, input_size=8)
    with pytest.raises(tg.ShapeError, match="takes sequences"):
        tg.nn.MultiHeadAttention(2)(tg.ones([3, 4]))
    with pytest.raises(tg.DtypeError, match="where a query may see a key"):
        tg.nn.MultiHeadAttention(2)(tg.ones([1, 3, 4]), mask=tg.ones([3, 3]))


class TestEncoder:
    @pytest.mark.parametrize("first", [True, False])
    def test_values(self, start, first):
        x = RANDOM.standard_normal((2, 3, 4))
        layer = tg.nn.TransformerEncoderLayer(2, 8, activation="gelu", norm_first=first)
        y = layer(x, causal=True)
        attended = layer.attention(layer.norms[0](x) if first else x, causal=True)
        middle = x + attended if first else layer.norms[0](x + attended)
        made = layer.output(tg.gelu(layer.hidden(layer.norms[1](middle) if first else middle)))
        wanted = middle + made if first else layer.norms[1](middle + made)
        found = start([y, wanted])
        np.testing.assert_allclose(*found, rtol=1e-9)
        assert len(layer.parameters()) == 16

    def test_dropout_is_for_training(self, start):
        layer = tg.nn.TransformerEncoderLayer(2, 8, dropout=0.5)
        x = np.ones((1, 4, 4), np.float32) * np.float32([1, 2, 3, 5])
        calm, noisy = start([[layer(x), layer(x)], [layer(x, training=True), layer(x, training=True)]])
        np.testing.assert_array_equal(*calm)
        assert (noisy[0] != noisy[1]).any()
