"""The tests of swapping on devices whose arrays are not NumPy's, in processes of their own.

These load `tests.strict_array_library.sessions`.
Left out: what no such device has, the reference executor; that feeds count before a step begins; that the first copy is
one of a saved value.
"""

import pytest

from tests.simcuda.child import run_simulated, run_tests
from tests.simcuda.library import simulated_cuda
from tests.support.tiers import choose

FILES = [f"tests/swap/test_{name}.py" for name in ("results", "rows", "endings")]
CHOSEN = "not reference and not used_otherwise and not host_to_device-host-1 and not host_to_device-disk-1"
SOME = ["--one-in", str(choose(thorough=1, default=16))]
STEPS = ["-p", "tests.strict_array_library.sessions", *FILES, "-k", CHOSEN, *SOME]
PROGRAMS = ["-p", "tests.strict_array_library.sessions", "tests/property/test_random_swap.py"]
ON_CUDA = ["-p", "tests.simcuda.cupy"]  # its arrays are in simulated memory of the device
on_cuda = pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda()))


def test_steps_that_swap():
    assert run_tests({}, *STEPS) > choose(thorough=100, default=2)


def test_random_programs():
    assert run_tests({}, *PROGRAMS) > 0


@on_cuda
def test_steps_on_a_cuda_device():
    assert run_simulated(*ON_CUDA, *STEPS) > choose(thorough=100, default=2)


@on_cuda
def test_random_programs_on_a_cuda_device():
    assert run_simulated(*ON_CUDA, *PROGRAMS) > 0


@on_cuda
def test_limits_on_a_cuda_device():
    assert run_simulated(*ON_CUDA, "tests/runtime/test_elsewhere_limits.py") > 20
