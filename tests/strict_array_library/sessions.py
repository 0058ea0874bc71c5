"""For pytest in a process of its own: what sessions take for CPUs has strict arrays.

It is loaded by ``-p tests.strict_array_library.sessions``.
After ``-p tests.simcuda.cupy`` these are CUDA devices with simulated memory.
"""

import sys

import tagloom.streams
from tagloom.streams import cpu as devices

from tests.strict_array_library.device import Strict, StrictDevice
from tests.strict_array_library.library import CUPYX, Special

if "tests.simcuda.cupy" in sys.modules:

    class Default(StrictDevice):
        """A CUDA device in the place of a CPU."""

        def __init__(self, name, *, pool=True, **options):
            super().__init__(name, **options)

else:

    class Default(Strict, devices.CpuDevice):
        """With the memory and the streams of what sessions take for a CPU."""

    sys.modules["cupyx"] = CUPYX
    sys.modules["cupyx.scipy.special"] = Special()


tagloom.streams.CpuDevice = devices.CpuDevice = Default
