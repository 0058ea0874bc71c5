"""Loops that compute samples of operations, and how native programs run them."""

import numpy as np
import tagloom as tg
from tagloom.kernels.cpu.linear import limit_vectors
from tagloom.kernels.cpu.registry import values_read

from tests.ops.samples import SAMPLES, build, expectation, flat

FIRST = 3  # of the samples of each operation
BATCH = 64
ITERATIONS = 3

# Operations whose Python kernel is called by native programs. An operation that gets a C kernel, or whose kernel can be
# traced, has to be removed here. All inputs change from iteration to iteration, except those in CONSTANT.
CALLED = {
    "BroadcastArgs",
    "DrawBoundingBoxes",
    "Expm",
    "MatrixTriangularSolve",
    "RepeatIndices",
    "SampledProduct",
    "SparseTensorDenseMatMul",
}
# Their results have shapes that depend on values.
NEITHER = {
    "BooleanMask",
    "CTCBeamSearch",
    "DecodeImage",
    "DistinctRows",
    "DynamicPartition",
    "EditDistance",
    "GroupMax",
    "NonMaxSuppression",
    "NonZero",
    "Range",
    "SoftNonMaxSuppression",
    "Unique",
}
EITHER = {"IgammaSlope", "ZetaSlope"}  # are called, or take so long that they are better called in threads
FEWEST = 260  # types that run natively without a call
# Inputs that are parameters: in the memory of the device, or sizes of an operation all of whose inputs are the host's.
_DRAWS = ("Gamma", "Normal", "Poisson", "TruncatedNormal", "Uniform", "UniformInt")
CONSTANT = {"Pad": {1}, "Roll": {1}, "LinSpace": {2}, **{f"Stateless{name}": {0} for name in _DRAWS}}

# Convolutions have kernels in C where there are vector instructions alone.
OF_VECTORS = {"Conv", "ConvBias", "ConvFilterBiasGrad", "ConvFilterGrad", "ConvInputGrad", "ConvInputGradMasked"}
if not limit_vectors(1 << 16):
    EITHER |= OF_VECTORS  # traced or called
    FEWEST -= len(OF_VECTORS)


def is_numeric(sample):
    """Return True if all values of a sample are numbers, which registers of native programs can hold."""
    return all(np.asarray(a).dtype.kind in "biufc" for a in (*flat(sample.inputs), *expectation(sample)))


def first_of_each():
    """Return the first samples of each operation that have numbers alone."""
    found = {}
    for definition, sample in (p.values for p in SAMPLES):
        if is_numeric(sample):
            found.setdefault(definition.type, []).append((definition, sample))
    return [each for samples in found.values() for each in samples[:FIRST]]


CHOSEN = first_of_each()


def fed(arrays, feeds, is_shaped=False):
    """Return placeholders for arrays, whose shapes are known if `is_shaped`; note what they are fed."""
    made = [tg.placeholder(a.dtype, a.shape if is_shaped else None) for a in arrays]
    feeds.update(zip(made, arrays, strict=True))
    return made


def loop_of(definition, sample, feeds, is_shaped=False):
    """Return the results of a loop that computes a sample's operation in each iteration.

    Inputs are in two variables each, which change places, so that no pass takes the operation out of the loop. Those of
    which a kernel must know the values stay outside, as do sizes and other parameters, which are in the host's memory.
    Where shapes are known, these are constants.
    """
    arrays = flat(sample.inputs)
    on_host = [k for k, p in enumerate(definition.signature.flat(len(arrays))) if p.is_host]
    outside = {*(values_read(definition.type) or ()), *CONSTANT.get(definition.type, ())}
    outside.update(on_host if len(on_host) < len(arrays) else ())
    parameters = [arrays[k] for k in outside]
    known = dict(zip(outside, map(tg.constant, parameters) if is_shaped else fed(parameters, feeds), strict=True))
    moved = [a for k, a in enumerate(arrays) if k not in known]
    n = len(moved)
    dtypes = [t.dtype.numpy for t in build(definition, sample, tg.constant).outputs]
    zeros = [np.zeros_like(wanted, dtype) for wanted, dtype in zip(expectation(sample), dtypes, strict=True)]

    def body(i, *variables):
        moving = iter(variables[:n])
        given = iter([known[k] if k in known else next(moving) for k in range(len(arrays))])
        op = build(definition, sample, lambda _: next(given))
        for y, zero in zip(op.outputs, zeros, strict=True):
            y.set_shape(zero.shape if is_shaped else None)
        return i + 1, *variables[n : 2 * n], *variables[:n], *op.outputs

    variables = [tg.constant(0), *(v for each in (moved, moved, zeros) for v in fed(each, feeds, is_shaped))]
    return tg.while_loop(lambda i, *_: i < ITERATIONS, body, variables)[1 + 2 * n :]


async def run_all(chosen, settings):
    """Return, for each sample, what its loop gave and how that ran, many loops to a step."""
    found = []
    for start in range(0, len(chosen), BATCH):
        with tg.Graph().as_default() as graph:
            feeds = {}
            fetches = [loop_of(definition, sample, feeds) for definition, sample in chosen[start : start + BATCH]]
        async with tg.Session(graph, settings=settings) as session:
            results = await session.run(fetches, feeds)
            loops = {loop.name: loop for loop in session.report().loops}
        found += [(values, loops[ys[0].op.name]) for values, ys in zip(results, fetches, strict=True)]
    return found
