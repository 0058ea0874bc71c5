"""Native loops mean the same as the step machine: as steps that are walked over, and compiled by LLVM.

Arrays of random programs are short; so that rows of theirs are seen where they lie too, that begins with two elements.

``TAGLOOM_PROGRAMS`` sets the number of programs.
"""

from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st
from tagloom.kernels.native.run import limit_values

from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.switched import check_gradients, check_programs
from tests.support.settings import ON

NATIVE = {"llvm": ON, "straight": ON.without("llvm"), "off": ON.without("straight")}
VALUES = st.sampled_from([8, 256])  # bytes of a value of compiled code at most


@contextmanager
def values_of(size):
    """Have longer rows than these be seen where they lie."""
    limit_values(size)
    try:
        yield
    finally:
        limit_values(256)


@batches(100)
@batch_settings(100)
@given(mixed_programs(), st.sampled_from([1, 2, 32]), VALUES)
def test_random_programs_as_native_loops(batch, program, window, size):
    with values_of(size):
        check_programs(program, window, NATIVE)


@batches(30)
@batch_settings(30)
@given(smooth_programs(), st.sampled_from([1, 2, 32]), VALUES)
def test_random_gradients_of_native_loops(batch, program, window, size):
    with values_of(size):
        check_gradients(program, window, NATIVE, "off")
