"""C kernels; each file registers its own when it is imported."""

from . import (  # noqa: F401
    concat_transpose,
    convolution,
    cumulative,
    elements,
    elementwise,
    fused,
    gather_slice,
    linear,
    loops,
    pooling,
    product_sum,
    queue_kernels,
    reducing,
    reshape,
    softmax,
    stack,
)
