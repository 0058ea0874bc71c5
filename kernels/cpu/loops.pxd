"""Inner loops of our own, in the form of NumPy's, for elementwise operations that no ufunc does alone."""

from tagloom.kernels.core.table cimport Loop

cdef Loop find_choice(int itemsize) except *
