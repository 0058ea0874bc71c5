"""Inner loops of our own, in the form of NumPy's, for elementwise operations that no ufunc does alone."""

from tagflow.kernels.core.arena cimport Arena
from tagflow.kernels.core.table cimport Loop

cdef Loop find_own_loop(str type, list inputs, list outputs, void** data, Arena arena) except *
cdef Loop find_choice(int itemsize) except *
