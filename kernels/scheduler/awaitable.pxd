"""Awaitable results of asynchronous kernels."""

cdef bint is_awaitable(object result)
cdef int discard(object awaitable) except -1
