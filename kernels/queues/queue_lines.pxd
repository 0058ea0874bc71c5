"""Lines of attempts that wait for a resource, in the order in which they came."""


cdef class Attempt:
    cdef public str operation
    cdef public object future
    cdef public object error
    cdef public Py_ssize_t need


cdef class Line:
    cdef readonly object dropped
    cdef readonly bint in_order
    cdef readonly object woken
    cdef readonly object waiting
    cdef readonly Py_ssize_t promised

    cdef Attempt first(self)
    cpdef object join(self, Attempt attempt, go_on, give_up)
    cpdef int wake(self, Attempt attempt) except -1
    cpdef int end(self, Attempt attempt, error=*, result=*) except -1
    cpdef bint leave(self, Attempt attempt) except -1
