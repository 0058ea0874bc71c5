"""The kernel to join the elements of a TensorArray after a loop.

Many small copies into a large array, whose pages the system may have to find first: left to the workers.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from numpy cimport npy_intp

import numpy as np

from tagloom.kernels.core.cost cimport do_or_leave, keep
from tagloom.kernels.core.frames cimport iteration_of
from tagloom.kernels.core.table cimport Native, Node, Table, Work, output_type
from tagloom.kernels.core.values cimport OBJECT, Counters, Value, hold, object_value
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_DATA, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM, PyArray_STRIDES, new_array,
    plain_in, same_shape,
)
from tagloom.kernels.cpu.elements cimport WRITTEN, Element, Elements, Rows, Slot
from tagloom.kernels.cpu.registry cimport register

cdef extern from "numpy/arrayobject.h":
    ctypedef struct DescrObject "PyArray_Descr":
        pass
    DescrObject* PyArray_DESCR(ArrayObject*)

cdef extern from "Python.h":
    object PyByteArray_FromStringAndSize(const char*, Py_ssize_t)
    char* PyByteArray_AS_STRING(object)

cnp.import_array()

cdef double PACE = 0.2  # nanoseconds that a byte takes, about

cdef enum:
    MOST_DIMS = 32
    MOST_PARTS = 64
    LARGE = 1 << 18  # bytes that are copied in parts


cdef struct Piece:
    char* source
    char* target
    size_t size


cdef struct Pieces:
    Piece* first
    int64_t count


cdef void _copy(const void* arguments, int part, int parts) noexcept nogil:
    """Copy some of the pieces."""
    cdef const Pieces* pieces = <const Pieces*>arguments
    cdef int64_t i
    for i in range(pieces.count * part // parts, pieces.count * (part + 1) // parts):
        memcpy(pieces.first[i].target, pieces.first[i].source, pieces.first[i].size)


cdef int _join(const Table* table, list arrays, ArrayObject* whole, Work* work, Value* output) except -1:
    """Copy plain arrays in order into a whole with room for all, or leave the copy as work."""
    cdef Pieces* pieces = <Pieces*>work.arguments
    cdef char* target = <char*>PyArray_DATA(whole)
    cdef ArrayObject* each
    cdef int64_t i
    memory = PyByteArray_FromStringAndSize(NULL, len(arrays) * sizeof(Piece))
    pieces.first, pieces.count = <Piece*>PyByteArray_AS_STRING(memory), len(arrays)
    for i in range(pieces.count):
        each = <ArrayObject*><PyObject*>arrays[i]
        pieces.first[i].source, pieces.first[i].target = <char*>PyArray_DATA(each), target
        pieces.first[i].size = PyArray_NBYTES(each)
        target += PyArray_NBYTES(each)
    kept = (memory, arrays)
    keep(work, <PyObject*>kept)
    return do_or_leave(table, work, _copy, PACE * PyArray_NBYTES(whole), min(MOST_PARTS, len(arrays)), output)


cdef int _stack_elements(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Read all elements of a TensorArray as rows of a single array."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef int64_t iteration = iteration_of(&table.frames[node.frame], inputs - node.slot).number
    cdef ArrayObject* first
    cdef ArrayObject* whole
    cdef Elements array
    if inputs[0].form != OBJECT or not isinstance(<object><PyObject*>inputs[0].bits, Elements):
        return 0
    array = <Elements><PyObject*>inputs[0].bits
    if node.num_inputs == 3:
        if not _fill_rows(array, inputs[2], <str>node.name):
            return 0
        return _stack_rows(table, node, array, iteration, live, work, outputs)
    if array.are_rows(<str>node.name):
        return _stack_rows(table, node, array, iteration, live, work, outputs)
    array.all()  # made where that may raise
    first = _alike(array, output_type(table, node, 0).descr)
    if first == NULL or PyArray_NDIM(first) >= MOST_DIMS:
        return 0
    dims[0] = len(array.made)
    memcpy(&dims[1], PyArray_DIMS(first), PyArray_NDIM(first) * sizeof(cnp.npy_intp))
    whole = new_array(live, output_type(table, node, 0), PyArray_NDIM(first) + 1, dims, outputs)  # before any is cleared
    return _join(table, array.read_many_quickly(range(dims[0]), <str>node.name, iteration), whole, work, outputs)


cdef bint _fill_rows(Elements array, Value sizes, str reader) except -1:
    """Return True if all elements of a gradient array, zeros among them, are rows of the block of a native program.

    Rows to which nothing was written become zeros; no other code has seen these. `sizes` are those of the stack.
    """
    cdef Rows found = array.rows
    cdef ArrayObject* given = plain_in(sizes)
    cdef ArrayObject* rows
    cdef Slot* slot
    cdef int64_t i
    if found is None or found.array is None or array.closed or not found.is_ours or given == NULL:
        return False
    rows = <ArrayObject*><PyObject*>found.array
    if PyArray_NBYTES(given) != PyArray_NDIM(rows) * <npy_intp>sizeof(int32_t):
        return False
    for i in range(PyArray_NDIM(rows)):
        if (<const int32_t*>PyArray_DATA(given))[i] != PyArray_DIMS(rows)[i]:
            return False
    if found.reader is not None and found.reader != reader:
        return False
    for i in range(found.count):
        slot = &found.slots[i]
        if slot.row == NULL:
            if slot.done & WRITTEN:
                return False
            memset(<char*>PyArray_DATA(rows) + i * PyArray_STRIDES(rows)[0], 0, PyArray_STRIDES(rows)[0])
    return True


cdef int _stack_rows(
        const Table* table, const Node* node, Elements array, int64_t iteration, Counters* live, Work* work,
        Value* output) except -1:
    """Read all elements of a TensorArray which are rows of an array: the array itself if made for them, else a copy."""
    cdef ArrayObject* found = <ArrayObject*><PyObject*>array.rows.array
    cdef ArrayObject* whole
    if <PyObject*>PyArray_DESCR(found) != output_type(table, node, 0).descr:
        return 0
    if array.rows.is_ours:
        rows = array.read_rows(<str>node.name, iteration)
        hold(live, output, object_value(<PyObject*>rows))
        return 1
    whole = new_array(live, output_type(table, node, 0), PyArray_NDIM(found), PyArray_DIMS(found), output)
    rows = array.read_rows(<str>node.name, iteration)
    pieces = [rows] if PyArray_NBYTES(found) < LARGE else np.array_split(rows, MOST_PARTS)
    return _join(table, pieces, whole, work, output)


cdef ArrayObject* _alike(Elements array, PyObject* descr) noexcept:
    """Return the first element if all can be read and are plain arrays of equal shape and type, else NULL."""
    cdef ArrayObject* first = NULL
    cdef ArrayObject* each
    if array.closed:
        return NULL
    for element in array.made:
        value = (<Element>element).value
        each = NULL if value is None else plain_in(object_value(<PyObject*>value))
        if each == NULL or <PyObject*>PyArray_DESCR(each) != descr:
            return NULL
        first = each if first == NULL else first
        if not same_shape(first, each):
            return NULL
    return first


cdef Native _find_stack(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of TensorArrayStack, NULL for elements other than numbers."""
    if outputs[0] is None or outputs[0].kind not in "biufc":
        return NULL
    return _stack_elements


register("TensorArrayStack", _find_stack)
