"""Elementwise kernels that no single NumPy loop does."""

from numpy cimport npy_intp

cdef void logistic(char* source, char* target, npy_intp count, size_t size) noexcept nogil
