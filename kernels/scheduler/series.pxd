"""A value for each iteration of a loop."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Type
from tagflow.kernels.core.values cimport Value


cdef class Series:
    cdef object __weakref__
    cdef Value* slots  # owned; EMPTY where nothing was written
    cdef int64_t capacity  # length of `slots`
    cdef int64_t written  # slots that are not EMPTY
    cdef Type type  # of the unboxed slots; type.descr NULL while there are none
    cdef object dtype  # owns type.descr
    cdef bint swaps  # whether the machine asks a step's swap for what it holds
    cdef public int64_t cursor  # slot that was read last of those that hold something stored; -1 for none yet

    cdef int store(self, int64_t index, Value value, const Type* type) except -1
    cdef int64_t array_bytes(self) noexcept
    cdef Value peek(self, int64_t index) noexcept
    cdef void release(self, int64_t index) noexcept
    cdef int _reserve(self, int64_t index) except -1
