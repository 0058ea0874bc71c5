"""The streams of a CUDA device on simulated CUDA, with the real pycuda, in processes of their own."""

import pytest

from tests.simcuda.child import run_simulated
from tests.simcuda.library import simulated_cuda

pytestmark = pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda()))


COMPUTES = "-p", "tests.simcuda.cupy"  # with what CuPy is to it


@pytest.mark.parametrize("plugin", [(), COMPUTES])
def test_it_keeps_the_contract(plugin):
    files = [f"tests/streams/test_{name}.py" for name in ("contract", "memory", "closing")]
    assert run_simulated(*plugin, *files, "-k", "cuda") > 40


def test_what_is_particular_to_it():
    assert run_simulated("tests/streams/cuda_cases.py") > 20


def test_what_is_particular_to_it_where_it_computes():
    assert run_simulated(*COMPUTES, "tests/streams/cupy_cases.py") > 15
