"""Values as they travel along edges: an element of at most 8 bytes unboxed, or a Python object.

The functions here touch reference counts and are still declared ``nogil``: that makes the compiler refuse
any other Python operation in them. Callers hold the GIL.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #ifndef TAGLOOM_DEBUG
    #define TAGLOOM_DEBUG 0
    #endif
    """
    const bint TAGLOOM_DEBUG


cdef extern from "Python.h" nogil:
    void Py_INCREF(PyObject*)
    void Py_DECREF(PyObject*)
    void Py_XDECREF(PyObject*)


cdef enum Form:
    EMPTY = 0  # nothing has arrived, or the value was dead
    SCALAR = 1
    OBJECT = 2


cdef struct Value:
    uint64_t bits  # SCALAR: the element's bytes, first byte first, the rest zero; OBJECT: PyObject*, one reference
    uint64_t form  # a Form


cdef struct Counters:
    int64_t values  # objects that values hold now, in references
    int64_t frames  # frame instances alive now
    int64_t iterations  # iterations alive now
    int64_t allocated  # debug build: all of the above that were ever taken
    int64_t freed  # debug build: all of the above that were ever released


cdef inline void count_in(Counters* live, int64_t* which) noexcept nogil:
    """Increment `which`, a field of `live`."""
    which[0] += 1
    if TAGLOOM_DEBUG:
        live.allocated += 1


cdef inline void count_out(Counters* live, int64_t* which) noexcept nogil:
    """Decrement `which`, a field of `live`."""
    which[0] -= 1
    if TAGLOOM_DEBUG:
        live.freed += 1


cdef inline Value empty() noexcept nogil:
    """Return no value."""
    cdef Value value
    value.bits = 0
    value.form = EMPTY
    return value


cdef inline Value scalar(uint64_t bits) noexcept nogil:
    """Return an element of at most 8 bytes."""
    cdef Value value
    value.bits = bits
    value.form = SCALAR
    return value


cdef inline Value object_value(PyObject* pointer) noexcept nogil:
    """Return a value that borrows the caller's reference; `hold` makes it an owner."""
    cdef Value value
    value.bits = <uint64_t>pointer
    value.form = OBJECT
    return value


cdef inline PyObject* pointer(Value value) noexcept nogil:
    """Return the object of an OBJECT value, borrowed."""
    return <PyObject*>value.bits


cdef inline void hold(Counters* live, Value* place, Value value) noexcept nogil:
    """Store `value` in an EMPTY place, with a reference of its own (released by `drop`)."""
    if value.form == OBJECT:
        Py_INCREF(<PyObject*>value.bits)
        count_in(live, &live.values)
    place[0] = value


cdef inline void drop(Counters* live, Value* place) noexcept nogil:
    """Empty a place and drop its reference; the place is empty before any finaliser can run."""
    cdef Value value = place[0]
    place.form = EMPTY
    if value.form == OBJECT:
        count_out(live, &live.values)
        Py_DECREF(<PyObject*>value.bits)


cdef inline Value take(Value* place) noexcept nogil:
    """Move a value and its reference out of a place."""
    cdef Value value = place[0]
    place.form = EMPTY
    return value
