"""Softmax, its logarithm and the cross-entropies along the last axis, and the places of extreme elements.

Each row goes through the NumPy loops that the Python kernels run over whole arrays, while it is in the cache; the
results are the same bit for bit.
"""

cimport numpy as cnp
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from tagflow.kernels.core.table cimport Loop, Native, Node, Table, Work, input_type, output_type
from tagflow.kernels.core.values cimport Counters, Value
from tagflow.kernels.cpu.arrays cimport Operand, integer_at, new_result, open_plain
from tagflow.kernels.cpu.registry cimport register
from tagflow.kernels.cpu.ufuncs cimport find_native_loop

cnp.import_array()


cdef struct Apply:  # an inner loop
    Loop loop
    void* data


cdef struct Arithmetic:  # of one element type
    Apply add, subtract, multiply, divide, maximum, exp, log


cdef Arithmetic _floats, _doubles

cdef fused real:
    float
    double


cdef int _load(Arithmetic* found, int number) except -1:
    """Find the loops for one element type."""
    found.add.loop = find_native_loop("add", [number] * 3, &found.add.data)
    found.subtract.loop = find_native_loop("subtract", [number] * 3, &found.subtract.data)
    found.multiply.loop = find_native_loop("multiply", [number] * 3, &found.multiply.data)
    found.divide.loop = find_native_loop("divide", [number] * 3, &found.divide.data)
    found.maximum.loop = find_native_loop("maximum", [number] * 3, &found.maximum.data)
    found.exp.loop = find_native_loop("exp", [number] * 2, &found.exp.data)
    found.log.loop = find_native_loop("log", [number] * 2, &found.log.data)
    return 0


_load(&_floats, np.dtype(np.float32).num)
_load(&_doubles, np.dtype(np.float64).num)


cdef inline const Arithmetic* _of(real* _) noexcept nogil:
    return &_floats if real is float else &_doubles


cdef inline void _unary(const Apply* f, real* x, real* y, cnp.npy_intp count) noexcept nogil:
    cdef char* pointers[2]
    cdef cnp.npy_intp strides[2]
    pointers[0], pointers[1] = <char*>x, <char*>y
    strides[0] = strides[1] = sizeof(real)
    f.loop(pointers, &count, strides, f.data)


cdef inline void _binary(const Apply* f, real* x, real* y, cnp.npy_intp step, real* z, cnp.npy_intp count) noexcept nogil:
    """Apply a loop to a row and a row (step 1) or a number (step 0)."""
    cdef char* pointers[3]
    cdef cnp.npy_intp strides[3]
    pointers[0], pointers[1], pointers[2] = <char*>x, <char*>y, <char*>z
    strides[0] = strides[2] = sizeof(real)
    strides[1] = step * sizeof(real)
    f.loop(pointers, &count, strides, f.data)


cdef inline void _join(const Apply* f, real* x, real* total, cnp.npy_intp count) noexcept nogil:
    """Join all elements of a row to a number."""
    cdef char* pointers[3]
    cdef cnp.npy_intp strides[3]
    pointers[0], pointers[1], pointers[2] = <char*>total, <char*>x, <char*>total
    strides[0] = strides[2] = 0
    strides[1] = sizeof(real)
    f.loop(pointers, &count, strides, f.data)


cdef inline real _largest(const Arithmetic* do, real* x, cnp.npy_intp width) noexcept nogil:
    cdef real top = x[0]
    _join(&do.maximum, x, &top, width)
    return top


cdef inline void _softmax_row(const Arithmetic* do, real* x, real* y, cnp.npy_intp width) noexcept nogil:
    """Compute exp(x) / sum(exp(x))."""
    cdef real top = _largest(do, x, width)
    cdef real total = 0
    _binary(&do.subtract, x, &top, 0, y, width)
    _unary(&do.exp, y, y, width)
    _join(&do.add, y, &total, width)
    _binary(&do.divide, y, &total, 0, y, width)


