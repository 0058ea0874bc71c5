"""Elementwise kernels without a single NumPy loop for the operation."""

from numpy cimport npy_intp

cdef void logistic(char* source, char* target, npy_intp count, size_t size) noexcept nogil
