"""Loops that compute samples of operations, and how native programs run them."""

import tagloom as tg
from tagloom.kernels.cpu.linear import limit_vectors
from tagloom.monitoring.sample_loops import is_numeric, loop_of

from tests.ops.samples import SAMPLES

FIRST = 3  # of the samples of each operation
BATCH = 64

# Operations whose Python kernel is called by native programs. An operation that gets a C kernel, or whose kernel can be
# traced, has to be removed here. All inputs change from iteration to iteration, except parameters.
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
# Convolutions have kernels in C where there are vector instructions alone.
OF_VECTORS = {"Conv", "ConvBias", "ConvFilterBiasGrad", "ConvFilterGrad", "ConvInputGrad", "ConvInputGradMasked"}
if not limit_vectors(1 << 16):
    EITHER |= OF_VECTORS  # traced or called
    FEWEST -= len(OF_VECTORS)


def first_of_each():
    """Return the first samples of each operation that have numbers alone."""
    found = {}
    for definition, sample in (p.values for p in SAMPLES):
        if is_numeric(sample):
            found.setdefault(definition.type, []).append((definition, sample))
    return [each for samples in found.values() for each in samples[:FIRST]]


CHOSEN = first_of_each()


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
