"""Clusters mean the same as the step machine: one for whatever belongs together, one operation too.

``TAGLOOM_PROGRAMS`` sets the number of programs.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.switched import check_gradients, check_programs
from tests.support.clusters import of_any_size
from tests.support.settings import ON

STEPS = ON.without("straight", "llvm")
SWITCHES = {
    "clusters": STEPS,
    "not fused": STEPS.without("fuse"),
    "nothing else": replace(ON.without("all"), cluster=True, native=True, loops=True),
    "beside loops": ON.without("llvm", "fuse"),
    "off": STEPS.without("cluster"),
}
COMPILED = {"llvm": ON.without("straight"), "off": SWITCHES["off"]}
WINDOWS = st.sampled_from([1, 2, 32])


@batches(100)
@batch_settings(100)
@given(mixed_programs(), WINDOWS)
def test_random_programs_in_clusters(batch, program, window):
    with of_any_size():
        check_programs(program, window, SWITCHES)


@batches(30)
@batch_settings(30)
@given(smooth_programs(), WINDOWS)
def test_random_gradients_in_clusters(batch, program, window):
    with of_any_size():
        check_gradients(program, window, SWITCHES, "off")


@batches(30)
@batch_settings(30)
@given(mixed_programs(), WINDOWS)
def test_random_programs_in_compiled_clusters(batch, program, window):
    with of_any_size():
        check_programs(program, window, COMPILED)
