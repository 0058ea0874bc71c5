"""Compiled kernels on a GPU, with the real CuPy: what the definitions give with NumPy."""

from itertools import product

import numpy as np
import pytest

from tests.cuda.cases import PROGRAMS, REALS, cases, row_cases
from tests.cuda.steps import any_steps, every_step

pytestmark = pytest.mark.gpu
SIZES = [(1, 1), (3, 5), (64, 300), (1000, 1025), (20, 3000)]
SHAPES = [(1, 1), (7,), (2, 3, 17), (100000, 2), (3, 60000), (1000, 1025)]


@pytest.fixture
def xp():
    import cupy

    return cupy


@pytest.mark.parametrize("dtype", REALS)
def test_fused_operations(dtype, xp):
    for program, (batch, units) in product(PROGRAMS, SIZES):
        for case in cases(program, dtype, batch, units):
            case.check(xp, ulps=2048)


@pytest.mark.parametrize("dtype", REALS)
def test_operations_on_rows(dtype, xp):
    for shape in SHAPES:
        for case in row_cases(dtype, shape, np.random.default_rng(1)):
            case.check(xp, ulps=2048)


@pytest.mark.parametrize("dtype", REALS)
def test_every_step_and_any(dtype, xp):
    every_step(dtype).check(xp)
    for seed in range(10):
        any_steps(np.random.default_rng(seed), dtype).check(xp, ulps=2048)


def test_arrays_that_are_no_rows_in_memory(xp):
    for case in row_cases("float32", (40, 60), np.random.default_rng(3)):
        case.inputs = [np.asfortranarray(x) for x in case.inputs]
        case.check(xp)
