"""Counts of memory that is not NumPy's."""

from tagloom.kernels.memory.blocks cimport Block
from tagloom.kernels.memory.pool cimport Pool


cdef class Charge


cdef class ByteCounter(Pool):
    cdef object find  # returns the Charge of an array of the library, None for any other object

    cdef Charge charge_of(self, object array)


cdef class Charge:
    cdef ByteCounter byte_counter  # in whose store the bytes count
    cdef Block block  # header without data: the bytes counted, and their account