cdef inline real _log_sum_exp(const Arithmetic* do, real* x, real* scratch, cnp.npy_intp width) noexcept nogil:
    """Compute log(sum(exp(x)))."""
    cdef real top = _largest(do, x, width)
    cdef real total = 0
    if not isfinite(top):
        top = 0
    _binary(&do.subtract, x, &top, 0, scratch, width)
    _unary(&do.exp, scratch, scratch, width)
    _join(&do.add, scratch, &total, width)
    _unary(&do.log, &total, &total, 1)
    return total + top


cdef inline bint _has_rows(const Operand* x) noexcept nogil:
    return x.rank > 0 and x.size > 0


cdef inline int _softmax(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, real* source) except -1:
    """Compute the softmax (params[0] = 0) of each row, or its logarithm (1)."""
    cdef const Arithmetic* do = _of(source)
    cdef real* target
    cdef real total
    cdef cnp.npy_intp width, i
    cdef Operand x
    if not open_plain(&inputs[0], &x) or not _has_rows(&x) or (node.params[1] >= 0 and node.params[1] != x.rank - 1):
        return 0
    width = x.dims[x.rank - 1]
    source = <real*>x.data
    target = <real*>new_result(live, output_type(table, node, 0), x.rank, x.dims, outputs)
    for i in range(x.size // width):
        if node.params[0] == 0:
            _softmax_row(do, source, target, width)
        else:
            total = _log_sum_exp(do, source, target, width)
            _binary(&do.subtract, source, &total, 0, target, width)
        source += width
        target += width
    return 1


cdef inline real* _new_row(cnp.npy_intp width, real* _) except NULL:
    """Return room for a row, for the caller to free."""
    cdef void* row = malloc(width * sizeof(real))
    if row == NULL:
        raise MemoryError()
    return <real*>row


cdef inline int _cross_entropy(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, real* row) except -1:
    """Compute the cross-entropy of rows of probabilities with the softmax of rows of logits."""
    cdef const Arithmetic* do = _of(row)
    cdef real* losses
    cdef real* source
    cdef real total
    cdef cnp.npy_intp width, i
    cdef Operand labels, x
    if not open_plain(&inputs[0], &labels) or not open_plain(&inputs[1], &x) or not _has_rows(&x):
        return 0
    if (node.params[1] >= 0 and node.params[1] != x.rank - 1) or not _alike(&labels, x.dims, x.rank):
        return 0
    width = x.dims[x.rank - 1]
    row = _new_row(width, row)
    try:
        losses = <real*>new_result(live, output_type(table, node, 0), x.rank - 1, x.dims, outputs)
        for i in range(x.size // width):
            source = <real*>x.data + i * width
            total = _log_sum_exp(do, source, row, width)
            _binary(&do.subtract, source, &total, 0, row, width)
            _binary(&do.multiply, <real*>labels.data + i * width, row, 1, row, width)
            total = 0
            _join(&do.add, row, &total, width)
            losses[i] = -total
    finally:
        free(row)
    return 1


cdef inline bint _alike(const Operand* x, const cnp.npy_intp* dims, int rank) noexcept nogil:
    cdef int d
    if x.rank != rank:
        return False
    for d in range(rank):
        if x.dims[d] != dims[d]:
            return False
    return True


cdef inline bint _are_classes(const Operand* labels, size_t itemsize, cnp.npy_intp classes) noexcept nogil:
    cdef cnp.npy_intp i
    for i in range(labels.size):
        if not 0 <= integer_at(labels.data, itemsize, i) < classes:
            return False
    return True


cdef inline int _sparse_cross_entropy(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, real* row) except -1:
    """Compute the cross-entropy of class numbers under the softmax of rows of logits."""
    cdef const Arithmetic* do = _of(row)
    cdef size_t itemsize = input_type(table, node, 0).itemsize
    cdef real* losses
    cdef real* source
    cdef cnp.npy_intp width, i
    cdef Operand labels, x
    if not open_plain(&inputs[0], &labels) or not open_plain(&inputs[1], &x) or not _has_rows(&x):
        return 0
    width = x.dims[x.rank - 1]
    if not _alike(&labels, x.dims, x.rank - 1) or not _are_classes(&labels, itemsize, width):
        return 0
    row = _new_row(width, row)
    try:
        losses = <real*>new_result(live, output_type(table, node, 0), x.rank - 1, x.dims, outputs)
        for i in range(labels.size):
            source = <real*>x.data + i * width
            losses[i] = _log_sum_exp(do, source, row, width) - source[integer_at(labels.data, itemsize, i)]
    finally:
        free(row)
    return 1


cdef int _softmax_float(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _softmax(table, node, inputs, live, outputs, <float*>NULL)


cdef int _softmax_double(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _softmax(table, node, inputs, live, outputs, <double*>NULL)


cdef int _dense_float(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _cross_entropy(table, node, inputs, live, outputs, <float*>NULL)


cdef int _dense_double(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _cross_entropy(table, node, inputs, live, outputs, <double*>NULL)


cdef int _sparse_float(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _sparse_cross_entropy(table, node, inputs, live, outputs, <float*>NULL)


cdef int _sparse_double(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _sparse_cross_entropy(table, node, inputs, live, outputs, <double*>NULL)


cdef fused element:
    float
    double
    int32_t
    int64_t


cdef inline cnp.npy_intp _first_largest(element* x, cnp.npy_intp width, bint smallest) noexcept nogil:
    """Return where the largest (or smallest) element is: the first of equals, the first NaN if there is one."""
    cdef cnp.npy_intp best = 0
    cdef cnp.npy_intp i
    for i in range(width):
        if x[i] != x[i]:
            return i
        if x[i] < x[best] if smallest else x[i] > x[best]:
            best = i
    return best


cdef inline cnp.npy_intp _position_in(int number, char* row, cnp.npy_intp width, bint smallest) noexcept nogil:
    if number == cnp.NPY_FLOAT32:
        return _first_largest(<float*>row, width, smallest)
    if number == cnp.NPY_FLOAT64:
        return _first_largest(<double*>row, width, smallest)
    if number == cnp.NPY_INT32:
        return _first_largest(<int32_t*>row, width, smallest)
    return _first_largest(<int64_t*>row, width, smallest)


cdef int _position(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Find the largest (params[0] = 0) or smallest (1) element of each row."""
    cdef int number = input_type(table, node, 0).number
    cdef size_t size = input_type(table, node, 0).itemsize
    cdef size_t made = output_type(table, node, 0).itemsize
    cdef cnp.npy_intp width, i, at
    cdef char* target
    cdef Operand x
    if not open_plain(&inputs[0], &x) or not _has_rows(&x) or (node.params[1] >= 0 and node.params[1] != x.rank - 1):
        return 0
    width = x.dims[x.rank - 1]
    target = new_result(live, output_type(table, node, 0), x.rank - 1, x.dims, outputs)
    for i in range(x.size // width):
        at = _position_in(number, x.data + i * width * size, width, node.params[0])
        if made == 4:
            (<int32_t*>target)[i] = <int32_t>at
        else:
            (<int64_t*>target)[i] = at
    return 1


cdef Native _find_softmax(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Softmax, LogSoftmax, a cross-entropy, ArgMax or ArgMin, or NULL."""
    axis = attrs.get("axis", -1)
    params[1] = axis
    if axis < -1:
        return NULL
    if type == "ArgMax" or type == "ArgMin":
        params[0] = type == "ArgMin"
        if inputs[0] in (np.float32, np.float64, np.int32, np.int64):
            return _position
        return NULL
    params[0] = type == "LogSoftmax"
    if type == "SoftmaxCrossEntropyWithLogits":
        return _for(outputs[0], _dense_float, _dense_double)
    if type == "SparseSoftmaxCrossEntropyWithLogits":
        return _for(outputs[0], _sparse_float, _sparse_double)
    return _for(outputs[0], _softmax_float, _softmax_double)


cdef Native _for(dtype, Native floats, Native doubles):
    if dtype == np.float32:
        return floats
    if dtype == np.float64:
        return doubles
    return NULL


for _type in (
    "ArgMax", "ArgMin", "LogSoftmax", "Softmax", "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
):
    register(_type, _find_softmax)
