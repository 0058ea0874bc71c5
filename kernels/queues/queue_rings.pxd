"""The elements of queues that have a fixed size."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from tagloom.kernels.cpu.arrays cimport Operand


cdef class Ring:
    cdef readonly list columns  # an array for each component: places by the component's shape
    cdef list shapes  # of the components
    cdef char** data
    cdef size_t* sizes  # of a component of one element, in bytes
    cdef int count  # of components
    cdef readonly Py_ssize_t places  # that there are
    cdef readonly Py_ssize_t capacity  # most that there may be; below 0 any number
    cdef Py_ssize_t first  # place of the next element to be taken
    cdef readonly Py_ssize_t length
    cdef readonly int64_t left  # number of elements taken out, less the number put back

    cdef bint grow(self, Py_ssize_t wanted) except -1
    cdef inline char* at(self, int component, Py_ssize_t index) noexcept
    cdef Py_ssize_t rows_in(self, columns) except -2
    cdef bint fits(self, int component, const Operand* value, int batched)
    cdef void copy(self, int component, Py_ssize_t index, char* rows, Py_ssize_t count, bint to_ring) noexcept
    cdef void drop(self, Py_ssize_t count) noexcept
    cdef int write(self, columns, Py_ssize_t start, Py_ssize_t index, Py_ssize_t count) except -1
    cdef tuple read(self, Py_ssize_t count)
    cdef int read_into(self, columns, Py_ssize_t count) except -1
