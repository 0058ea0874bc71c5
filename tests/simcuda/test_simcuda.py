"""The stand-in for the CUDA driver, and pycuda on it."""

import pytest

from tests.simcuda.child import run_python, simulated
from tests.simcuda.library import simulated_cuda

pytestmark = pytest.mark.skipif(simulated_cuda() is not None, reason=str(simulated_cuda()))


def test_it_has_every_symbol_that_pycuda_imports(tmp_path):
    from tests.simcuda.library import SOURCES, build, exported, imported

    build(tmp_path)
    libraries = [path for path in tmp_path.iterdir() if path.suffix not in SOURCES]
    assert len(libraries) == 2
    wanted = {name.partition("@")[0] for name in imported()}
    assert {"cuMemAlloc_v2", "cuStreamWaitEvent"} <= wanted
    assert wanted <= set.union(*map(exported, libraries))


PROGRAM = """
import os, pathlib
from tests.simcuda.library import Simulated
simulated = Simulated(pathlib.Path(os.environ["TAGLOOM_SIMCUDA"]))

import numpy as np
import pycuda.driver as drv

drv.init()
context = drv.Device(0).retain_primary_context()
context.push()
source, back = np.arange(1000.0), np.empty(1000)
stream, first, last = drv.Stream(), drv.Event(), drv.Event()
memory, other = drv.mem_alloc(8000), drv.mem_alloc(8000)
gate = simulated.gate(stream.handle)
first.record(stream)
drv.memcpy_htod_async(memory, source, stream)
source[:] = 0  # pageable memory was read already
drv.memcpy_dtod_async(other, memory, 8000, stream)
last.record(stream)
assert not first.query() and not stream.is_done()
simulated.open(gate)
last.synchronize()
drv.memcpy_dtoh(back, other)
assert (back == np.arange(1000.0)).all() and first.time_till(last) >= 0
assert simulated.counts() == dict(
    contexts=1, allocations=2, bytes=16000, streams=1, events=2, pinned=0, pushed=1
), simulated.counts()

def fails(call, *arguments):
    try:
        call(*arguments)
    except drv.Error as error:
        return str(error)

simulated.set_limit(20000)
assert "out of memory" in fails(drv.mem_alloc, 8000)
simulated.fail_copy(1)
drv.memcpy_htod(memory, source)
assert "launch failure" in fails(drv.memcpy_htod, memory, source)
assert "not supported" in fails(drv.module_from_buffer, b"kernel")
memory.free()
assert fails(drv.memcpy_htod, int(other) + 1, source)  # eight thousand bytes do not fit there
other.free()
del stream, first, last
context.pop()
assert "invalid device context" in fails(drv.mem_get_info)
context.detach()
assert not any(simulated.counts().values()), simulated.counts()
print("fine")
"""


def test_pycuda_runs_on_it():
    done = run_python(simulated(), "-c", PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
