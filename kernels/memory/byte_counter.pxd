"""Counts of memory that NumPy knows nothing of."""

from tagloom.kernels.memory.blocks cimport Block
from tagloom.kernels.memory.pool cimport Pool


cdef class Charge


cdef class ByteCounter(Pool):
    cdef object find  # gives the Charge of an array of the library, None for anything else

    cdef Charge charge_of(self, object array)


cdef class Charge:
    cdef ByteCounter byte_counter  # whose store it counts in
    cdef Block block  # no data is behind it: what it counts, and on which account
