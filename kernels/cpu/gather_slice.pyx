"""C kernels of Gather, the selection of elements by index, and of StridedSlice, the basic indexing ``tensor[...]``.

A slice whose elements are contiguous is a view of the input; any other slice is copied, so that later kernels find
plain arrays.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.convert cimport as_integer
from tagloom.kernels.core.cost cimport decline, do_or_leave, leave, place_of
from tagloom.kernels.core.table cimport Compute, Native, Node, Table, Type, Work, input_type, output_type
from tagloom.kernels.core.values cimport OBJECT, SCALAR, Counters, Value, scalar
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, Operand, PyArray_DATA, PyArray_DIM, PyArray_DIMS, PyArray_NDIM, PyArray_STRIDES,
    are_copyable, array_in, integer_at, is_usable, new_result, new_view, open_plain, plain_in, product,
)
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.windows cimport Window, copy_element_to, copy_window, copy_window_to

cnp.import_array()


cdef double COPY = 2  # nanoseconds for copying an element, about

cdef enum:
    MOST_PARTS = 64  # into which a Gather may be cut for threads


cdef struct Taking:  # the arguments of _take, for an input of shape (*outer dimensions, length, *inner dimensions)
    const char* source
    char* target  # NULL for an unboxed result
    Operand indices  # data is NULL for an unboxed index
    uint64_t index  # the unboxed index
    size_t index_size  # bytes of an index
    size_t size  # bytes copied for an index: the product of the inner dimensions
    cnp.npy_intp outer  # product of the outer dimensions
    cnp.npy_intp length  # of the axis


cdef int _gather(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Take elements of a plain array along an axis; the Python kernel raises the error for an index out of range."""
    cdef Taking* taking = <Taking*>work.arguments
    cdef ArrayObject* x = plain_in(inputs[0])
    cdef cnp.npy_intp dims[2 * MOST_DIMS]
    cdef Operand indices
    cdef double cost
    cdef int axis, rank
    if x == NULL or not open_plain(&inputs[1], &indices) or PyArray_NDIM(x) > MOST_DIMS:
        return 0
    rank = PyArray_NDIM(x)
    axis = <int>node.params[0] + (rank if node.params[0] < 0 else 0)
    if not 0 <= axis < rank or product(PyArray_DIMS(x), 0, axis) == 0:
        return 0
    memcpy(dims, PyArray_DIMS(x), axis * sizeof(cnp.npy_intp))
    if indices.rank:
        memcpy(dims + axis, indices.dims, indices.rank * sizeof(cnp.npy_intp))
    memcpy(dims + axis + indices.rank, PyArray_DIMS(x) + axis + 1, (rank - axis - 1) * sizeof(cnp.npy_intp))
    taking.source, taking.indices, taking.length = <const char*>PyArray_DATA(x), indices, PyArray_DIM(x, axis)
    taking.index, taking.index_size = inputs[1].bits, input_type(table, node, 1).itemsize
    taking.size = input_type(table, node, 0).itemsize * product(PyArray_DIMS(x), axis + 1, rank)
    taking.outer = product(PyArray_DIMS(x), 0, axis)
    taking.target = new_result(live, output_type(table, node, 0), rank - 1 + indices.rank, dims, outputs)
    if outputs[0].form == SCALAR:
        taking.target = NULL
    if inputs[1].form == SCALAR:
        taking.indices.data = NULL
    cost = indices.size * (2 + taking.outer * (3 + 0.2 * taking.size))  # nanoseconds, about
    return do_or_leave(table, work, _take, cost, <int>max(1, min(MOST_PARTS, indices.size)), outputs)


cdef void _take(const void* arguments, int part, int parts) noexcept nogil:
    """Copy the elements for a part of the indices; decline if an index is out of range."""
    cdef Taking taking = (<const Taking*>arguments)[0]
    cdef cnp.npy_intp start = taking.indices.size * part // parts
    cdef cnp.npy_intp stop = taking.indices.size * (part + 1) // parts
    cdef char* data = taking.indices.data if taking.indices.data != NULL else <char*>&taking.index
    cdef const char* source = taking.source
    cdef char* target = place_of(arguments, taking.target) + start * taking.size
    cdef cnp.npy_intp outer, i, index
    for outer in range(taking.outer):
        for i in range(start, stop):
            # Read once, since the owner of a fed array may write to it between the check and the copy.
            index = integer_at(data, taking.index_size, i)
            if not 0 <= index < taking.length:
                decline(arguments)
                return
            memcpy(target, source + index * taking.size, taking.size)
            target += taking.size
        target += (taking.indices.size - (stop - start)) * taking.size  # over the indices of other parts
        source += taking.length * taking.size


