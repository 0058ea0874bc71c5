"""AsyncResult: the result of an asynchronous kernel."""


cdef class AsyncResult:
    cdef public object source
    cdef public object convert
    cdef public object give_up
    cdef readonly bint in_order
