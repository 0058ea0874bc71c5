"""The guard's check of kernel outputs before their delivery."""

from libc.stdint cimport int64_t, uint32_t
from numpy cimport PyArray_CheckExact, PyArray_NBYTES, import_array, ndarray

from tagloom.kernels.core.convert cimport box
from tagloom.kernels.core.table cimport KERNEL, Node, is_floating, output_type
from tagloom.kernels.core.values cimport OBJECT, drop, pointer
from tagloom.kernels.scheduler.delivery cimport Machine

import_array()


cdef int64_t guarded_bytes(Machine* m, const Node* node) except -1:
    """Return the bytes of a kernel's floating outputs."""
    cdef int64_t size = 0
    cdef uint32_t o
    for o in range(node.num_outputs if node.kind == KERNEL else 0):
        if m.outputs[o].form == OBJECT and is_floating(output_type(m.table, node, o)):
            size += PyArray_NBYTES(<ndarray><object>pointer(m.outputs[o]))
    return size


cdef list guarded_outputs(Machine* m, const Node* node):
    """Return a kernel's floating outputs."""
    cdef uint32_t o
    found = []
    for o in range(node.num_outputs if node.kind == KERNEL else 0):
        if is_floating(output_type(m.table, node, o)):
            found.append(box(m.outputs[o], output_type(m.table, node, o)))
    return found


cdef int guard_outputs(Machine* m, const Node* node, object guard) except -1:
    """Call ``guard(array)`` for each floating output of a kernel; if it raises, all outputs are dropped."""
    try:
        for array in guarded_outputs(m, node):
            guard(array)
    except BaseException:
        drop_outputs(m, node)
        raise
    return 0


cdef void drop_outputs(Machine* m, const Node* node) noexcept:
    """Drop the outputs of a kernel."""
    cdef uint32_t o
    for o in range(node.num_outputs):
        drop(m.live, &m.outputs[o])


cdef int64_t made_bytes(Machine* m, const Node* node) except -1:
    """Return how many bytes of arrays a kernel has made."""
    cdef int64_t size = 0
    cdef uint32_t o
    for o in range(node.num_outputs):
        if m.outputs[o].form == OBJECT and PyArray_CheckExact(<object>pointer(m.outputs[o])):
            size += PyArray_NBYTES(<ndarray><object>pointer(m.outputs[o]))
    return size