MOST_BOUND = 1 << 62  # a bound of a slice beyond this is beyond the end of every array

cdef enum:
    MOST_STEP = 1 << 30  # larger steps are left to the Python kernel


cdef class KeyOwner:
    """Owner of a key, kept alive by the plan.

    Parameters
    ----------
    spec : tuple
        The attribute `spec`.
    given : int
        Number of the first input that is a bound or an index.
    """

    def __cinit__(self, tuple spec, int given):
        self.arena = Arena()
        self.key.parts = <Part*>self.arena.take(len(spec), sizeof(Part))
        self.key.count = len(spec)
        _read_key(&self.key, spec, given)


cdef int _read_key(Key* self, tuple spec, int given) except -1:
    """Fill a key from the attribute `spec`."""
    cdef Part* part
    cdef int first = given
    cdef int indices = 0  # indices that are inputs
    for i, item in enumerate(spec):
        part = &self.parts[i]
        if item is None:
            part.piece = NEW
        elif item is Ellipsis:
            part.piece, self.dots = DOTS, True
        elif isinstance(item, slice):
            part.piece = RANGE
            given = _read_limit(item.start, given, &part.start)
            given = _read_limit(item.stop, given, &part.stop)
            given = _read_limit(item.step, given, &part.step)
        else:
            part.piece = INDEX
            given = _read_limit(item, given, &part.start)
            indices += part.start.bound == GIVEN
        self.used += part.piece == INDEX or part.piece == RANGE
    self.indexed = indices == given - first and 0 < indices <= MOST_INDICES
    return 0


cdef int _read_limit(item, int given, Limit* limit) except -1:
    """Read a bound or an index; return the number of the next input, after `given` if the bound is this input."""
    if item is None:
        limit.bound = OPEN
    elif hasattr(item, "__index__"):
        limit.bound, limit.value = KNOWN, max(-MOST_BOUND, min(item, MOST_BOUND))
    else:
        limit.bound, limit.value = GIVEN, given
        return given + 1
    return given


cdef inline bint _value_of(
        const Table* table, const Node* node, const Value* inputs, const Limit* limit, int64_t* value) noexcept nogil:
    """Set `value` to a bound, except for an open bound; return False if an input is no integer within int64."""
    cdef const Type* type
    if limit.bound == KNOWN:
        value[0] = limit.value
    elif limit.bound == GIVEN:
        type = input_type(table, node, <uint32_t>limit.value)
        # NumPy's type numbers from 1 to 10 are the integers.
        if inputs[limit.value].form != SCALAR or not 1 <= type.number <= 10 or (type.size == 8 and not type.is_signed):
            return False
        value[0] = as_integer(inputs[limit.value], type)
    return True


cdef inline int64_t _clip(int64_t bound, int64_t size, bint down) noexcept nogil:
    """Return a bound of a slice, with negative bounds counted from the end, clipped to the dimension as in Python."""
    if bound < 0:
        bound += size
        if bound < 0:
            return -1 if down else 0
    elif bound >= size:
        return size - 1 if down else size
    return bound


cdef inline void _add(Window* window, cnp.npy_intp size, cnp.npy_intp stride) noexcept nogil:
    """Append a dimension to a window."""
    window.dims[window.rank], window.strides[window.rank] = size, stride
    window.rank += 1


cdef inline bint _choose_range(
        const Table* table, const Node* node, const Value* inputs, const Part* part, cnp.npy_intp size,
        cnp.npy_intp stride, Window* window) noexcept nogil:
    """Append a sliced dimension to a window; return False if the Python kernel has to decide."""
    cdef int64_t step = 1
    cdef int64_t start, stop, length
    if not _value_of(table, node, inputs, &part.step, &step) or step == 0 or not -MOST_STEP < step < MOST_STEP:
        return False
    start = size - 1 if step < 0 else 0
    stop = -size - 1 if step < 0 else size
    if not _value_of(table, node, inputs, &part.start, &start) or not _value_of(table, node, inputs, &part.stop, &stop):
        return False
    start, stop = _clip(start, size, step < 0), _clip(stop, size, step < 0)
    length = 0
    if step < 0 and stop < start:
        length = (start - stop - 1) // -step + 1
    elif step > 0 and start < stop:
        length = (stop - start - 1) // step + 1
    if length:
        window.data += start * stride
    _add(window, length, stride * step)
    return True


