"""Softmax, its logarithm and the cross-entropies along the last axis, and the places of extreme elements.

Each row goes through the inner loops that the Python kernels run over whole arrays, while it is in the cache; the
results are the same bit for bit.
"""

cimport numpy as cnp
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from tagloom.kernels.core.cost cimport decline, do_or_leave, place_of
from tagloom.kernels.core.table cimport Compute, Loop, Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport SCALAR, Counters, Value
from tagloom.kernels.cpu.arrays cimport Operand, integer_at, new_result, open_plain
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.ufuncs cimport find_native_loop

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
    """Find the loops for an element type."""
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


cdef double PACE = 5  # nanoseconds that an element of a softmax takes, about
cdef double LOOK = 1  # the same where rows are only looked through
cdef double ROW = 50  # the same for each row, besides

cdef enum:
    MOST_PARTS = 64


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


cdef struct Rows:  # that a kernel goes through
    const char* source
    char* target  # NULL for an unboxed element
    const char* labels  # NULL for unboxed ones
    uint64_t label
    size_t label_size  # bytes
    cnp.npy_intp count
    cnp.npy_intp width
    int kind  # result for each element
    int number  # of the element type


cdef inline void _open_rows(Rows* rows, const Operand* x) noexcept nogil:
    rows.source, rows.width = x.data, x.dims[x.rank - 1]
    rows.count = x.size // rows.width


cdef inline int _go_through(const Table* table, Work* work, Compute compute, double pace, Value* output) noexcept nogil:
    """Go through the rows, or leave that; `pace` is nanoseconds for an element."""
    cdef Rows* rows = <Rows*>work.arguments
    cdef double cost
    if output.form == SCALAR:
        rows.target = NULL
    cost = (pace * rows.width + ROW) * rows.count
    return do_or_leave(table, work, compute, cost, <int>min(MOST_PARTS, rows.count), output)


