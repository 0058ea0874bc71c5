"""The elements of queues that have a fixed size, and the kernels that put some in and take some out."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from tagflow.kernels.cpu.arrays cimport Operand


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
    cdef readonly int64_t left  # how many elements have left, less those that were put back

    cdef bint grow(self, Py_ssize_t wanted) except -1
    cdef inline char* at(self, int component, Py_ssize_t index) noexcept
    cdef bint fits(self, int component, const Operand* value, int batched)
    cdef void copy(self, int component, Py_ssize_t index, char* rows, Py_ssize_t count, bint to_ring) noexcept
    cdef void drop(self, Py_ssize_t count) noexcept


cdef class QueueBase:
    cdef public Ring ring  # the elements; None where they have no fixed size, or another order
    cdef public bint may_put  # it is open, and nobody waits to put
    cdef public bint may_take  # nobody waits to take
    cdef public bint takers_wait  # somebody waits to take who was not woken: `serve` what is put
    cdef public bint putters_wait  # somebody waits to put who was not woken: `serve` where something is taken
    cdef public int64_t enqueued  # elements that were put in so far
    cdef public int64_t dequeued  # elements that were taken so far
