"""C kernels of rows by index vectors: GatherNd takes rows, ScatterNd adds rows to zeros and AddToRows to a tensor,
TensorScatterUpdate puts rows into a tensor.

A row is what the dimensions after those named by an index vector span. A tensor that nothing else holds changes in
place, as a total does in `slice_sums.pyx`.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from tagloom.kernels.core.cost cimport decline, do_or_leave, place_of
from tagloom.kernels.core.table cimport Compute, Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport SCALAR, Counters, Value, hold
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, Operand, PyArray_CompareLists, PyArray_DATA, PyArray_DIMS, PyArray_NDIM, are_copyable,
    are_sizes, integer_at, is_unshared, new_result, open_plain, plain_in, product, read_sizes,
)
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.seen cimport Seen

cnp.import_array()

cdef double PACE = 0.1  # nanoseconds that a byte of a whole array takes, about

cdef enum:
    MOST_PARTS = 64

cdef fused element:
    float
    double
    int32_t
    int64_t


cdef struct Rows:  # the arguments of _take_rows and _write_rows
    const char* indices
    size_t index_size
    cnp.npy_intp count  # of index vectors
    int depth  # numbers in an index vector
    cnp.npy_intp dims[MOST_DIMS]  # that the numbers are in
    size_t size  # bytes of a row
    char* source  # GatherNd: the whole array; else the rows; NULL for an unboxed row
    uint64_t unboxed
    char* target  # NULL for an unboxed result
    char* total  # the tensor; NULL if rows are added to zeros
    bint adds  # to the rows of the tensor, or takes their place
    size_t whole  # bytes of the tensor or the sum
    int number  # of the dtype
    size_t itemsize


cdef inline cnp.npy_intp _row(const Rows* rows, cnp.npy_intp i) noexcept nogil:
    """Return the number of the row that an index vector names, or -1 if the row does not exist."""
    cdef cnp.npy_intp row = 0
    cdef cnp.npy_intp index
    cdef int d
    for d in range(rows.depth):
        index = integer_at(rows.indices, rows.index_size, i * rows.depth + d)
        if not 0 <= index < rows.dims[d]:
            return -1
        row = row * rows.dims[d] + index
    return row


cdef bint _open(
        const Table* table, const Node* node, Value* inputs, int place, int rank, const cnp.npy_intp* dims, Rows* rows,
        Operand* indices) except -1:
    """Describe index vectors, the input `place`, into an array of some dimensions; return False if they do not fit."""
    if not open_plain(&inputs[place], indices) or indices.rank == 0 or rank > MOST_DIMS:
        return False
    if indices.dims[indices.rank - 1] > rank:
        return False
    rows.depth = <int>indices.dims[indices.rank - 1]
    rows.indices, rows.index_size = indices.data, input_type(table, node, place).itemsize
    rows.count = product(indices.dims, 0, indices.rank - 1)
    memcpy(rows.dims, dims, rank * sizeof(cnp.npy_intp))
    rows.itemsize, rows.number = output_type(table, node, 0).itemsize, output_type(table, node, 0).number
    rows.size = rows.itemsize * product(dims, rows.depth, rank)
    rows.whole = rows.itemsize * product(dims, 0, rank)
    return True


cdef int _gather(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Take rows of a plain array."""
    cdef Rows* rows = <Rows*>work.arguments
    cdef cnp.npy_intp dims[2 * MOST_DIMS]
    cdef ArrayObject* x = plain_in(inputs[0])
    cdef Operand indices
    cdef int outer, rank
    if x == NULL or not _open(table, node, inputs, 1, PyArray_NDIM(x), PyArray_DIMS(x), rows, &indices):
        return 0
    outer, rank = indices.rank - 1, PyArray_NDIM(x) - rows.depth
    memcpy(dims, indices.dims, outer * sizeof(cnp.npy_intp))
    memcpy(dims + outer, PyArray_DIMS(x) + rows.depth, rank * sizeof(cnp.npy_intp))
    rows.source = <char*>PyArray_DATA(x)
    rows.target = new_result(live, output_type(table, node, 0), outer + rank, dims, outputs)
    if outputs[0].form == SCALAR:
        rows.target = NULL
    cdef double cost = rows.count * (2 + 2 * rows.depth + PACE * rows.size)
    return do_or_leave(table, work, _take_rows, cost, <int>max(1, min(MOST_PARTS, rows.count)), outputs)


