"""Devices on a real GPU."""

import threading

import numpy as np
import pytest
from tagloom.streams import CudaDevice

from tests.simcuda.child import run_tests

pytestmark = pytest.mark.gpu


def test_it_keeps_the_contract():
    files = "tests/streams/test_contract.py", "tests/streams/test_closing.py", "tests/streams/test_memory.py"
    assert run_tests({"TAGLOOM_TEST_GPU": "1"}, *files, "-k", "gpu") > 30


async def test_arrays_come_back_as_they_were():
    source = np.random.default_rng(0).random((4096, 4097), np.float32)
    async with CudaDevice("/device:CUDA:0") as device:
        buffers = [await device.copy_in(source) for _ in range(4)]
        assert device.live_bytes == device.peak_bytes == 4 * source.nbytes
        arrays = [await device.copy_out(buffer) for buffer in buffers]
        thread = threading.Thread(target=buffers.clear)
        thread.start()
        thread.join()
        assert device.live_bytes == 0
    assert all((array == source).all() for array in arrays)


async def test_cupy_computes_in_a_buffer():
    async with CudaDevice("/device:CUDA:0") as device:
        inside = device.copy_in(np.arange(1000.0))

        def double():
            array = inside.enqueued_result()
            array *= 2

        done = device.compute.submit(lambda: device.call(double), after=[inside], ahead=True)
        assert (await device.copy_out(inside, after=[done]) == 2 * np.arange(1000.0)).all()
