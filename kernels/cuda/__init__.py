"""CUDA C kernels, compiled at run time by NVRTC through the array library: what several launches would do, in one."""

from . import fused, rows  # noqa: F401  # which register their kernels
