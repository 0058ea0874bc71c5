"""``jvp`` of every operation with a gradient: the transpose of its gradient, to second order."""

import numpy as np
import tagloom as tg

from tests.ops.samples import DEFINITIONS, SAMPLES, build, flat
from tests.support.cases import each

# One refuses derivatives, the samples of the others have no double.
OTHERS = {"PreventGradient", "DrawBoundingBoxes", "PlaceholderWithDefault"}
SINGULAR = {"MatrixDeterminant-3", "LogMatrixDeterminant-3"}  # matrices without an inverse
DOUBLE = (np.dtype(np.float64), np.dtype(np.complex128))
SMOOTH = [
    p
    for p in SAMPLES
    if p.values[0].is_differentiable
    and p.values[0].type not in OTHERS
    and p.id not in SINGULAR
    and any(a.dtype in DOUBLE for a in flat(p.values[1].inputs))
]


def draw(rng, like):
    """Return random numbers of a dtype and shape, complex ones for a complex dtype."""
    numbers = rng.normal(size=like.shape)
    return (numbers + 1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else numbers).astype(like.dtype)


def dot(left, right):
    """Return the real product of two lists of arrays."""
    return sum(np.vdot(a, b).real for a, b in zip(left, right, strict=True))


def zeros_for_none(given, like):
    return [tg.zeros_like(x) if g is None else tg.convert_to_tensor(g) for g, x in zip(given, like, strict=True)]


class Pairing:
    """Forward and reverse mode of a sample, in random directions."""

    def __init__(self, definition, sample):
        self.arrays = flat(sample.inputs)
        self.moving = [i for i, a in enumerate(self.arrays) if a.dtype in DOUBLE]
        rng = np.random.default_rng(len(definition.type))
        self.u = [draw(rng, self.arrays[i]) for i in self.moving]
        self.w = [draw(rng, self.arrays[i]) for i in self.moving]

        def function(*xs):
            tensors = iter(tg.constant(a) for a in self.arrays)
            moved = dict(zip(self.moving, xs, strict=True))
            made = (moved.get(i, tensor) for i, tensor in enumerate(tensors))
            outputs = build(definition, sample, lambda _: next(made)).outputs
            return [y for y in outputs if y.dtype.is_differentiable]

        self.function = function
        self.rng = rng

    def build(self):
        """Return the fetches: jvp along u, vjp along v; their derivatives along w."""
        primals = [tg.constant(self.arrays[i]) for i in self.moving]
        ys, self.moved = tg.jvp(self.function, primals, self.u)
        if not ys:
            return None
        with tg.SyncSession(primals[0].graph) as session:
            values = session.run(ys)
        if not all(np.isfinite(value).all() for value in values):
            return None  # the mean of nothing
        self.v = [draw(self.rng, np.asarray(value)) for value in values]
        xs = [tg.identity(x) for x in primals]
        pulled = zeros_for_none(tg.gradients(self.function(*xs), xs, self.v), xs)
        # Both are linear in their directions, so their second derivatives pair as well: forward over either of them.
        again = tg.jvp(lambda *xs: tg.jvp(self.function, xs, self.u)[1], primals, self.w)[1]
        back = tg.jvp(lambda *xs: zeros_for_none(tg.gradients(self.function(*xs), xs, self.v), xs), primals, self.w)[1]
        return self.moved, pulled, again, back


@each("definition, sample", SMOOTH, by=lambda definition, sample: definition.type)
def test_jvp_is_the_transpose_of_the_gradient(definition, sample):
    with tg.Graph().as_default() as graph:
        pairing = Pairing(definition, sample)
        fetches = pairing.build()
        if fetches is None:
            return
        with tg.SyncSession(graph) as session:
            moved, pulled, again, back = session.run(fetches)
    np.testing.assert_allclose(dot(pairing.v, moved), dot(pulled, pairing.u), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(dot(pairing.v, again), dot(back, pairing.u), rtol=1e-7, atol=1e-7)


def test_every_operation_with_a_gradient_and_samples_takes_part():
    types = {p.values[0].type for p in SMOOTH} | OTHERS
    assert [d.type for d in DEFINITIONS.values() if d.is_differentiable and d.samples and d.type not in types] == []
