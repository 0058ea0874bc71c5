"""Private contexts: where kernels run."""

from cpython.object cimport PyObject

from tagloom.kernels.memory.pool cimport Pool


cdef class KernelContexts:
    cdef readonly Pool pool
    cdef list idle

    cdef object take(self)
    cdef int give(self, object context) except -1


cdef PyObject* enter(object context) except? NULL
cdef int leave(object context, PyObject* around) except -1
cdef bint is_inside() noexcept
