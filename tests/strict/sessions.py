"""For pytest in a process of its own (``-p tests.strict.sessions``): what sessions take for CPUs has strict arrays.

After ``-p tests.simcuda.cupy`` these are CUDA devices with simulated memory.
"""

import sys

import tagflow.streams
from tagflow.runtime.devices import session_devices as devices

from tests.strict.device import Strict, StrictDevice
from tests.strict.library import Special

if "tests.simcuda.cupy" in sys.modules:

    class Default(StrictDevice):
        """A CUDA device in the place of a CPU."""

        def __init__(self, name, *, pool=True, **options):
            super().__init__(name, **options)

else:

    class Default(Strict, devices.CpuDevice):
        """With the memory and the streams of what sessions take for a CPU."""

    sys.modules["cupyx.scipy.special"] = Special()


tagflow.streams.CpuDevice = devices.CpuDevice = Default
