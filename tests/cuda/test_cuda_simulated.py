"""Sessions with compiled kernels on CUDA devices, on simulated CUDA with the real pycuda, in a process of their own."""

import pytest

from tests.cuda.host import compiler
from tests.simcuda.child import run_simulated
from tests.simcuda.library import simulated_cuda
from tests.support.tiers import choose

pytestmark = [
    pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda())),
    pytest.mark.skipif(compiler() is None, reason="compiler() found no C++ compiler"),
]


def test_steps_mean_the_same():
    assert run_simulated("-p", "tests.cuda.simulated", "tests/cuda/test_sessions.py") > choose(thorough=15, default=5)


def test_loops_are_kernels():
    assert run_simulated("-p", "tests.cuda.simulated", "tests/cuda/test_native.py") > choose(thorough=60, default=20)
