"""Running sums."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Native

cdef Native find_scan(dict attrs, list outputs, int64_t* params) except *