cdef inline void _softmax_rows(const Rows* rows, int part, int parts, real* source) noexcept nogil:
    """Compute the softmax of rows, or its logarithm."""
    cdef const Arithmetic* do = _of(source)
    cdef cnp.npy_intp i
    cdef real* target
    cdef real total
    for i in range(rows.count * part // parts, rows.count * (part + 1) // parts):
        source, target = <real*>rows.source + i * rows.width, <real*>rows.target + i * rows.width
        if rows.kind == 0:
            _softmax_row(do, source, target, rows.width)
        else:
            total = _log_sum_exp(do, source, target, rows.width)
            _binary(&do.subtract, source, &total, 0, target, rows.width)


cdef void _softmax_part(const void* arguments, int part, int parts) noexcept nogil:
    if (<const Rows*>arguments).number == cnp.NPY_FLOAT32:
        _softmax_rows(<const Rows*>arguments, part, parts, <float*>NULL)
    else:
        _softmax_rows(<const Rows*>arguments, part, parts, <double*>NULL)


cdef int _softmax(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Compute the softmax (params[0] = 0) of each row, or its logarithm (1)."""
    cdef Rows* rows = <Rows*>work.arguments
    cdef Operand x
    if not open_plain(&inputs[0], &x) or not _has_rows(&x) or (node.params[1] >= 0 and node.params[1] != x.rank - 1):
        return 0
    _open_rows(rows, &x)
    rows.kind, rows.number = <int>node.params[0], output_type(table, node, 0).number
    rows.target = new_result(live, output_type(table, node, 0), x.rank, x.dims, outputs)
    return _go_through(table, work, _softmax_part, PACE, outputs)


cdef inline void _dense_rows(const void* arguments, int part, int parts, real* row) noexcept nogil:
    """Compute the cross-entropies of rows; decline if there is no memory for one."""
    cdef const Rows* rows = <const Rows*>arguments
    cdef const Arithmetic* do = _of(row)
    cdef real* losses = <real*>place_of(arguments, rows.target)
    cdef cnp.npy_intp width = rows.width
    cdef cnp.npy_intp i
    cdef real* source
    cdef real total
    row = <real*>malloc(width * sizeof(real))
    if row == NULL:
        decline(arguments)
        return
    for i in range(rows.count * part // parts, rows.count * (part + 1) // parts):
        source = <real*>rows.source + i * width
        total = _log_sum_exp(do, source, row, width)
        _binary(&do.subtract, source, &total, 0, row, width)
        _binary(&do.multiply, <real*>rows.labels + i * width, row, 1, row, width)
        total = 0
        _join(&do.add, row, &total, width)
        losses[i] = -total
    free(row)


cdef void _dense_part(const void* arguments, int part, int parts) noexcept nogil:
    if (<const Rows*>arguments).number == cnp.NPY_FLOAT32:
        _dense_rows(arguments, part, parts, <float*>NULL)
    else:
        _dense_rows(arguments, part, parts, <double*>NULL)


cdef int _dense(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Compute the cross-entropy of rows of probabilities with the softmax of rows of logits."""
    cdef Rows* rows = <Rows*>work.arguments
    cdef Operand labels, x
    if not open_plain(&inputs[0], &labels) or not open_plain(&inputs[1], &x) or not _has_rows(&x):
        return 0
    if (node.params[1] >= 0 and node.params[1] != x.rank - 1) or not _alike(&labels, x.dims, x.rank):
        return 0
    _open_rows(rows, &x)
    rows.labels, rows.number = labels.data, output_type(table, node, 0).number
    rows.target = new_result(live, output_type(table, node, 0), x.rank - 1, x.dims, outputs)
    return _go_through(table, work, _dense_part, PACE, outputs)


cdef inline bint _alike(const Operand* x, const cnp.npy_intp* dims, int rank) noexcept nogil:
    cdef int d
    if x.rank != rank:
        return False
    for d in range(rank):
        if x.dims[d] != dims[d]:
            return False
    return True


cdef inline void _sparse_rows(const void* arguments, int part, int parts, real* row) noexcept nogil:
    """Compute the cross-entropies of rows; decline if a class is out of range, or there is no memory for a row."""
    cdef const Rows* rows = <const Rows*>arguments
    cdef const Arithmetic* do = _of(row)
    cdef const char* labels = rows.labels if rows.labels != NULL else <const char*>&rows.label
    cdef real* losses = <real*>place_of(arguments, rows.target)
    cdef cnp.npy_intp width = rows.width
    cdef cnp.npy_intp i
    cdef int64_t label
    cdef real* source
    row = <real*>malloc(width * sizeof(real))
    if row == NULL:
        decline(arguments)
        return
    for i in range(rows.count * part // parts, rows.count * (part + 1) // parts):
        label = integer_at(labels, rows.label_size, i)
        if not 0 <= label < width:
            decline(arguments)
            break
        source = <real*>rows.source + i * width
        losses[i] = _log_sum_exp(do, source, row, width) - source[label]
    free(row)


cdef void _sparse_part(const void* arguments, int part, int parts) noexcept nogil:
    if (<const Rows*>arguments).number == cnp.NPY_FLOAT32:
        _sparse_rows(arguments, part, parts, <float*>NULL)
    else:
        _sparse_rows(arguments, part, parts, <double*>NULL)


cdef int _sparse(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Compute the cross-entropy of class numbers under the softmax of rows of logits."""
    cdef Rows* rows = <Rows*>work.arguments
    cdef Operand labels, x
    if not open_plain(&inputs[0], &labels) or not open_plain(&inputs[1], &x) or not _has_rows(&x):
        return 0
    if not _alike(&labels, x.dims, x.rank - 1):
        return 0
    _open_rows(rows, &x)
    rows.labels = NULL if inputs[0].form == SCALAR else labels.data
    rows.label, rows.label_size = inputs[0].bits, input_type(table, node, 0).itemsize
    rows.number = output_type(table, node, 0).number
    rows.target = new_result(live, output_type(table, node, 0), x.rank - 1, x.dims, outputs)
    return _go_through(table, work, _sparse_part, PACE, outputs)


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


cdef void _position_part(const void* arguments, int part, int parts) noexcept nogil:
    """Find the largest, or smallest, element of some rows."""
    cdef const Rows* rows = <const Rows*>arguments
    cdef char* target = place_of(arguments, rows.target)
    cdef size_t size = rows.width * _size_of(rows.number)
    cdef cnp.npy_intp i, at
    for i in range(rows.count * part // parts, rows.count * (part + 1) // parts):
        at = _position_in(rows.number, rows.source + i * size, rows.width, rows.kind)
        if rows.label_size == 4:
            (<int32_t*>target)[i] = <int32_t>at
        else:
            (<int64_t*>target)[i] = at


cdef inline size_t _size_of(int number) noexcept nogil:
    return 4 if number == cnp.NPY_FLOAT32 or number == cnp.NPY_INT32 else 8


cdef int _position(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Find the largest (params[0] = 0) or smallest (1) element of each row."""
    cdef Rows* rows = <Rows*>work.arguments
    cdef Operand x
    if not open_plain(&inputs[0], &x) or not _has_rows(&x) or (node.params[1] >= 0 and node.params[1] != x.rank - 1):
        return 0
    _open_rows(rows, &x)
    rows.kind, rows.number = <int>node.params[0], input_type(table, node, 0).number
    rows.label_size = output_type(table, node, 0).itemsize
    rows.target = new_result(live, output_type(table, node, 0), x.rank - 1, x.dims, outputs)
    return _go_through(table, work, _position_part, LOOK, outputs)


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
    if outputs[0] not in (np.float32, np.float64):
        return NULL
    if type == "SoftmaxCrossEntropyWithLogits":
        return _dense
    if type == "SparseSoftmaxCrossEntropyWithLogits":
        return _sparse
    return _softmax


for _type in (
    "ArgMax", "ArgMin", "LogSoftmax", "Softmax", "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
):
    register(_type, _find_softmax, ())
