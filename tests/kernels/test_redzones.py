"""What AddressSanitizer sees of the pool's blocks, in the build that `make asan` makes."""

import os
import subprocess
import sys

import pytest

TOUCH = """
import ctypes, sys
import numpy as np
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.memory.pool import Pool

size, distance = map(int, sys.argv[1:])
inside = KernelContexts(Pool(1 << 24)).run
arrays = [inside(np.zeros, size, np.uint8) for _ in range(3)]
ctypes.memmove(arrays[1].ctypes.data + size - 1 + distance, b"x", 1)
"""


@pytest.mark.skipif("libasan" not in os.environ.get("LD_PRELOAD", ""), reason="of make asan")
@pytest.mark.parametrize("size", [100, 128, 70_000, 5_000_000])  # C library, region, pages of their own
def test_who_writes_behind_an_array_is_seen(size):
    def touch(distance):
        return subprocess.run([sys.executable, "-c", TOUCH, str(size), str(distance)], capture_output=True, text=True)

    assert touch(0).returncode == 0
    assert "use-after-poison" in touch(1).stderr
