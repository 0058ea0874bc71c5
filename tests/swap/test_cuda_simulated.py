"""Saved values that are copied by CUDA, on simulated CUDA with the real pycuda, in processes of their own."""

import pytest

from tests.simcuda.child import run_simulated
from tests.simcuda.library import simulated_cuda

pytestmark = pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda()))


def run(*arguments):
    return run_simulated("-p", "tests.simcuda.sessions", *arguments)


def test_steps_that_swap():
    assert run("tests/swap/test_results.py", "tests/swap/test_rows.py", "tests/swap/test_endings.py") > 100


def test_what_is_particular_to_it():
    assert run("tests/swap/cuda_cases.py") > 30


def test_random_programs():
    assert run("tests/property/test_random_swap.py") > 0
