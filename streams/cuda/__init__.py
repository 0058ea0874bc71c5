"""CUDA devices; pycuda is imported when a device is made or listed."""

from .device import CudaDevice
from .driver import CudaDescription, CudaError, CudaUnavailable, cuda_devices
from .memory import CudaBuffer

__all__ = ["CudaBuffer", "CudaDescription", "CudaDevice", "CudaError", "CudaUnavailable", "cuda_devices"]
