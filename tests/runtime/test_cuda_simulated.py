"""Sessions on CUDA devices, on simulated CUDA with the real pycuda, in processes of their own."""

import pytest

from tests.simcuda.child import run_simulated
from tests.simcuda.library import simulated_cuda

pytestmark = pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda()))
ALONE = "test_the_library"  # is of the library without a device


@pytest.mark.parametrize("file", ["runtime/test_elsewhere.py", "property/test_random_elsewhere.py"])
def test_steps_mean_the_same(file):
    assert run_simulated("-p", "tests.simcuda.cupy", f"tests/{file}", "-k", f"not {ALONE}") > 0
