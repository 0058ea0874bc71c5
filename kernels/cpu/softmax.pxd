"""Softmax, its logarithm and the cross-entropies along the last axis, and the places of extreme elements."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Native

cdef Native find_row_kernel(str type, dict attrs, list inputs, list outputs, int64_t* params) except *
