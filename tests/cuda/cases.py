"""What is fused in programs that people write, as kernels see it: attributes, inputs, and what NumPy gives for them."""

from dataclasses import dataclass

import numpy as np
import tagloom as tg
from tagloom.ir.definition import definition_of
from tagloom.ir.program import Program
from tagloom.kernels.cuda.registry import find_compiled
from tagloom.training import AdamOptimizer, MomentumOptimizer

from tests.support.compiling import optimized
from tests.support.settings import ON

REALS = ["float32", "float64"]


def refuse(*arrays):
    raise AssertionError(f"left to the definition: {[x.shape for x in arrays]}")


@dataclass
class Case:
    """An operation with inputs."""

    type: str
    attrs: dict
    inputs: list

    def run(self, xp, otherwise=refuse):
        """Return what the compiled kernel gives, in a list, as NumPy arrays."""
        dtype = self.inputs[-1].dtype
        kernel = find_compiled(xp, self.type, self.attrs, [dtype], otherwise)
        found = kernel(*(x if isinstance(x, np.generic) else xp.asarray(x) for x in self.inputs))
        return [x.get() for x in (found if isinstance(found, list) else [found])]

    def wanted(self):
        """Return what the definition gives."""
        definition = definition_of(self.type)
        attrs = {name: self.attrs[name] for name in definition.attrs}
        with np.errstate(all="ignore"):
            found = definition.kernel(np, *self.inputs, **attrs)
        return list(found) if isinstance(found, (list, tuple)) else [np.asarray(found)]

    def check(self, xp, ulps=256):
        """Fail unless both agree within rounding."""
        for found, wanted in zip(self.run(xp), self.wanted(), strict=True):
            assert found.dtype == wanted.dtype
            assert found.shape == wanted.shape
            eps = ulps * np.finfo(found.dtype).eps
            np.testing.assert_allclose(found, wanted, rtol=eps, atol=eps, err_msg=f"{self.type} {self.attrs}")


def fused(fetches, rng, batch=None, positive=False):
    """Return a case for each fused operation of a program; sizes that are not known become `batch`."""
    graph = fetches[0].graph
    feeds = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
    program = optimized(Program(graph, feeds, [t for t in fetches if t is not None]), ON)
    found = [op for op in program.graph.root.walk() if op.type == "Fused"]
    assert found
    return [Case("Fused", dict(op.attrs), [_drawn(t, rng, batch, positive) for t in op.inputs]) for op in found]


def _drawn(tensor, rng, batch, positive):
    shape = [batch if d is None else d for d in tensor.shape.dims]
    values = rng.standard_normal(shape)
    return np.asarray(np.abs(values) * 0.3 if positive else values).astype(tensor.dtype.numpy)


def with_gradients(*outputs, of):
    """Return outputs, and gradients of all they are."""
    total = tg.add_n([tg.reduce_sum(tg.square(y)) for y in outputs])
    return [*outputs, *tg.gradients(total, of)]


def lstm(dtype, batch, units):
    z, c, b = (tg.placeholder(dtype, shape) for shape in ([batch, 4 * units], [batch, units], [4 * units]))
    i, f, g, o = tg.split(z + b, 4, axis=1)
    new = tg.sigmoid(f + 1.0) * c + tg.sigmoid(i) * tg.tanh(g)
    return with_gradients(tg.sigmoid(o) * tg.tanh(new), new, of=[z, c, b])


def gru(dtype, batch, units):
    x, h, w = (tg.placeholder(dtype, [n, m]) for n, m in ((batch, 3 * units), (batch, units), (units, 3 * units)))
    xr, xz, xn = tg.split(x, 3, axis=1)
    hr, hz, hn = tg.split(tg.matmul(h, w), 3, axis=1)
    z = tg.sigmoid(xz + hz)
    return with_gradients((1.0 - z) * tg.tanh(xn + tg.sigmoid(xr + hr) * hn) + z * h, of=[x, h, w])


