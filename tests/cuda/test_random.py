"""Gradients of random programs are the same with kernels in CUDA C, compiled for this machine."""

import pytest
from hypothesis import given

from tests.cuda.device import CompilingDevice
from tests.cuda.host import RawModule, compiler
from tests.property.runs import batch_settings, batches
from tests.property.scattering import check_gradients
from tests.property.strategies import smooth_programs
from tests.property.strict_devices import PLACES, run_on
from tests.support.tiers import is_thorough

pytestmark = pytest.mark.skipif(compiler() is None, reason="compiler() found no C++ compiler")


@pytest.fixture(scope="module", autouse=True)
def _launches():
    before = len(RawModule.launched)
    yield
    assert len(RawModule.launched) > before or not is_thorough()  # a few programs may have nothing to launch


@batches(15)
@batch_settings(15)
@given(program=smooth_programs(), **PLACES)
def test_random_gradients(batch, program, layout, seed, window):
    check_gradients(program, window, len(layout), seed, lambda *run: run_on(*run, layout, seed, CompilingDevice))
