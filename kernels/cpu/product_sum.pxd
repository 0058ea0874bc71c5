"""Sums of products that a loop makes, of which many are multiplied at once."""

from libc.stdint cimport int64_t

from tagloom.kernels.core.table cimport Table, Type, Work
from tagloom.kernels.core.values cimport Value
from tagloom.kernels.cpu.arrays cimport ArrayObject


cdef class ProductSum:
    cdef object total  # the sum, without the gathered rows
    cdef object before  # source from which the total is copied before the first addition; None if it is there
    cdef object a  # matrices with room for the rows gathered, None until there are some
    cdef object b
    cdef int64_t rows  # gathered in both
    cdef bint owned  # whether `total` was made here, so that it may be changed

    cdef bint fits(self, ArrayObject* a, ArrayObject* b) noexcept
    cdef int make_room(self, ArrayObject* a, ArrayObject* b, const Type* type) except -1
    cdef int gather(self, const Table* table, ArrayObject* a, ArrayObject* b, Work* work) except -1
    cdef int own(self, const Table* table) except -1
    cdef int multiply(
        self, const Table* table, ArrayObject* a, ArrayObject* b, int64_t rows, ArrayObject* more_a,
        ArrayObject* more_b, Work* work) except -1
    cdef int multiply_gathered(self, const Table* table, ArrayObject* more_a, ArrayObject* more_b, Work* work) except -1


cdef int64_t most_rows(const ArrayObject* total) noexcept nogil
cdef bint is_tiny(const ArrayObject* a, const ArrayObject* b) noexcept nogil
cdef ProductSum sum_in(Value value)
