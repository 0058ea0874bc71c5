"""Sums of products that a loop makes, of which many are multiplied at once."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Table, Type, Work
from tagflow.kernels.cpu.arrays cimport ArrayObject


cdef class ProductSum:
    cdef object total  # the sum, without what is gathered
    cdef object a  # matrices with room for the rows gathered, None until there are some
    cdef object b
    cdef int64_t rows  # gathered in both
    cdef bint owned  # whether `total` was made here, so that it may be changed

    cdef bint fits(self, ArrayObject* a, ArrayObject* b) noexcept
    cdef int gather(self, ArrayObject* a, ArrayObject* b, const Type* type) except -1
    cdef int own(self, const Table* table) except -1
    cdef int multiply(self, const Table* table, ArrayObject* a, ArrayObject* b, int64_t rows, Work* work) except -1
    cdef int multiply_gathered(self, const Table* table, Work* work) except -1
