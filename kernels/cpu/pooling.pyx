"""Pooling of images whose channels are the last dimension, and its gradients.

A window goes over all channels at once, place by place. The parts are rows of windows, or images where windows overlap
in elements to write.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from tagloom.kernels.core.cost cimport decline, do_or_leave
from tagloom.kernels.core.table cimport Compute, Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport Counters, Value
from tagloom.kernels.cpu.arrays cimport Operand, new_result, open_plain, read_sizes
from tagloom.kernels.cpu.linear cimport vector_bits
from tagloom.kernels.cpu.registry cimport register

cnp.import_array()

cdef extern from "cpu/channel_rows.h" nogil:
    void keep_larger(int bits, int size, size_t count, void* best, const void* x)
    void keep_place(int bits, int size, size_t count, void* best, int32_t* places, const void* x, int32_t place)
    void give(
        int bits, int size, int adds, size_t count, void* to, const void* g, const int32_t* places, int32_t place)

cdef double PACE = 0.2  # nanoseconds that an element of a window takes, about

cdef enum:
    MOST_PARTS = 64

cdef fused real:
    float
    double


cdef struct Axis:  # windows along one
    cnp.npy_intp size
    cnp.npy_intp window
    cnp.npy_intp stride
    cnp.npy_intp before  # elements of padding
    cnp.npy_intp count  # windows


cdef struct Pool:
    const char* source  # images, or a value for each window
    const int32_t* place  # of the largest element; NULL without
    char* target
    int number  # of the element type
    int bits  # of vectors
    bint adds  # windows overlap, or write to all their elements
    int mean  # whether sums are divided by the number of elements
    cnp.npy_intp batch
    cnp.npy_intp channels
    Axis down
    Axis right


cdef inline cnp.npy_intp _first(const Axis* axis, cnp.npy_intp window) noexcept nogil:
    """Return the first place of a window with an element."""
    return max(0, axis.before - window * axis.stride)


cdef inline cnp.npy_intp _last(const Axis* axis, cnp.npy_intp window) noexcept nogil:
    """Return the end of the places of a window with an element."""
    return min(axis.window, axis.size + axis.before - window * axis.stride)


cdef inline bint _covers(const Axis* axis) noexcept nogil:
    """Return True if each element is in exactly one window."""
    return axis.window == axis.stride and axis.count * axis.stride - axis.before >= axis.size


cdef inline cnp.npy_intp _pixel(const Pool* pool, cnp.npy_intp image, cnp.npy_intp row, cnp.npy_intp column) noexcept nogil:
    """Return where the channels of a pixel begin."""
    return ((image * pool.down.size + row) * pool.right.size + column) * pool.channels


cdef inline void _largest_of_row(const Pool* pool, cnp.npy_intp line, real* _) noexcept nogil:
    cdef const Axis* down = &pool.down
    cdef const Axis* right = &pool.right
    cdef cnp.npy_intp image = line // down.count, i = line % down.count, channels = pool.channels
    cdef cnp.npy_intp j, k, n, c, top = i * down.stride - down.before, left
    cdef real* y = <real*>pool.target + line * right.count * channels
    cdef const real* x
    cdef bint is_first
    for j in range(right.count):
        is_first, left = True, j * right.stride - right.before
        for k in range(_first(down, i), _last(down, i)):
            for n in range(_first(right, j), _last(right, j)):
                x = <const real*>pool.source + _pixel(pool, image, top + k, left + n)
                if is_first:
                    memcpy(y, x, channels * sizeof(real))
                    is_first = False
                else:
                    keep_larger(pool.bits, sizeof(real), channels, y, x)
        y += channels


cdef inline void _places_of_row(const Pool* pool, cnp.npy_intp line, real* best) noexcept nogil:
    cdef const Axis* down = &pool.down
    cdef const Axis* right = &pool.right
    cdef cnp.npy_intp image = line // down.count, i = line % down.count, channels = pool.channels
    cdef cnp.npy_intp j, k, n, c, top = i * down.stride - down.before, left
    cdef int32_t* y = <int32_t*>pool.target + line * right.count * channels
    cdef const real* x
    cdef int32_t number
    cdef bint is_first
    for j in range(right.count):
        is_first, left = True, j * right.stride - right.before
        for k in range(_first(down, i), _last(down, i)):
            for n in range(_first(right, j), _last(right, j)):
                x = <const real*>pool.source + _pixel(pool, image, top + k, left + n)
                number = <int32_t>(k * right.window + n)
                if is_first:
                    memcpy(best, x, channels * sizeof(real))
                    for c in range(channels):
                        y[c] = number
                    is_first = False
                else:
                    keep_place(pool.bits, sizeof(real), channels, best, y, x, number)
        y += channels


cdef inline void _sums_of_row(const Pool* pool, cnp.npy_intp line, real* _) noexcept nogil:
    cdef const Axis* down = &pool.down
    cdef const Axis* right = &pool.right
    cdef cnp.npy_intp image = line // down.count, i = line % down.count, channels = pool.channels
    cdef cnp.npy_intp j, k, n, c, top = i * down.stride - down.before, left
    cdef real* y = <real*>pool.target + line * right.count * channels
    cdef const real* x
    cdef real share
    for j in range(right.count):
        left = j * right.stride - right.before
        memset(y, 0, channels * sizeof(real))
        for k in range(_first(down, i), _last(down, i)):
            for n in range(_first(right, j), _last(right, j)):
                x = <const real*>pool.source + _pixel(pool, image, top + k, left + n)
                for c in range(channels):
                    y[c] += x[c]
        if pool.mean:
            share = (_last(down, i) - _first(down, i)) * (_last(right, j) - _first(right, j))
            for c in range(channels):
                y[c] /= share
        y += channels


cdef inline void _spread_window(
        const Pool* pool, cnp.npy_intp image, cnp.npy_intp i, cnp.npy_intp j, real* scratch) noexcept nogil:
    """Add the value of a window to its elements: the whole to the place of the largest element, or its share to each
    element.
    """
    cdef const Axis* down = &pool.down
    cdef const Axis* right = &pool.right
    cdef cnp.npy_intp k, n, c, channels = pool.channels
    cdef cnp.npy_intp at = ((image * down.count + i) * right.count + j) * channels
    cdef cnp.npy_intp top = i * down.stride - down.before, left = j * right.stride - right.before
    cdef const real* g = <const real*>pool.source + at
    cdef const int32_t* place = pool.place + at if pool.place != NULL else NULL
    cdef real* x
    cdef real share = (_last(down, i) - _first(down, i)) * (_last(right, j) - _first(right, j))
    cdef int32_t number
    if place == NULL:
        for c in range(channels):
            scratch[c] = g[c] / share if pool.mean else g[c]
    for k in range(_first(down, i), _last(down, i)):
        for n in range(_first(right, j), _last(right, j)):
            x, number = <real*>pool.target + _pixel(pool, image, top + k, left + n), <int32_t>(k * right.window + n)
            if place == NULL:
                for c in range(channels):
                    x[c] += scratch[c]
            else:
                give(pool.bits, sizeof(real), pool.adds, channels, x, g, place, number)


cdef inline void _spread_image(const Pool* pool, cnp.npy_intp image, real* scratch) noexcept nogil:
    cdef cnp.npy_intp i, j
    if pool.adds or not _covers(&pool.down) or not _covers(&pool.right):
        memset(<real*>pool.target + _pixel(pool, image, 0, 0), 0, _pixel(pool, 1, 0, 0) * sizeof(real))
    for i in range(pool.down.count):
        for j in range(pool.right.count):
            _spread_window(pool, image, i, j, scratch)


ctypedef enum Task:
    LARGEST
    PLACES
    SUMS
    SPREAD


cdef inline void _do(const Pool* pool, Task task, cnp.npy_intp start, cnp.npy_intp stop, real* scratch) noexcept nogil:
    cdef cnp.npy_intp k
    for k in range(start, stop):
        if task == LARGEST:
            _largest_of_row(pool, k, scratch)
        elif task == PLACES:
            _places_of_row(pool, k, scratch)
        elif task == SUMS:
            _sums_of_row(pool, k, scratch)
        else:
            _spread_image(pool, k, scratch)


cdef inline void _do_part(const void* arguments, Task task, int part, int parts) noexcept nogil:
    cdef const Pool* pool = <const Pool*>arguments
    cdef cnp.npy_intp count = pool.batch if task == SPREAD else pool.batch * pool.down.count
    cdef void* scratch = malloc(pool.channels * sizeof(double))
    if scratch == NULL:
        decline(arguments)
    elif pool.number == cnp.NPY_FLOAT32:
        _do(pool, task, count * part // parts, count * (part + 1) // parts, <float*>scratch)
    else:
        _do(pool, task, count * part // parts, count * (part + 1) // parts, <double*>scratch)
    free(scratch)


cdef void _largest_part(const void* arguments, int part, int parts) noexcept nogil:
    _do_part(arguments, LARGEST, part, parts)


cdef void _places_part(const void* arguments, int part, int parts) noexcept nogil:
    _do_part(arguments, PLACES, part, parts)


cdef void _sums_part(const void* arguments, int part, int parts) noexcept nogil:
    _do_part(arguments, SUMS, part, parts)


cdef void _spread_part(const void* arguments, int part, int parts) noexcept nogil:
    _do_part(arguments, SPREAD, part, parts)


cdef inline bint _along(Axis* axis, cnp.npy_intp size, int64_t numbers, int64_t same) noexcept nogil:
    """Lay windows along an axis, whose size and stride are in two halves of `numbers`; return False if none fits."""
    axis.size, axis.window, axis.stride, axis.before = size, numbers >> 32, <int32_t>numbers, 0
    if same:
        axis.count = (size + axis.stride - 1) // axis.stride
        axis.before = max((axis.count - 1) * axis.stride + axis.window - size, 0) // 2
    else:
        axis.count = (size - axis.window + axis.stride) // axis.stride if size >= axis.window else 0
    return axis.count > 0


cdef inline bint _lay(Pool* pool, const Node* node, const cnp.npy_intp* image) noexcept nogil:
    pool.batch, pool.channels, pool.mean = image[0], image[3], <int>node.params[3]
    pool.bits = vector_bits()
    if pool.batch == 0 or pool.channels == 0:
        return False
    return _along(&pool.down, image[1], node.params[0], node.params[2]) and \
        _along(&pool.right, image[2], node.params[1], node.params[2])


cdef inline double _cost(const Pool* pool) noexcept nogil:
    cdef double windows = <double>pool.batch * pool.down.count * pool.right.count * pool.channels
    return PACE * windows * pool.down.window * pool.right.window


cdef inline int _reduce(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work,
        Compute compute) except -1:
    """Reduce each window of plain images to a single result."""
    cdef Pool* pool = <Pool*>work.arguments
    cdef cnp.npy_intp dims[4]
    cdef Operand x
    if not open_plain(&inputs[0], &x) or x.rank != 4 or not _lay(pool, node, x.dims):
        return 0
    dims[0], dims[1], dims[2], dims[3] = pool.batch, pool.down.count, pool.right.count, pool.channels
    pool.source, pool.place, pool.number = x.data, NULL, input_type(table, node, 0).number
    pool.target = new_result(live, output_type(table, node, 0), 4, dims, outputs)
    return do_or_leave(table, work, compute, _cost(pool), <int>min(MOST_PARTS, pool.batch * pool.down.count), outputs)


cdef int _largest(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _reduce(table, node, inputs, live, outputs, work, _largest_part)


cdef int _places(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _reduce(table, node, inputs, live, outputs, work, _places_part)


cdef int _sums(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _reduce(table, node, inputs, live, outputs, work, _sums_part)


cdef inline bint _is_of_windows(const Pool* pool, const Operand* g) noexcept nogil:
    return g.rank == 4 and g.dims[0] == pool.batch and g.dims[1] == pool.down.count \
        and g.dims[2] == pool.right.count and g.dims[3] == pool.channels


cdef int _spread(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Spread the value of each window to images, whose shape is the last input."""
    cdef Pool* pool = <Pool*>work.arguments
    cdef cnp.npy_intp dims[16]
    cdef Operand g, place
    cdef int shape = node.num_inputs - 1
    if read_sizes(&inputs[shape], input_type(table, node, shape), dims) != 4 or not _lay(pool, node, dims):
        return 0
    if not open_plain(&inputs[0], &g) or not _is_of_windows(pool, &g):
        return 0
    pool.source, pool.place, pool.number = g.data, NULL, input_type(table, node, 0).number
    if shape == 2:
        if not open_plain(&inputs[1], &place) or not _is_of_windows(pool, &place):
            return 0
        pool.place = <const int32_t*>place.data
    pool.adds = shape != 2 or pool.down.stride < pool.down.window or pool.right.stride < pool.right.window
    pool.target = new_result(live, output_type(table, node, 0), 4, dims, outputs)
    return do_or_leave(table, work, _spread_part, _cost(pool), <int>min(MOST_PARTS, pool.batch), outputs)


cdef bint _is_taken(dict attrs, list inputs, int64_t* params) except -1:
    """Return True if images have two dimensions and windows no gaps; write the attributes to `params`."""
    if inputs[0] not in (np.float32, np.float64) or attrs["channels_first"] or len(attrs["window"]) != 2:
        return False
    if attrs["rates"] != (1, 1) or attrs["padding"] not in ("SAME", "VALID"):
        return False
    if max(*attrs["window"], *attrs["strides"]) >= 1 << 24:
        return False
    for i in range(2):
        params[i] = <int64_t>attrs["window"][i] << 32 | <int64_t>attrs["strides"][i]
    params[2] = attrs["padding"] == "SAME"
    params[3] = 1 if attrs.get("mean") else 0
    return True


cdef Native _find_pooling(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    if not _is_taken(attrs, inputs, params):
        return NULL
    if type == "MaxPool":
        return _largest
    if type == "MaxPoolPlace":
        return _places
    return _sums if type == "AvgPool" else _spread


register("MaxPool", _find_pooling, ())
register("MaxPoolPlace", _find_pooling, ())
register("AvgPool", _find_pooling, ())
register("MaxPoolGrad", _find_pooling, (2,))
register("AvgPoolGrad", _find_pooling, (1,))
