"""Elementwise kernels that no single NumPy loop does."""

from numpy cimport npy_intp

from tagflow.kernels.core.table cimport Native

cdef Native find_add_n(dict attrs, list inputs, list outputs)
cdef Native find_cast(list inputs, list outputs)
cdef Native find_sigmoid(dict attrs, list inputs, list outputs)
cdef void logistic(char* source, char* target, npy_intp count, size_t size) noexcept nogil