cdef bint choose(
        const Table* table, const Node* node, const Value* inputs, int rank, const cnp.npy_intp* dims,
        const cnp.npy_intp* strides, const Key* key, Window* window) noexcept nogil:
    """Move a window from an array's first element to the elements selected by a key, its bounds among `inputs`.

    Returns False for too few dimensions or an index out of range.
    """
    cdef int rest = rank - key.used  # dimensions that the dots stand for
    cdef int d = 0  # dimension of the array
    cdef int64_t index = 0
    cdef Part* part
    cdef int i
    cdef int stop
    window.rank = 0
    if rest < 0 or rank + key.count > MOST_DIMS:
        return False
    for i in range(key.count + (not key.dots)):  # a key without dots has them at its end
        part = &key.parts[i]
        if i == key.count or part.piece == DOTS:
            stop = d + rest
            while d < stop:
                _add(window, dims[d], strides[d])
                d += 1
        elif part.piece == NEW:
            _add(window, 1, 0)
        elif part.piece == INDEX:
            if not _value_of(table, node, inputs, &part.start, &index) or not -dims[d] <= index < dims[d]:
                return False
            window.data += (index + (dims[d] if index < 0 else 0)) * strides[d]
            d += 1
        else:
            if not _choose_range(table, node, inputs, part, dims[d], strides[d], window):
                return False
            d += 1
    return True


cdef inline bint _choose(
        const Table* table, const Node* node, const Value* inputs, ArrayObject* x, const Key* key,
        Window* window) noexcept nogil:
    """Set `window` to the elements of an array selected by a key; return False as `choose` does."""
    window.data = <char*>PyArray_DATA(x)
    return choose(table, node, inputs, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x), key, window)


cdef inline bint _lies_in_order(const Window* window, size_t itemsize) noexcept nogil:
    """Return True if the elements of a window are contiguous in row-major order, or there are none."""
    cdef cnp.npy_intp step = itemsize
    cdef bint fits = True
    cdef int d = window.rank
    while d > 0:
        d -= 1
        if window.dims[d] == 0:
            return True
        fits = fits and (window.dims[d] == 1 or window.strides[d] == step)
        step *= window.dims[d]
    return fits


