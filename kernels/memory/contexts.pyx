"""Private contexts of kernels, so that NumPy settings made for kernels never reach the user's code.

In a private context NumPy takes array data from the device's pool and is silent about floating point. Each drain has a
context for itself: a context can be entered once only, and a user's function may run another step.

See docs/design/0008-memory.md.
"""

from contextvars import Context

import numpy as np

cimport numpy as cnp
from cpython.object cimport PyObject

from tagloom.kernels.memory.pool cimport Pool

cdef extern from *:
    """
    static _Thread_local PyObject *tagloom_inside = NULL;
    """
    PyObject* inside "tagloom_inside"  # context of the innermost `run` of this thread, borrowed; NULL outside

cdef extern from "numpy/arrayobject.h":
    object PyDataMem_SetHandler(object)

cdef extern from "Python.h":
    int PyContext_Enter(PyObject*) except -1
    int PyContext_Exit(PyObject*) except -1

cnp.import_array()


cdef class KernelContexts:
    """The private contexts of a device.

    Parameters
    ----------
    pool : Pool, optional
        Pool for the data of arrays made in them; NumPy's own memory by default, and for a ByteCounter.
    """

    def __init__(self, Pool pool=None):
        self.pool = pool
        self.idle = []

    def run(self, function, *args, **kwargs):
        """Return ``function(*args, **kwargs)``, called in a private context; exceptions pass through."""
        context = self.take()
        cdef PyObject* around = enter(context)
        try:
            return function(*args, **kwargs)
        finally:
            leave(context, around)
            self.give(context)

    cdef object take(self):
        """Return a private context not entered yet, for `enter`; `give` returns it to the list of idle contexts."""
        return self.idle.pop() if self.idle else self._new()

    cdef int give(self, object context) except -1:
        """Put a context from `take` back into the list of idle contexts."""
        self.idle.append(context)
        return 0

    def _new(self):
        context = Context()
        context.run(np.seterr, all="ignore")
        if self.pool is not None and self.pool.is_allocator:
            context.run(_set_handler, self.pool.handler)
        return context


cdef PyObject* enter(object context) except? NULL:
    """Enter a private context; return the thread's previous context for `leave`, borrowed, NULL for none."""
    global inside
    cdef PyObject* around = inside
    PyContext_Enter(<PyObject*>context)
    inside = <PyObject*>context
    return around


cdef int leave(object context, PyObject* around) except -1:
    """Leave a private context."""
    global inside
    inside = around
    return PyContext_Exit(<PyObject*>context)


cdef bint is_inside() noexcept:
    """Return True if this thread is in a private context."""
    return inside != NULL


def _set_handler(handler):
    PyDataMem_SetHandler(handler)


def outside(function, *args, **kwargs):
    """Return ``function(*args, **kwargs)``, called in the context in which the innermost `KernelContexts.run` was
    called.

    So the user's functions see their own context variables, and NumPy as the user has set it.
    """
    global inside
    cdef PyObject* context = inside
    if context == NULL:
        return function(*args, **kwargs)
    PyContext_Exit(context)
    inside = NULL
    try:
        return function(*args, **kwargs)
    finally:
        PyContext_Enter(context)
        inside = context
