"""Fast paths change no result: random programs with each of them off, and with none.

The programs are those of the tests of executors and gradients; ``TAGLOOM_PROGRAMS`` sets their number, as there.
"""

from dataclasses import replace

import pytest
import tagloom as tg
from hypothesis import given
from hypothesis import strategies as st
from tagloom.base.settings import FAST_PATHS

from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs, smooth_programs
from tests.property.switched import check_gradients, check_programs
from tests.support.settings import ON

# By what is off.
SWITCHES = {"none": ON} | {name: ON.without(name) for name in [*FAST_PATHS, "all"]}


@batches(30)
@batch_settings(30)
@given(mixed_programs(), st.sampled_from([1, 2, 32]))
def test_random_programs_without_fast_paths(batch, program, window):
    check_programs(program, window, SWITCHES)


@batches(10)
@batch_settings(10)
@given(smooth_programs(), st.sampled_from([1, 2, 32]))
def test_random_gradients_without_fast_paths(batch, program, window):
    check_gradients(program, window, SWITCHES, "all")


@pytest.mark.parametrize("names", [["fuse"], ["native", "loops"], ["all"]])
def test_what_is_switched_off(names):
    settings = replace(ON, drain_seconds=0.5).without(*names)
    off = [name for name, value in FAST_PATHS.items() if getattr(settings, name) == value]
    assert off == ([*FAST_PATHS] if names == ["all"] else names)
    assert settings.drain_seconds == 0.5


def test_a_fast_path_that_is_none():
    with pytest.raises(tg.GraphError, match="no such fast path") as caught:
        tg.Settings().without("fuze")
    assert "fuse" in str(caught.value.wanted)


def test_every_switch_is_a_fast_path():
    switches = {name for name, value in tg.Switches.__dataclass_fields__.items() if value.default is True}
    assert switches <= set(FAST_PATHS)
