"""Running sums, along the axis element after element, as NumPy adds them."""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

import numpy as np

from tagloom.kernels.core.cost cimport do_or_leave
from tagloom.kernels.core.table cimport Native, Node, Table, Work, output_type
from tagloom.kernels.core.values cimport Counters, Value
from tagloom.kernels.cpu.arrays cimport Operand, new_result, open_plain, product
from tagloom.kernels.cpu.registry cimport register

cnp.import_array()

cdef double PACE = 1  # nanoseconds that an element takes, about

cdef enum:
    MOST_PARTS = 64

cdef fused element:
    float
    double
    int32_t
    int64_t


cdef struct Scan:  # running sums along an axis
    const void* source
    void* target
    int number  # of the element type
    cnp.npy_intp outer  # places before the axis
    cnp.npy_intp count  # along it
    cnp.npy_intp inner  # elements after it


cdef inline void _add_up(const Scan* scan, cnp.npy_intp start, cnp.npy_intp stop, element* y) noexcept nogil:
    """Write the running sums for some places before the axis."""
    cdef cnp.npy_intp size = scan.count * scan.inner
    cdef const element* x
    cdef cnp.npy_intp place, i
    for place in range(start, stop):
        x, y = <const element*>scan.source + place * size, <element*>scan.target + place * size
        memcpy(y, x, scan.inner * sizeof(element))
        for i in range(scan.inner, size):
            y[i] = y[i - scan.inner] + x[i]


cdef void _scan_part(const void* arguments, int part, int parts) noexcept nogil:
    cdef const Scan* scan = <const Scan*>arguments
    cdef cnp.npy_intp start = scan.outer * part // parts
    cdef cnp.npy_intp stop = scan.outer * (part + 1) // parts
    if scan.number == cnp.NPY_FLOAT32:
        _add_up(scan, start, stop, <float*>NULL)
    elif scan.number == cnp.NPY_FLOAT64:
        _add_up(scan, start, stop, <double*>NULL)
    elif scan.number == cnp.NPY_INT32:
        _add_up(scan, start, stop, <int32_t*>NULL)
    else:
        _add_up(scan, start, stop, <int64_t*>NULL)


cdef int _scan(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Add up a plain array along an axis."""
    cdef Scan* scan = <Scan*>work.arguments
    cdef Operand x
    cdef int axis
    if not open_plain(&inputs[0], &x) or x.size == 0:
        return 0
    axis = <int>node.params[0] + (x.rank if node.params[0] < 0 else 0)
    if not 0 <= axis < x.rank:
        return 0
    scan.source, scan.number = x.data, output_type(table, node, 0).number
    scan.target = new_result(live, output_type(table, node, 0), x.rank, x.dims, outputs)
    scan.outer, scan.count, scan.inner = product(x.dims, 0, axis), x.dims[axis], product(x.dims, axis + 1, x.rank)
    return do_or_leave(table, work, _scan_part, PACE * x.size, <int>min(MOST_PARTS, scan.outer), outputs)


cdef Native _find_cumulative(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Cumsum, if it goes forward and takes in each element."""
    params[0] = attrs["axis"]
    if attrs["exclusive"] or attrs["reverse"]:
        return NULL
    if outputs[0] in (np.float32, np.float64, np.int32, np.int64):
        return _scan
    return NULL


register("Cumsum", _find_cumulative, ())
