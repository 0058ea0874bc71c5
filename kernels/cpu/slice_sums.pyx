"""C kernels of arrays in which a slice gets values: StridedSliceGrad among zeros, AddToSlice added to a total.

A total that nothing else holds changes in place. In a native program the memory of the total and the result are first
apart; `native/updating.pyx` joins them where no step needs both.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from tagloom.kernels.core.cost cimport decline, do_or_leave
from tagloom.kernels.core.table cimport Compute, Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport Counters, Value, hold, scalar
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, Operand, PyArray_CompareLists, PyArray_DATA, PyArray_DIMS, PyArray_NDIM, are_copyable,
    are_sizes, array_in, is_unshared, is_usable, new_result, open_plain, plain_in, product, read_sizes,
)
from tagloom.kernels.cpu.gather_slice cimport Key, KeyOwner, choose
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.seen cimport Seen
from tagloom.kernels.cpu.windows cimport Window

cnp.import_array()

cdef double PACE = 0.1  # nanoseconds that a byte of the whole array takes, about
cdef double ADD = 1  # and an element of the slice

cdef enum:
    MOST_BOUNDS = 8
    MOST_INPUTS = MOST_BOUNDS + 3

cdef fused element:
    float
    double
    int32_t
    int64_t


cdef struct SliceSum:  # the arguments of _write_slice
    const Table* table
    const Node* node
    char* source  # elements of the slice; NULL for an unboxed element
    uint64_t unboxed
    char* total  # the array to which the slice is added; NULL if the slice is put among zeros
    char* target
    size_t itemsize
    size_t size  # bytes of the target
    int number  # of the dtype
    int rank
    int source_rank
    cnp.npy_intp dims[MOST_DIMS]
    cnp.npy_intp strides[MOST_DIMS]
    cnp.npy_intp source_dims[MOST_DIMS]
    uint32_t first  # number of the first input that is a bound
    char* bounds[MOST_INPUTS]  # by number: addresses of bounds in arrays; NULL for unboxed ones
    Value given[MOST_INPUTS]


cdef int _spread(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Put a slice among zeros, or add it to a plain array."""
    cdef SliceSum* slice = <SliceSum*>work.arguments
    cdef bint adds = node.params[1] != 0
    cdef ArrayObject* total = plain_in(inputs[0]) if adds else NULL
    cdef int at = adds  # number of the input with the shape
    cdef Operand source
    slice.rank = read_sizes(&inputs[at], input_type(table, node, at), slice.dims)
    if slice.rank <= 0 or not are_sizes(slice.dims, slice.rank) or not open_plain(&inputs[at + 1], &source):
        return 0
    if adds and (total == NULL or PyArray_NDIM(total) != slice.rank
                 or not PyArray_CompareLists(PyArray_DIMS(total), slice.dims, slice.rank)):
        return 0
    slice.first = at + 2
    if not _open_bounds(node, inputs, slice):
        return 0
    slice.table, slice.node = table, node
    slice.itemsize, slice.number = output_type(table, node, 0).itemsize, output_type(table, node, 0).number
    slice.size = _set_strides(slice)
    slice.source, slice.unboxed, slice.source_rank = source.data, inputs[at + 1].bits, source.rank
    if source.rank:
        memcpy(slice.source_dims, source.dims, source.rank * sizeof(cnp.npy_intp))
    if array_in(inputs[at + 1]) == NULL:
        slice.source = NULL
    slice.total = <char*>PyArray_DATA(total) if adds else NULL
    if adds and is_unshared(table, total):
        slice.target = slice.total
        hold(live, outputs, inputs[0])
    else:
        slice.target = new_result(live, output_type(table, node, 0), slice.rank, slice.dims, outputs)
    cdef double cost = ADD * source.size + (0 if slice.target == slice.total else PACE * slice.size)
    return do_or_leave(table, work, _write_slice, cost, 1, outputs)


cdef bint _open_bounds(const Node* node, const Value* inputs, SliceSum* slice) noexcept nogil:
    """Note the bounds, or the addresses of those in arrays; return False for bounds in other arrays than elements."""
    cdef ArrayObject* array
    cdef uint32_t i
    if node.num_inputs > slice.first + MOST_BOUNDS:
        return False
    for i in range(slice.first, node.num_inputs):
        slice.given[i], slice.bounds[i] = inputs[i], NULL
        array = array_in(inputs[i])
        if array == NULL:
            continue
        if not is_usable(array) or PyArray_NDIM(array) != 0:
            return False
        slice.given[i], slice.bounds[i] = scalar(0), <char*>PyArray_DATA(array)
    return True


cdef size_t _set_strides(SliceSum* slice) noexcept nogil:
    """Set the strides of the target, and return its bytes."""
    cdef size_t size = slice.itemsize
    cdef int d = slice.rank
    while d > 0:
        d -= 1
        slice.strides[d] = size
        size *= slice.dims[d]
    return size


cdef void _write_slice(const void* arguments, int part, int parts) noexcept nogil:
    """Write the target; decline, with nothing written, if the slice is not one of its shape."""
    cdef SliceSum* slice = <SliceSum*>arguments
    cdef Window window
    if not _find_window(slice, &window):
        decline(arguments)
        return
    if slice.total == NULL:
        memset(slice.target, 0, slice.size)
    elif slice.total != slice.target:
        memcpy(slice.target, slice.total, slice.size)
    if product(window.dims, 0, window.rank) == 0:
        return
    if slice.total == NULL:
        _put(slice, &window)
    elif slice.number == cnp.NPY_FLOAT32:
        _add(slice, &window, <float*>NULL)
    elif slice.number == cnp.NPY_FLOAT64:
        _add(slice, &window, <double*>NULL)
    elif slice.itemsize == 4:
        _add(slice, &window, <int32_t*>NULL)
    else:
        _add(slice, &window, <int64_t*>NULL)


