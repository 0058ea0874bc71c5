"""Which operations have a C kernel."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Native

cdef Native find_native(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *
