"""The kernel that joins the elements of a TensorArray."""

from tagflow.kernels.core.table cimport Native

cdef Native find_stack(list outputs)
