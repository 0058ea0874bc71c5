"""Kernels that move elements without computation: concat, split, transpose."""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from tagloom.kernels.core.cost cimport do_or_leave
from tagloom.kernels.core.table cimport Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport Counters, Value, drop
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_DATA, PyArray_DIM, PyArray_DIMS, PyArray_NDIM, are_copyable, array_in, new_array,
    plain_in, product,
)
from tagloom.kernels.cpu.moves cimport Move, Moves, begin_moves, finish_moves, move_rows
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.seen cimport Seen

cnp.import_array()

cdef double TURN = 1  # nanoseconds that an element of a transposed matrix takes, about

cdef enum:
    MOST_PARTS = 32
    BLOCK = 32  # rows and columns that are transposed together


cdef inline int _axis(const Node* node, int rank) noexcept nogil:
    """Return the axis of an operation counted from the front, or -1 if there is none."""
    cdef int axis = <int>node.params[0]
    if axis < 0:
        axis += rank
    return axis if 0 <= axis < rank else -1


cdef inline bint _fits(ArrayObject* first, ArrayObject* array, int axis) noexcept nogil:
    """Return True if an array has the shape of the first, except along the axis."""
    if PyArray_NDIM(array) != PyArray_NDIM(first):
        return False
    for i in range(PyArray_NDIM(first)):
        if i != axis and PyArray_DIM(array, i) != PyArray_DIM(first, i):
            return False
    return True


