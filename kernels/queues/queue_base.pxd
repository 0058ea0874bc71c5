"""Putters and takers of a queue, and how they are served."""

from libc.stdint cimport int64_t

from tagloom.kernels.queues.queue_lines cimport Attempt, Line
from tagloom.kernels.queues.queue_rings cimport Ring


cpdef tuple kept(components, pool=*)
cpdef bint is_kept(value, pool) except -1


cdef class Rows:
    cdef public tuple columns
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t stop


cdef class Put(Attempt):
    cdef readonly object elements


cdef class Closing(Put):
    pass


cdef class Take(Attempt):
    cdef readonly Py_ssize_t count
    cdef readonly list gathered
    cdef readonly bint many
    cdef readonly bint up_to

    cpdef list let_go(self)


cdef class Taken:
    cdef readonly list entries
    cdef public object make
    cdef object put_back
    cdef int64_t number
    cdef readonly bint is_long


cdef class QueueBase:
    cdef public object order
    cdef public Ring ring
    cdef public bint closed
    cdef readonly Line putters
    cdef readonly Line takers
    cdef public int64_t enqueued
    cdef public int64_t dequeued
    cdef public int64_t nbytes
    cdef public Py_ssize_t piece
    cdef readonly Py_ssize_t capacity
    cdef readonly int64_t capacity_bytes
    cdef bint gathers
    # Conditions for kernels in C, set by `settle`:
    cdef public bint may_put  # it is open, and no putter waits
    cdef public bint may_take  # no taker waits
    cdef public bint takers_wait  # a taker waits that was not woken: `serve` after each put
    cdef public bint putters_wait  # a putter waits that was not woken: `serve` after each take
    cdef Py_ssize_t left  # elements that may still be moved in this turn of the event loop
    cdef object later  # the next turn of a batch that is moved in pieces
    cdef int64_t takes  # number of takes so far
    cdef int64_t oldest  # the first take that may still be put back

    cpdef serve(self)
    cpdef settle(self)
    cpdef Py_ssize_t free(self) except -1
    cpdef push(self, tuple element)
    cdef int serve_if(self, bint changed) except -1
    cdef bint serve_putters(self) except -1
    cdef bint serve_takers(self) except -1
    cdef int take_the_rest(self, Take take, Py_ssize_t free) except -1
    cdef bint gather_some(self, Take take, Py_ssize_t free) except -1
    cdef int gather(self, Take take, Py_ssize_t count) except -1
    cpdef bring_back(self, Take take)
    cdef int push_all(self, Put put) except -1
    cdef bint push_some(self, Put put) except -1
    cdef int push_rows(self, Rows rows, Py_ssize_t count) except -1
    cdef bint has_room_for(self, Put put) except -1
    cdef bint has_room(self, Py_ssize_t count, int64_t size) except -1
    cdef Py_ssize_t available(self) except -1
    cdef Taken take_all(self, Take take)
    cdef Taken taken(self, list entries, bint many)
