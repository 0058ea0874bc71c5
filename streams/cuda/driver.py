"""CUDA's driver by pycuda, imported only for a device or a list of devices: tagloom works without pycuda."""

from __future__ import annotations

import ctypes
import mmap
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import TagloomError
from ...base.extras import install_hint
from ..kinds import DeviceUnavailable

_PORTABLE = 1  # CU_MEMHOSTREGISTER_PORTABLE: page-locked for all contexts
_HINT = f"{install_hint('cuda')}, as docs/gpu.md says, on a machine with an NVIDIA driver"


class CudaUnavailable(DeviceUnavailable):
    """Error of a missing pycuda, CUDA driver, device or CuPy."""


class CudaError(TagloomError):
    """Error of a call of the CUDA driver; pycuda's own error is ``__cause__``."""


@dataclass(frozen=True, slots=True)
class CudaDescription:
    """Description of a GPU by its driver.

    Attributes
    ----------
    index : int
    name : str
    nbytes : int
        Bytes of its memory.
    capability : tuple of int
        Compute capability, major and minor.
    """

    index: int
    name: str
    nbytes: int
    capability: tuple[int, int]


def load_driver() -> Any:
    """Import and initialise ``pycuda.driver``.

    Raises
    ------
    CudaUnavailable
        If pycuda is not installed, or finds no driver.
    """
    try:
        with warnings.catch_warnings():  # pycuda's warnings repeat the text of its ImportError
            warnings.simplefilter("ignore")
            import pycuda.driver as driver
    except ImportError as error:  # also where libcuda is missing
        raise CudaUnavailable(f"pycuda cannot be imported: {error}", hint=_HINT) from error
    try:
        driver.init()
    except driver.Error as error:
        raise CudaUnavailable(f"CUDA cannot be used: {error}", hint=_HINT) from error
    return driver


def cuda_devices() -> list[CudaDescription]:
    """Describe the devices found by pycuda, without opening them.

    Raises
    ------
    CudaUnavailable
        If pycuda is not installed, or finds no driver.
    """
    driver = load_driver()
    return [_describe_device(driver, i) for i in range(driver.Device.count())]


def _describe_device(driver: Any, index: int) -> CudaDescription:
    device = driver.Device(index)
    return CudaDescription(index, device.name(), device.total_memory(), device.compute_capability())


def translate_error(driver: Any, error: BaseException, what: str) -> BaseException:
    """Return the tagloom error for a pycuda error in the call that `what` names; return any other error unchanged.

    Frames of the original are dropped: they may hold objects of pycuda, which must not outlive their device.
    """
    if not isinstance(error, driver.Error):
        return error
    error.__traceback__ = None
    ours: BaseException
    if isinstance(error, driver.MemoryError):
        ours = MemoryError(f"{what}: {error}")
    else:
        ours = CudaError(
            f"{what}: {error}",
            hint="after a failure on the device itself its context is lost: close the session, start a new process",
        )
    ours.__cause__ = error
    return ours


class PageLocks:
    """Page-locked memory of this process, for direct copies by a device; used with the context current.

    pycuda's own page-locked arrays end with their context, while a fetched array must outlive its device; so ordinary
    memory is registered. pycuda's ``register_host_memory`` crashes with NumPy 2 (issue 459 of pycuda), hence the direct
    calls of the driver.
    """

    def __init__(self, driver: Any) -> None:
        self._logic_error = driver.LogicError
        self._library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        self._library.cuMemHostRegister_v2.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        self._library.cuMemHostUnregister.argtypes = [ctypes.c_void_p]

    def allocate_locked(self, nbytes: int) -> NDArray[np.uint8]:
        """Return page-locked bytes."""
        memory = np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)
        self._raise_if_failed(
            "cuMemHostRegister", self._library.cuMemHostRegister_v2(memory.ctypes.data, nbytes, _PORTABLE)
        )
        return memory

    def unlock_pages(self, memory: NDArray[np.uint8]) -> None:
        """Turn page-locked bytes into ordinary memory; arrays in use stay valid.

        An error code is ignored: the call fails only when the context is lost, and there is no remedy.
        """
        self._library.cuMemHostUnregister(memory.ctypes.data)

    def _raise_if_failed(self, name: str, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise self._logic_error(f"{name} failed: {(text.value or b'unknown error').decode()}")
