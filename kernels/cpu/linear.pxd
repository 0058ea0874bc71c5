"""Products of matrices."""

from tagflow.kernels.scheduler.table cimport Native

cdef Native find_matmul(dict attrs, list inputs, list outputs)
