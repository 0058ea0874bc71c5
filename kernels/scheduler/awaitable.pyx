"""Awaitable results of asynchronous kernels."""

from numpy cimport PyArray_CheckExact, import_array

cdef extern from "Python.h":
    bint PyCoro_CheckExact(object)

import_array()


cdef bint is_awaitable(object result):
    """Return True if a kernel's result is an awaitable."""
    if result is None or PyArray_CheckExact(result) or type(result) is tuple:
        return False
    return PyCoro_CheckExact(result) or hasattr(type(result), "__await__")


cdef int discard(object awaitable) except -1:
    """Close a coroutine, or cancel an object in place of a coroutine, that nobody will await."""
    close = getattr(awaitable, "close", None)
    if close is None and hasattr(awaitable, "withdraw"):
        # A call in a thread, which may have begun; or the event of a copy, which has no other end.
        close = getattr(awaitable, "cancel", awaitable.withdraw)
    if close is not None:
        close()
    return 0
