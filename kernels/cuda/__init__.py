"""CUDA C kernels, compiled at run time by NVRTC through the array library: one launch instead of several."""

from . import fused, rows  # noqa: F401  # register their kernels