cdef bint _find_window(const SliceSum* slice, Window* window) noexcept nogil:
    """Find the elements of the slice in the target, by the bounds of this time; return False if the shape differs."""
    cdef Value values[MOST_INPUTS]
    cdef uint32_t i
    cdef int d
    for i in range(slice.first, slice.node.num_inputs):
        values[i] = slice.given[i]
        if slice.bounds[i] != NULL:
            memcpy(&values[i].bits, slice.bounds[i], input_type(slice.table, slice.node, i).itemsize)
    window.data = slice.target
    if not choose(slice.table, slice.node, values, slice.rank, slice.dims, slice.strides,
                  <const Key*>slice.node.params[0], window) or window.rank != slice.source_rank:
        return False
    for d in range(window.rank):
        if window.dims[d] != slice.source_dims[d]:
            return False
    return True


cdef inline const char* _elements_of(const SliceSum* slice) noexcept nogil:
    return slice.source if slice.source != NULL else <const char*>&slice.unboxed


cdef bint _next_row(Window* window, cnp.npy_intp* place) noexcept nogil:
    """Move a window to its next row; return False after the last."""
    cdef int d = window.rank - 2
    while d >= 0:
        place[d] += 1
        window.data += window.strides[d]
        if place[d] < window.dims[d]:
            return True
        window.data -= window.strides[d] * window.dims[d]
        place[d] = 0
        d -= 1
    return False


cdef void _put(const SliceSum* slice, Window* window) noexcept nogil:
    """Write the elements of the slice, of which there is at least one."""
    cdef cnp.npy_intp place[MOST_DIMS]
    cdef const char* source = _elements_of(slice)
    cdef size_t itemsize = slice.itemsize
    cdef cnp.npy_intp count = window.dims[window.rank - 1] if window.rank else 1
    cdef cnp.npy_intp stride = window.strides[window.rank - 1] if window.rank else itemsize
    cdef cnp.npy_intp i
    memset(place, 0, sizeof(place))
    while True:
        if stride == <cnp.npy_intp>itemsize:
            memcpy(window.data, source, count * itemsize)
        else:
            for i in range(count):
                memcpy(window.data + i * stride, source + i * itemsize, itemsize)
        source += count * itemsize
        if not _next_row(window, place):
            return


cdef void _add(const SliceSum* slice, Window* window, element* _) noexcept nogil:
    """Add the elements of the slice, of which there is at least one."""
    cdef cnp.npy_intp place[MOST_DIMS]
    cdef const element* source = <const element*>_elements_of(slice)
    cdef cnp.npy_intp count = window.dims[window.rank - 1] if window.rank else 1
    cdef cnp.npy_intp stride = window.strides[window.rank - 1] if window.rank else sizeof(element)
    cdef element* target
    cdef cnp.npy_intp i
    memset(place, 0, sizeof(place))
    while True:
        if stride == sizeof(element):
            target = <element*>window.data
            for i in range(count):
                target[i] = target[i] + source[i]
        else:
            for i in range(count):
                target = <element*>(window.data + i * stride)
                target[0] = target[0] + source[i]
        source += count
        if not _next_row(window, place):
            return


cdef int seen_by_slice_sum(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil:
    """Describe the memory that such a work accesses; return the number of regions, or -1 for other works."""
    cdef SliceSum* slice = <SliceSum*>arguments
    cdef int count = 2
    cdef size_t size
    cdef uint32_t i
    if compute != _write_slice:
        return -1
    size = slice.itemsize * product(slice.source_dims, 0, slice.source_rank)
    seen[0] = Seen(slice.target, &slice.target, slice.size, slice.size, True)
    seen[1] = Seen(slice.source, &slice.source, size, size, False)
    if slice.total != NULL:
        seen[2] = Seen(slice.total, &slice.total, slice.size, slice.size, False)
        count = 3
    for i in range(slice.first, slice.node.num_inputs):
        size = input_type(slice.table, slice.node, i).itemsize
        seen[count] = Seen(slice.bounds[i], NULL, size, size, False)
        count += 1
    return count


cdef bint update_slice_in_place(Compute compute, uint64_t* arguments, const char* total, const char* target) noexcept nogil:
    """Make a work that computes `target` from `total` add to the total in place; return False for other works."""
    cdef SliceSum* slice = <SliceSum*>arguments
    if compute != _write_slice or slice.total != total or slice.target != target or total == NULL:
        return False
    slice.target = slice.total
    return True


cdef Native _find_spread(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel, and keep its key alive; NULL for additions of elements that are no common numbers."""
    cdef bint adds = type == "AddToSlice"
    if not are_copyable(outputs) or adds and outputs[0] not in (np.float32, np.float64, np.int32, np.int64):
        return NULL
    owner = KeyOwner(attrs["spec"], 2 + adds)
    kept.append(owner)
    params[0], params[1] = <int64_t>&(<KeyOwner>owner).key, adds
    return _spread


register("StridedSliceGrad", _find_spread, (0,))
register("AddToSlice", _find_spread, (1,))
