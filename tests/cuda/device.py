"""A strict device with a compiler of CUDA C, which compiles for this machine."""

from tests.cuda.host import xp
from tests.strict_array_library.device import StrictDevice


class CompilingDevice(StrictDevice):
    """Computes with kernels in CUDA C, where operations have some."""

    arrays = xp
