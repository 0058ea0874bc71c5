"""Convolutions in parts, by vectors of each size, and where a unit is only some rows of a large image."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.apply import apply
from tagloom.ir.definition import definition_of
from tagloom.kernels.cpu.linear import limit_vectors

from tests.kernels.calling import got
from tests.kernels.convolution_cases import drawer
from tests.support.settings import ON

TYPES = ("Conv", "ConvInputGrad", "ConvFilterGrad")
LARGE = {  # images of more than a unit: several together, slabs of rows, planes of a volume, by channel
    "images": ((40, 6, 6, 8), (3, 3, 8, 16), "SAME", (1, 1)),
    "rows": ((2, 90, 80, 24), (5, 3, 24, 70), "SAME", (1, 1)),
    "strided": ((1, 130, 121, 16), (3, 3, 16, 8), "VALID", (2, 3)),
    "planes": ((1, 20, 40, 40, 8), (3, 2, 2, 8, 5), "SAME", (1, 1, 1)),
    "wide": ((1, 3, 4000, 8), (2, 3, 8, 4), "SAME", (2, 1)),
    "channels": ((2, 60, 60, 64), (3, 3, 1, 64), "SAME", (1, 1)),
    "multiplied": ((2, 60, 60, 16), (3, 3, 1, 48), ((1, 1), (0, 2)), (2, 1)),
    "pixels": ((2, 100, 100, 40), (1, 1, 40, 20), "VALID", (1, 1)),
    "sequence": ((3, 9000, 6), (5, 6, 12), "SAME", (1,)),
}


@pytest.fixture
def vectors():
    """Call limit_vectors in a test; all are there again behind it."""
    yield limit_vectors
    limit_vectors(512)


def arguments(case, type):
    """Return the inputs and attributes of an operation for one of the large cases."""
    images, filters, padding, strides = LARGE[case]
    rng = np.random.default_rng(3)
    attrs = {"strides": strides, "padding": padding, "dilations": (1,) * len(strides)}
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (images, filters))
    if type == "Conv":
        return [x, w], attrs
    result = definition_of("Conv").kernel(np, x, w, **attrs)
    g = rng.standard_normal(result.shape).astype(np.float32)
    if type == "ConvInputGrad":
        return [np.int32(images), w, g], attrs
    return [x, np.int32(filters), g], attrs


def run(type, inputs, attrs, **settings):
    """Return what a session computes."""
    with tg.Graph().as_default() as graph:
        feeds = [tg.placeholder(a.dtype, a.shape) for a in inputs]
        y = apply(type, *feeds, **attrs)
    with tg.SyncSession(graph, settings=replace(ON, **settings)) as session:
        return session.run(y, dict(zip(feeds, inputs, strict=True)))


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("type", TYPES)
def test_large_images_in_any_number_of_parts(type, case):
    inputs, attrs = arguments(case, type)
    wanted = definition_of(type).kernel(np, *inputs, **attrs)
    alone = run(type, inputs, attrs, workers=0)
    np.testing.assert_allclose(alone, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max() * 20)
    for workers in (1, 3):
        np.testing.assert_array_equal(run(type, inputs, attrs, workers=workers, offload_seconds=0.0), alone)


@pytest.mark.parametrize("type", TYPES)
def test_vectors_of_each_size_give_the_same_bits(type, vectors):
    rng = np.random.default_rng(5)
    for _ in range(40):
        inputs, attrs = drawer(type)(rng)
        widest = got(type, inputs, attrs, lambda array: array)
        for bits in (256, 0):
            vectors(bits)
            (found,) = got(type, inputs, attrs, lambda array: array)
            if bits:
                np.testing.assert_array_equal(found, widest[0])
            np.testing.assert_allclose(found, widest[0], rtol=1e-4, atol=1e-4)
        vectors(512)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16])
def test_values_of_two_bytes_are_added_up_in_float32(type, dtype):
    inputs, attrs = arguments("images", type)
    small = [a.astype(dtype.numpy) if a.dtype == np.float32 else a for a in inputs]
    wanted = definition_of(type).kernel(np, *(a.astype(np.float32) if a.ndim > 1 else a for a in small), **attrs)
    (found,) = got(type, small, attrs, lambda array: array)
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(found, wanted.astype(dtype.numpy))
