"""Native programs in CUDA C: a loop of pure operations is one kernel, launched once."""

from . import (  # noqa: F401  which register emitters, instructions, and the kernel
    arrays,
    elementwise,
    flow,
    fused,
    kernel,
    products,
    reductions,
    saving,
    tensor_arrays,
)