cdef int _concat(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Join plain arrays along an axis."""
    cdef ArrayObject* first = plain_in(inputs[0])
    cdef ArrayObject* array
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef size_t element
    cdef int rank, axis
    cdef char* target
    cdef Move* move
    if first == NULL:
        return 0
    rank = PyArray_NDIM(first)
    axis = _axis(node, rank)
    if axis < 0 or rank > MOST_DIMS:
        return 0
    memcpy(dims, PyArray_DIMS(first), rank * sizeof(cnp.npy_intp))
    dims[axis] = 0
    for i in range(node.num_inputs):
        array = plain_in(inputs[i])
        if array == NULL or not _fits(first, array, axis):
            return 0
        dims[axis] += PyArray_DIM(array, axis)
    target = <char*>PyArray_DATA(new_array(live, output_type(table, node, 0), rank, dims, outputs))
    element = output_type(table, node, 0).itemsize * product(dims, axis + 1, rank)
    move = begin_moves(work, node.num_inputs, product(dims, 0, axis))
    for i in range(node.num_inputs):
        array = array_in(inputs[i])
        move.source, move.target, move.size = <char*>PyArray_DATA(array), target, element * PyArray_DIM(array, axis)
        move.source_step, move.target_step = move.size, element * dims[axis]
        target += move.size
        move += 1
    return finish_moves(table, work, outputs)


cdef int seen_by_concat(Compute compute, uint64_t* arguments, Seen* seen, int most) noexcept nogil:
    """Describe the memory that a concatenation, or a split, accesses; return the number of regions, or -1 if the work
    is neither, or has more regions than `most`.
    """
    cdef Moves* moves = <Moves*>arguments
    cdef Move* move
    cdef size_t size
    cdef int i
    if compute != move_rows or moves.elsewhere != NULL or 2 * moves.count > most or moves.rows == 0:
        return -1
    for i in range(moves.count):
        move = &moves.here[i]
        size = moves.rows * move.size
        seen[2 * i] = Seen(<char*>move.source, <char**>&move.source, _reach(moves, move.source_step, move.size), size, False)
        seen[2 * i + 1] = Seen(move.target, &move.target, _reach(moves, move.target_step, move.size), size, True)
    return 2 * <int>moves.count


cdef inline size_t _reach(const Moves* moves, size_t step, size_t size) noexcept nogil:
    """Return the bytes from the first to the last of some rows."""
    return (moves.rows - 1) * step + size


cdef int _split(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Cut a plain array along an axis into equal parts, or into parts of the sizes of the second input."""
    cdef ArrayObject* whole = plain_in(inputs[0])
    cdef ArrayObject* sizes = plain_in(inputs[1]) if node.num_inputs > 1 else NULL
    cdef cnp.npy_intp lengths[MOST_PARTS]
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef char* starts[MOST_PARTS]
    cdef char* source
    cdef size_t element
    cdef Move* move
    cdef int axis
    cdef uint32_t i
    if whole == NULL or node.num_outputs > MOST_PARTS or PyArray_NDIM(whole) > MOST_DIMS:
        return 0
    axis = _axis(node, PyArray_NDIM(whole))
    if axis < 0 or not _lengths(table, node, sizes, PyArray_DIM(whole, axis), lengths):
        return 0
    memcpy(dims, PyArray_DIMS(whole), PyArray_NDIM(whole) * sizeof(cnp.npy_intp))
    for i in range(node.num_outputs):
        dims[axis] = lengths[i]
        try:
            starts[i] = <char*>PyArray_DATA(
                new_array(live, output_type(table, node, i), PyArray_NDIM(whole), dims, &outputs[i]))
        except BaseException:
            for made in range(i):
                drop(live, &outputs[made])
            raise
    element = input_type(table, node, 0).itemsize * product(dims, axis + 1, PyArray_NDIM(whole))
    source = <char*>PyArray_DATA(whole)
    move = begin_moves(work, node.num_outputs, product(dims, 0, axis))
    for i in range(node.num_outputs):
        move.source, move.target, move.size = source, starts[i], element * lengths[i]
        move.source_step, move.target_step = element * PyArray_DIM(whole, axis), move.size
        source += move.size
        move += 1
    return finish_moves(table, work, outputs)


cdef inline bint _lengths(
        const Table* table, const Node* node, ArrayObject* sizes, cnp.npy_intp total, cnp.npy_intp* lengths) noexcept nogil:
    """Find the length of each part; return False if the lengths do not add up, or one is to be inferred."""
    cdef cnp.npy_intp sum = 0
    cdef void* data
    if node.num_inputs == 1:
        for i in range(node.num_outputs):
            lengths[i] = total // node.num_outputs
        return total % node.num_outputs == 0
    if sizes == NULL or PyArray_NDIM(sizes) != 1 or PyArray_DIM(sizes, 0) != node.num_outputs:
        return False
    data = PyArray_DATA(sizes)
    for i in range(node.num_outputs):
        lengths[i] = (<int*>data)[i] if input_type(table, node, 1).itemsize == 4 else (<int64_t*>data)[i]
        if lengths[i] < 0:
            return False
        sum += lengths[i]
    return sum == total


cdef struct Turn:  # of a matrix
    const void* source
    void* target
    cnp.npy_intp rows
    cnp.npy_intp columns
    size_t size  # bytes of an element


cdef int _transpose(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Swap rows and columns of a plain matrix of 4- or 8-byte elements."""
    cdef ArrayObject* matrix = plain_in(inputs[0])
    cdef size_t size = input_type(table, node, 0).itemsize
    cdef cnp.npy_intp dims[2]
    cdef Turn* turn = <Turn*>work.arguments
    cdef double count
    if matrix == NULL or PyArray_NDIM(matrix) != 2 or (size != 4 and size != 8):
        return 0
    dims[0], dims[1] = PyArray_DIM(matrix, 1), PyArray_DIM(matrix, 0)
    turn.source, turn.rows, turn.columns, turn.size = PyArray_DATA(matrix), dims[1], dims[0], size
    turn.target = PyArray_DATA(new_array(live, output_type(table, node, 0), 2, dims, outputs))
    count = <double>turn.rows * turn.columns
    return do_or_leave(table, work, _turn, TURN * count, <int>max(1, min(MOST_PARTS, turn.rows // BLOCK)), outputs)


cdef void _turn(const void* arguments, int part, int parts) noexcept nogil:
    """Write some of the rows as columns."""
    cdef const Turn* turn = <const Turn*>arguments
    cdef cnp.npy_intp start = turn.rows * part // parts
    cdef cnp.npy_intp stop = turn.rows * (part + 1) // parts
    if turn.size == 4:
        _swap(turn, start, stop, <int*>NULL)
    else:
        _swap(turn, start, stop, <int64_t*>NULL)


cdef fused word:
    int
    int64_t


cdef inline void _swap(const Turn* turn, cnp.npy_intp start, cnp.npy_intp stop, word* _) noexcept nogil:
    """Go through blocks of rows and columns that stay in the cache."""
    cdef const word* source = <const word*>turn.source
    cdef word* target = <word*>turn.target
    cdef cnp.npy_intp i, j, left, end, right
    while start < stop:
        end, left = min(start + BLOCK, stop), 0
        while left < turn.columns:
            right = min(left + BLOCK, turn.columns)
            for j in range(left, right):
                for i in range(start, end):
                    target[j * turn.rows + i] = source[i * turn.columns + j]
            left = right
        start = end


cdef Native _find_concat(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Concat."""
    params[0] = attrs["axis"]
    if are_copyable(outputs):
        return _concat
    return NULL


cdef Native _find_split(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Split and SplitV."""
    params[0] = attrs["axis"]
    if are_copyable(outputs):
        return _split
    return NULL


cdef Native _find_transpose(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Transpose, if it reverses the two dimensions of a matrix."""
    if attrs["perm"] in (None, (1, 0)) and are_copyable(outputs):
        return _transpose
    return NULL


register("Concat", _find_concat, ())
register("Split", _find_split, ())
register("SplitV", _find_split, (1,))
register("Transpose", _find_transpose, ())
