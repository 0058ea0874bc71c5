"""Running sums, along the axis element after element, as NumPy adds them."""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

import numpy as np

from tagflow.kernels.core.table cimport Native, Node, Table, Work, output_type
from tagflow.kernels.core.values cimport Counters, Value
from tagflow.kernels.cpu.arrays cimport Operand, new_result, open_plain, product
from tagflow.kernels.cpu.registry cimport register

cnp.import_array()

cdef fused element:
    float
    double
    int32_t
    int64_t


cdef inline void _add_up(const element* x, element* y, cnp.npy_intp count, cnp.npy_intp inner) noexcept nogil:
    """Write running sums of `count` rows of `inner` elements."""
    cdef cnp.npy_intp i
    memcpy(y, x, inner * sizeof(element))
    for i in range(inner, count * inner):
        y[i] = y[i - inner] + x[i]


cdef inline int _scan(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, element* made) except -1:
    """Add up a plain array along an axis."""
    cdef cnp.npy_intp count, inner, outer
    cdef Operand x
    cdef int axis
    if not open_plain(&inputs[0], &x) or x.size == 0:
        return 0
    axis = <int>node.params[0] + (x.rank if node.params[0] < 0 else 0)
    if not 0 <= axis < x.rank:
        return 0
    count, inner = x.dims[axis], product(x.dims, axis + 1, x.rank)
    made = <element*>new_result(live, output_type(table, node, 0), x.rank, x.dims, outputs)
    for outer in range(product(x.dims, 0, axis)):
        _add_up(<const element*>x.data + outer * count * inner, made + outer * count * inner, count, inner)
    return 1


cdef int _scan_float(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* _) except -1:
    return _scan(table, node, inputs, live, outputs, <float*>NULL)


cdef int _scan_double(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* _) except -1:
    return _scan(table, node, inputs, live, outputs, <double*>NULL)


cdef int _scan_int32(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* _) except -1:
    return _scan(table, node, inputs, live, outputs, <int32_t*>NULL)


cdef int _scan_int64(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* _) except -1:
    return _scan(table, node, inputs, live, outputs, <int64_t*>NULL)


cdef Native _find_cumulative(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Cumsum, if it goes forward and takes in each element."""
    params[0] = attrs["axis"]
    if attrs["exclusive"] or attrs["reverse"]:
        return NULL
    if outputs[0] == np.float32:
        return _scan_float
    if outputs[0] == np.float64:
        return _scan_double
    if outputs[0] == np.int32:
        return _scan_int32
    if outputs[0] == np.int64:
        return _scan_int64
    return NULL


register("Cumsum", _find_cumulative)
