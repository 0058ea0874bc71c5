"""Several elementwise operations as one kernel."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Native

cdef Native find_fused(dict attrs, list inputs, list outputs, int64_t* params, list kept) except *
