"""Copies of values received from another device, made in the memory of this device. See docs/design/0009-devices.md."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.string cimport memcpy

from tagloom.kernels.core.cost cimport do_or_leave
from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.core.table cimport STRING, Node, Type, Work, output_type
from tagloom.kernels.core.values cimport hold, object_value
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, DescrObject, PyArray_DATA, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM, PyArray_SIZE,
    PyArray_STRIDES, is_plain, is_usable, new_array,
)
from tagloom.kernels.cpu.windows cimport Window, copy_window_to
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.rendezvous cimport RendezvousTable

cdef extern from "numpy/arrayobject.h":
    DescrObject* PyArray_DESCR(ArrayObject*)
    bint PyArray_EquivTypes(DescrObject*, DescrObject*)

cnp.import_array()

cdef double PACE = 0.2  # nanoseconds that a byte takes, about

cdef enum:
    MOST_PARTS = 64
    LINE = 64  # bytes


cdef struct Copy:
    const char* source
    char* target
    size_t size


cdef void _copy(const void* arguments, int part, int parts) noexcept nogil:
    """Copy a part of the bytes."""
    cdef const Copy* c = <const Copy*>arguments
    cdef size_t start = c.size * part // parts // LINE * LINE
    cdef size_t stop = c.size if part + 1 == parts else c.size * (part + 1) // parts // LINE * LINE
    memcpy(c.target + start, c.source + start, stop - start)


cdef bint _has_type(ArrayObject* array, const Type* type) noexcept:
    """Return True if an array has the dtype of a channel; the dtypes of strings are different but equal objects."""
    cdef DescrObject* found = PyArray_DESCR(array)
    return <PyObject*>found == type.descr or PyArray_EquivTypes(found, <DescrObject*>type.descr)


cdef bint _fits(ArrayObject* array, Window* window) noexcept:
    """Describe the elements of an array; return False for an array without elements, without dimensions or with too
    many.
    """
    window.data, window.rank = <char*>PyArray_DATA(array), PyArray_NDIM(array)
    if window.rank > MOST_DIMS or PyArray_SIZE(array) == 0 or window.rank == 0:
        return False
    memcpy(window.dims, PyArray_DIMS(array), window.rank * sizeof(cnp.npy_intp))
    memcpy(window.strides, PyArray_STRIDES(array), window.rank * sizeof(cnp.npy_intp))
    return True


cdef int copy_received(Machine* m, Iteration* it, const Node* node, Work* work) except -1:
    """Put a copy of the array received by a Recv into `outputs`, or leave the copy as work.

    Raises
    ------
    TypeError
        If the array has another dtype than the channel (rule 122): an internal error.
    """
    cdef ArrayObject* source = <ArrayObject*>it.slots[node.slot].bits
    cdef Type* type = output_type(m.table, node, 0)
    cdef Copy* c = <Copy*>work.arguments
    cdef Window window
    cdef char* target
    received = <object><PyObject*>source
    if not cnp.PyArray_Check(received) or not _has_type(source, type):
        raise TypeError(f"internal error: {<object>node.name} received {received!r:.99}")
    (<RendezvousTable*>m.rendezvous).traffic[node.index].bytes += PyArray_NBYTES(source)
    if not is_usable(source) or type.number == STRING or not _fits(source, &window):
        copied = received.copy()
        hold(m.live, m.outputs, object_value(<PyObject*>copied))
        return 0
    target = <char*>PyArray_DATA(new_array(m.live, type, PyArray_NDIM(source), PyArray_DIMS(source), m.outputs))
    if not is_plain(source):
        return copy_window_to(m.table, &window, type.itemsize, target, work, m.outputs)
    c.source, c.target, c.size = window.data, target, PyArray_NBYTES(source)
    return do_or_leave(m.table, work, _copy, PACE * c.size, MOST_PARTS, m.outputs)
