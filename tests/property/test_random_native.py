"""Native loops mean the same as the step machine: as steps that are walked over, and compiled by LLVM.

``TAGFLOW_PROGRAMS`` sets the number of programs.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.switched import check_gradients, check_programs
from tests.support.settings import ON

NATIVE = {"llvm": ON, "straight": ON.without("llvm"), "off": ON.without("straight")}


@batches(100)
@batch_settings(100)
@given(mixed_programs(), st.sampled_from([1, 2, 32]))
def test_random_programs_as_native_loops(batch, program, window):
    check_programs(program, window, NATIVE)


@batches(30)
@batch_settings(30)
@given(smooth_programs(), st.sampled_from([1, 2, 32]))
def test_random_gradients_of_native_loops(batch, program, window):
    check_gradients(program, window, NATIVE, "off")
