"""Sums of products that a run of a native program adds to."""

from libc.stdint cimport int64_t

from tagloom.kernels.cpu.arrays cimport ArrayObject
from tagloom.kernels.cpu.product_sum cimport ProductSum
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run, Step
from tagloom.kernels.native.team cimport Team


cdef struct Sum:
    ArrayObject* a  # the rows that are gathered, and room for more
    ArrayObject* b
    ArrayObject* total
    int64_t rows
    int64_t most  # rows that are gathered before they are multiplied
    int64_t room
    int64_t quick  # rows up to which more are only copied
    char* first  # where the rows of the step's operands 1 and 2 are gathered
    char* second
    ArrayObject* more_a  # like the rows that are added in each iteration
    ArrayObject* more_b
    Team* team
    int register  # that the sum is in


cdef int record_add(Run run, const Instruction* each) except -1
cdef bint are_gathered(const Step* step) noexcept nogil
cdef void change_factors(Step* step) noexcept
cdef void point_to_next(const Step* step) noexcept nogil
cdef int close_sums(Run run) except -1
cdef bint may_add_to_others(Run run) except -1
cdef bint fits_sum(Run run, int number, ProductSum given) except -1
cdef int begin_sum(Run run, int number, ProductSum given) except -1
cdef ProductSum copy_of_sum(ProductSum sum)
