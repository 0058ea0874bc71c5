"""For pytest in a process of its own (``-p tests.cuda.simulated``): CUDA and CuPy are simulated, and compile CUDA C.

It is compiled for this machine. A kernel waits for its stream, computes at once, and gets simulated device memory.
"""

from tests.cuda.host import RawModule
from tests.simcuda.cupy import xp

xp.RawModule = RawModule