cdef void _take_rows(const void* arguments, int part, int parts) noexcept nogil:
    """Copy the rows of a part of the index vectors; decline if one is out of range."""
    cdef const Rows* rows = <const Rows*>arguments
    cdef char* target = place_of(arguments, rows.target)
    cdef cnp.npy_intp i, row
    for i in range(rows.count * part // parts, rows.count * (part + 1) // parts):
        row = _row(rows, i)
        if row < 0:
            decline(arguments)
            return
        memcpy(target + i * rows.size, rows.source + row * rows.size, rows.size)


cdef int _scatter(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Add rows to zeros."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef int rank = read_sizes(&inputs[2], input_type(table, node, 2), dims)
    if rank <= 0 or not are_sizes(dims, rank):
        return 0
    return _write(table, node, inputs, 0, rank, dims, NULL, True, live, outputs, work)


cdef int _add(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Add rows to a plain tensor of the shape in the last input."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef ArrayObject* tensor = plain_in(inputs[0])
    cdef int rank = read_sizes(&inputs[3], input_type(table, node, 3), dims)
    if tensor == NULL or rank <= 0 or PyArray_NDIM(tensor) != rank:
        return 0
    if not PyArray_CompareLists(PyArray_DIMS(tensor), dims, rank):
        return 0
    return _write(table, node, inputs, 1, rank, dims, tensor, True, live, outputs, work)


cdef int _update(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Put rows into a plain tensor."""
    cdef ArrayObject* tensor = plain_in(inputs[0])
    if tensor == NULL:
        return 0
    return _write(table, node, inputs, 1, PyArray_NDIM(tensor), PyArray_DIMS(tensor), tensor, False, live, outputs, work)


cdef int _write(
        const Table* table, const Node* node, Value* inputs, int place, int rank, const cnp.npy_intp* dims,
        ArrayObject* tensor, bint adds, Counters* live, Value* outputs, Work* work) except -1:
    """Write rows; the index vectors are the input `place`, and the rows are the next."""
    cdef Rows* rows = <Rows*>work.arguments
    cdef Operand indices, updates
    cdef int outer
    if not _open(table, node, inputs, place, rank, dims, rows, &indices) or not open_plain(&inputs[place + 1], &updates):
        return 0
    outer = indices.rank - 1
    if updates.rank != outer + rank - rows.depth:
        return 0
    for d in range(updates.rank):
        if updates.dims[d] != (indices.dims[d] if d < outer else dims[rows.depth + d - outer]):
            return 0
    rows.source, rows.unboxed = updates.data, inputs[place + 1].bits
    if inputs[place + 1].form == SCALAR:
        rows.source = NULL
    rows.total, rows.adds = NULL if tensor == NULL else <char*>PyArray_DATA(tensor), adds
    if tensor != NULL and is_unshared(table, tensor):
        rows.target = rows.total
        hold(live, outputs, inputs[0])
    else:
        rows.target = new_result(live, output_type(table, node, 0), rank, dims, outputs)
    cdef double cost = rows.count * (2 + 4 * rows.depth + (10 * PACE if adds else PACE) * rows.size)
    cost += 0 if rows.target == rows.total else PACE * rows.whole
    return do_or_leave(table, work, _write_rows, cost, 1, outputs)


cdef void _write_rows(const void* arguments, int part, int parts) noexcept nogil:
    """Write the target; decline, with nothing written, if an index vector is out of range."""
    cdef Rows* rows = <Rows*>arguments
    cdef cnp.npy_intp i
    for i in range(rows.count):
        if _row(rows, i) < 0:
            decline(arguments)
            return
    if rows.total == NULL:
        memset(rows.target, 0, rows.whole)
    elif rows.total != rows.target:
        memcpy(rows.target, rows.total, rows.whole)
    if not rows.adds:
        _put_rows(rows)
    elif rows.number == cnp.NPY_FLOAT32:
        _add_rows(rows, <float*>NULL)
    elif rows.number == cnp.NPY_FLOAT64:
        _add_rows(rows, <double*>NULL)
    elif rows.itemsize == 4:
        _add_rows(rows, <int32_t*>NULL)
    else:
        _add_rows(rows, <int64_t*>NULL)


cdef inline const char* _rows_of(const Rows* rows) noexcept nogil:
    return rows.source if rows.source != NULL else <const char*>&rows.unboxed


cdef void _add_rows(const Rows* rows, element* _) noexcept nogil:
    """Add rows one after the other, as NumPy does."""
    cdef cnp.npy_intp width = rows.size // sizeof(element)
    cdef const element* source = <const element*>_rows_of(rows)
    cdef element* target
    cdef cnp.npy_intp i, k, row
    for i in range(rows.count):
        row = _row(rows, i)  # again: the owner of a fed array may write to it
        if row < 0:
            return
        target = <element*>rows.target + row * width
        for k in range(width):
            target[k] = target[k] + source[i * width + k]


cdef void _put_rows(const Rows* rows) noexcept nogil:
    """Put rows one after the other: of rows with the same index the last holds."""
    cdef const char* source = _rows_of(rows)
    cdef cnp.npy_intp i, row
    for i in range(rows.count):
        row = _row(rows, i)
        if row < 0:
            return
        memcpy(rows.target + row * rows.size, source + i * rows.size, rows.size)


cdef int seen_by_row_update(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil:
    """Describe the memory that an update accesses; return the number of regions, or -1 for other works."""
    cdef Rows* rows = <Rows*>arguments
    cdef size_t size
    if compute != _write_rows or rows.total == NULL:
        return -1
    seen[0] = Seen(rows.target, &rows.target, rows.whole, rows.whole, True)
    seen[1] = Seen(rows.total, &rows.total, rows.whole, rows.whole, False)
    size = rows.count * rows.depth * rows.index_size
    seen[2] = Seen(<char*>rows.indices, <char**>&rows.indices, size, size, False)
    size = rows.count * rows.size
    seen[3] = Seen(rows.source, &rows.source, size, size, False)
    return 4


cdef bint update_rows_in_place(Compute compute, uint64_t* arguments, const char* total, const char* target) noexcept nogil:
    """Make a work that computes `target` from the tensor `total` change the tensor instead; return False for others."""
    cdef Rows* rows = <Rows*>arguments
    if compute != _write_rows or rows.total != total or rows.target != target or total == NULL:
        return False
    rows.target = rows.total
    return True


cdef Native _find_rows(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel; NULL for sums of elements that are no common numbers."""
    if not are_copyable(outputs):
        return NULL
    if type == "GatherNd":
        return _gather
    if type == "TensorScatterUpdate":
        return _update
    if outputs[0] not in (np.float32, np.float64, np.int32, np.int64):
        return NULL
    return _add if type == "AddToRows" else _scatter


register("AddToRows", _find_rows, (3,))
register("GatherNd", _find_rows, ())
register("ScatterNd", _find_rows, (2,))
register("TensorScatterUpdate", _find_rows, ())