def biased(dtype, batch, units):
    x, b = tg.placeholder(dtype, [batch, units]), tg.placeholder(dtype, [units])
    y = x + b
    return with_gradients(
        tg.relu(y),
        tg.tanh(y),
        tg.sigmoid(y),
        tg.softplus(y),
        tg.exp(-tg.abs(y)) * tg.sign(y),
        tg.maximum(y, x * 2.0),
        of=[x, b],
    )


def layer_norm(dtype, batch, units):
    x, gain, b = tg.placeholder(dtype, [batch, units]), tg.placeholder(dtype, [units]), tg.placeholder(dtype, [units])
    mean = tg.reduce_mean(x, -1, keepdims=True)
    variance = tg.reduce_mean(tg.squared_difference(x, mean), -1, keepdims=True)
    return with_gradients((x - mean) * tg.rsqrt(variance + 1e-5) * gain + b, of=[x, gain, b])


def attention(dtype, batch, units):
    x = tg.placeholder(dtype, [batch, units])
    return with_gradients(tg.softmax(x * 0.5) * 3.0, of=[x])


def cross_entropy(dtype, batch, units):
    logits, labels = tg.placeholder(dtype, [batch, units]), tg.placeholder(dtype, [batch, units])
    return with_gradients(tg.softmax_cross_entropy_with_logits(labels=labels, logits=logits), of=[logits])


def joined(dtype, batch, units):
    """Pieces of several lengths, joined, cut elsewhere and reduced."""
    x, y = tg.placeholder(dtype, [batch, units]), tg.placeholder(dtype, [batch, units + 1])
    z = tg.concat([tg.exp(x), y * 2.0, tg.reduce_max(x, -1, keepdims=True)], 1)
    left, right = tg.split(z, [1, 2 * units + 1], axis=1)
    return with_gradients(left * right, tg.reduce_min(z, -1, keepdims=True) - z, of=[x, y])


def updated(optimizer, dtype, batch, units):
    w = tg.Variable(np.ones([batch or 3, units], dtype), name="w")
    (update,) = optimizer.apply_gradients([(tg.placeholder(dtype, w.shape), w)]).control_inputs[:1]
    return [update.control_inputs[-1].outputs[0]]  # of the last of its updates, that of the variable


def adam(dtype, batch, units):
    return updated(AdamOptimizer(0.01), dtype, batch, units)


def momentum(dtype, batch, units):
    return updated(MomentumOptimizer(0.1, 0.9), dtype, batch, units)


def nesterov(dtype, batch, units):
    return updated(MomentumOptimizer(0.1, 0.9, use_nesterov=True), dtype, batch, units)


PROGRAMS = [lstm, gru, biased, layer_norm, attention, cross_entropy, joined, adam, momentum, nesterov]
UPDATES = [adam, momentum, nesterov]


def cases(program, dtype, batch, units, rows=None):
    """Return the fused operations of a program; `rows` there are where the batch is not known."""
    rng = np.random.default_rng(batch or 0)
    with tg.Graph().as_default():
        return fused(program(dtype, batch, units), rng, rows, positive=program in UPDATES)


def row_cases(dtype, shape, rng):
    """Return the operations on rows with one shape of logits."""
    x = np.asarray(rng.standard_normal(shape) * 3, dtype)
    labels = rng.integers(0, shape[-1], shape[:-1])
    chances = np.asarray(np.exp(x) / np.exp(x).sum(-1, keepdims=True), dtype)
    yield from (Case(type, {"axis": axis}, [x]) for type in ("Softmax", "LogSoftmax") for axis in (-1, len(shape) - 1))
    yield Case("SoftmaxCrossEntropyWithLogits", {"axis": -1}, [chances, x])
    for integer in (np.int32, np.int64):
        yield Case("SparseSoftmaxCrossEntropyWithLogits", {}, [np.asarray(labels, integer), x])
