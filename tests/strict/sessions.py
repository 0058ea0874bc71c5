"""For pytest in a process of its own (``-p tests.strict.sessions``): what sessions take for CPUs has strict arrays.

After ``-p tests.simcuda.sessions`` they are copied by CUDA.
"""

import sys

import tagflow.streams
from tagflow.runtime import devices

from tests.strict.device import Strict
from tests.strict.library import Special


class StrictDefault(Strict, devices.CpuDevice):
    """With the memory and the streams of what sessions take for a CPU."""


sys.modules["cupyx.scipy.special"] = Special()
tagflow.streams.CpuDevice = devices.CpuDevice = StrictDefault
