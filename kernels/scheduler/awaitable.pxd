"""What an asynchronous kernel returned."""

cdef bint is_awaitable(object result)
cdef int discard(object awaitable) except -1
