"""C kernels; importing a file registers its kernels."""

from . import (  # noqa: F401
    concat_transpose,
    convolution,
    cumulative,
    elements,
    elementwise,
    fused,
    gather_slice,
    index_vectors,
    linear,
    loops,
    pooling,
    product_sum,
    reducing,
    reshape,
    searching,
    slice_sums,
    softmax,
    stack,
)