cdef int _slice(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Return the elements selected by a key, as a view if they are contiguous."""
    cdef const Key* key = <const Key*>node.params[0]
    cdef ArrayObject* x = array_in(inputs[0])
    cdef const Type* type = output_type(table, node, 0)
    cdef Window window
    cdef char* made
    if x == NULL or not is_usable(x):
        return 0
    # Where all work is left, as by native programs, which do it again with other indices.
    if key.indexed and table.at_once == 0:
        return _slice_at(table, node, inputs, x, live, outputs, work)
    if not _choose(table, node, inputs, x, key, &window):
        return 0
    if window.rank == 0:
        new_result(live, type, 0, NULL, outputs)
        return copy_element_to(table, window.data, type.itemsize, outputs, work)
    elif _lies_in_order(&window, type.itemsize):
        new_view(live, type, x, window.data, window.rank, window.dims, outputs)
    else:
        made = new_result(live, type, window.rank, window.dims, outputs)
        return copy_window_to(table, &window, type.itemsize, made, work, outputs)
    return 1


cdef struct Indexing:  # the arguments of _take_at: a slice with indices that are read when the work is done
    const Table* table
    const Node* node
    ArrayObject* source
    char* target  # NULL for an unboxed result
    char* indices[MOST_INDICES]  # address of the index in input i + 1; NULL for an unboxed input
    Value given[MOST_INDICES + 1]  # the inputs by number; a placeholder for an index with an address


cdef int _slice_at(
        const Table* table, const Node* node, Value* inputs, ArrayObject* x, Counters* live, Value* outputs,
        Work* work) except -1:
    """Leave a slice in `work`, with indices read from arrays without dimensions when the work is done.

    The shape of the result is the same for all indices, and is found with index 0 for the indices in arrays.
    """
    cdef Indexing* indexing = <Indexing*>work.arguments
    cdef ArrayObject* index
    cdef Window window
    cdef uint32_t i
    for i in range(1, node.num_inputs):
        indexing.given[i], indexing.indices[i - 1] = inputs[i], NULL
        index = array_in(inputs[i])
        if index == NULL:
            continue
        if not is_usable(index) or PyArray_NDIM(index) != 0:
            return 0
        indexing.given[i], indexing.indices[i - 1] = scalar(0), <char*>PyArray_DATA(index)
    if not _choose(table, node, indexing.given, x, <const Key*>node.params[0], &window):
        return 0
    new_result(live, output_type(table, node, 0), window.rank, window.dims, outputs)
    indexing.table, indexing.node, indexing.source, indexing.target = table, node, x, NULL
    if outputs[0].form == OBJECT:
        indexing.target = <char*>PyArray_DATA(array_in(outputs[0]))
    leave(work, _take_at, COPY * product(window.dims, 0, window.rank), 1)
    return 1


cdef inline bint _find(const Indexing* indexing, char** indices, Window* window) noexcept nogil:
    """Set `window` to the elements selected by the indices at these addresses; return False if an index is out of
    range.
    """
    cdef const Node* node = indexing.node
    cdef Value values[MOST_INDICES + 1]
    cdef uint32_t i
    for i in range(1, node.num_inputs):
        values[i] = indexing.given[i]
        if indices[i - 1] != NULL:
            memcpy(&values[i].bits, indices[i - 1], input_type(indexing.table, node, i).itemsize)
    return _choose(indexing.table, node, values, indexing.source, <const Key*>node.params[0], window)


cdef void _take_at(const void* arguments, int part, int parts) noexcept nogil:
    """Copy the elements selected by the indices; decline if an index is out of range."""
    cdef const Indexing* indexing = <const Indexing*>arguments
    cdef size_t size = output_type(indexing.table, indexing.node, 0).itemsize
    cdef char* target = place_of(arguments, indexing.target)
    cdef Window window
    if not _find(indexing, indexing.indices, &window):
        decline(arguments)
    elif _lies_in_order(&window, size):
        memcpy(target, window.data, size * product(window.dims, 0, window.rank))
    else:
        copy_window(&window, size, target)


cdef int indices_of_part(Compute compute, const uint64_t* arguments, char** indices, size_t* sizes) noexcept nogil:
    """Write the addresses of the indices of a contiguous part, NULL for a constant index, and their bytes.

    Returns the number of indices; -1 if the work does anything but copy a part which is contiguous for all indices.
    """
    cdef const Taking* taking = <const Taking*>arguments
    cdef const Indexing* indexing = <const Indexing*>arguments
    cdef int count, i
    cdef Window window
    if compute == _take and taking.indices.size == 1 and taking.outer == 1:
        indices[0], sizes[0] = taking.indices.data, taking.index_size
        return 1
    if compute != _take_at or indexing.node.num_inputs > INDICES + 1:
        return -1
    count = indexing.node.num_inputs - 1
    for i in range(count):
        indices[i] = indexing.indices[i]
        sizes[i] = input_type(indexing.table, indexing.node, i + 1).itemsize
    # The place of the part depends on the indices, but neither its size nor its strides do.
    if not _choose(indexing.table, indexing.node, indexing.given, indexing.source,
                   <const Key*>indexing.node.params[0], &window):
        return -1
    return count if _lies_in_order(&window, output_type(indexing.table, indexing.node, 0).itemsize) else -1


cdef char* part_at(Compute compute, const uint64_t* arguments, char** indices) noexcept nogil:
    """Return the address of the part selected by the indices at these addresses; NULL if an index is out of range."""
    cdef const Taking* taking = <const Taking*>arguments
    cdef Window window
    cdef int64_t index
    if compute != _take:
        return window.data if _find(<const Indexing*>arguments, indices, &window) else NULL
    index = integer_at(<const char*>&taking.index if indices[0] == NULL else indices[0], taking.index_size, 0)
    return <char*>taking.source + index * taking.size if 0 <= index < taking.length else NULL


cdef Native _find_gather(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Gather without batch dimensions."""
    params[0] = attrs["axis"]
    if attrs["batch_dims"] == 0 and are_copyable(outputs):
        return _gather
    return NULL


cdef Native _find_slice(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of StridedSlice and keep its key alive, or return NULL."""
    spec = attrs["spec"]
    if not are_copyable(outputs):
        return NULL
    owner = KeyOwner(spec, 1)
    kept.append(owner)
    params[0] = <int64_t>&owner.key
    return _slice


register("Gather", _find_gather, ())
register("StridedSlice", _find_slice, ())
