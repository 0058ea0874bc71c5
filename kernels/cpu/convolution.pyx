"""Convolutions and their gradients, of one to three dimensions, with channels last.

Each is a product whose left factor, the windows, is gathered as it is read (`window.h`), unit by unit (`image_units.pyx`).

See docs/design/0030-models.md.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from tagloom.kernels.core.cost cimport decline, do_or_leave
from tagloom.kernels.core.table cimport Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport Counters, Value
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_DATA, PyArray_DIM, PyArray_DIMS, PyArray_NDIM, new_array, plain_in, read_sizes,
)
from tagloom.kernels.cpu.image_units cimport (
    MOST_RANK, X, Y, Z, Convolution, Settings, Unit, ceiling, lay_out, num_channels, num_pixels, num_places,
    open_convolution, open_unit, place_offset, turn_around, write_pixel_offsets, write_row_offsets,
)
from tagloom.kernels.cpu.linear cimport product_cost
from tagloom.kernels.cpu.registry cimport register

cnp.import_array()

cdef extern from "cpu/window.h" nogil:
    int PANEL_BYTES
    int TALL_TILE_ROWS
    int tile_rows(int bits, int size, int columns)
    ctypedef struct Segments:
        const Py_ssize_t* offsets
        size_t count
        size_t inner
        size_t step
    void pack(
        const void* matrix, size_t row, size_t step, size_t rows, size_t columns, int size, size_t strip,
        size_t apart, void* panels)
    size_t strip_bytes(int bits)
    void multiply_windows(
        int bits, int size, int rows, int columns, const void* const* a, const Segments*, const void* b, size_t b_step,
        size_t b_next, void* c, size_t c_row, int adds, const void* bias, int relu, const void* where)
    void finish_pixels(
        int bits, int size, int pixels, int channels, void* c, const void* bias, int relu, const void* where)
    void multiply_channels(int bits, int size, size_t channels, const void* a, const Segments*, const void* b, void* c)
    void sum_channels(
        int bits, int size, size_t channels, const void* a, const Segments*, const void* g, void* c, int adds)

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)

cdef extern from "cpu/rows.h" nogil:
    void add_rows(
        void* total, const void* rows, ptrdiff_t num_rows, ptrdiff_t step, ptrdiff_t count, size_t size, int bits)

cdef enum:
    MOST_PARTS = 64
    VECTOR_BYTES = 64
    NEAR = 36 << 10  # bytes that stay in a core's nearest cache
    ENOUGH_TERMS = 64  # of a sum before it is added to the total


cdef inline bint _rows_are_whole(const Convolution* c) noexcept nogil:
    """Return True if all elements that a row of a window reads lie side by side."""
    return c.groups == 1 and c.dilation[X] == 1 or c.window[X] == 1


cdef inline int64_t _begin(int64_t whole, int part, int parts) noexcept nogil:
    return whole * part // parts


cdef struct Room:  # scratch memory of a part
    char* memory
    char* panel
    char* buffer
    Py_ssize_t* places  # offsets of the segments of a window, or of its elements
    Py_ssize_t* pixels  # offsets of windows, or of rows of them


cdef inline size_t _rounded(int64_t size) noexcept nogil:
    return (size + PANEL_BYTES - 1) // PANEL_BYTES * PANEL_BYTES


cdef bint _take_room(const void* arguments, int64_t panel, int64_t places, int64_t pixels, Room* room) noexcept nogil:
    """Take memory for a part, or decline, so that the Python kernel runs."""
    cdef const Convolution* c = <const Convolution*>arguments
    room.memory = <char*>aligned_alloc(
        PANEL_BYTES, _rounded(panel) + _rounded(c.buffer) + _rounded(8 * places) + _rounded(8 * pixels) + PANEL_BYTES)
    if room.memory == NULL:
        decline(arguments)
        return False
    room.panel = room.memory
    room.buffer = room.panel + _rounded(panel)
    room.places = <Py_ssize_t*>(room.buffer + _rounded(c.buffer))
    room.pixels = <Py_ssize_t*>(room.buffer + _rounded(c.buffer) + _rounded(8 * places))
    return True


# ---- results


cdef void _convolve_part(const void* arguments, int part, int parts) noexcept nogil:
    """Compute the result for some units."""
    cdef const Convolution* c = <const Convolution*>arguments
    cdef int64_t merged = c.window[X] if _rows_are_whole(c) and not c.by_channel else 1
    cdef int64_t row = num_channels(c) * c.size if c.by_channel else c.inner * PANEL_BYTES
    cdef int64_t pixels = c.unit_images * c.unit[Z] * c.unit[Y] * c.unit[X]
    cdef Room room
    cdef Segments s
    cdef int64_t i
    if not _take_room(arguments, num_places(c) * row, num_places(c), pixels, &room):
        return
    s.offsets, s.count, s.inner, s.step = room.places, num_places(c) // merged, merged * c.inner, 1
    for i in range(<int64_t>s.count):
        room.places[i] = place_offset(c, i * merged)
    write_pixel_offsets(c, room.pixels)
    if c.by_channel:
        _convolve_channels(c, &s, part, parts, &room)
    else:
        _convolve_units(c, &s, part, parts, &room)
    free(room.memory)


cdef void _convolve_units(const Convolution* c, const Segments* s, int part, int parts, Room* room) noexcept nogil:
    """Compute the result for some units, a panel of filters after the other."""
    cdef int64_t first = _begin(c.units, part, parts), end = _begin(c.units, part + 1, parts)
    cdef int64_t width = PANEL_BYTES // c.size
    cdef int64_t group, panel, column, number, filled = -1
    cdef Unit u
    for group in range(c.groups):
        for panel in range(ceiling(c.outer, width)):
            column = panel * width
            _pack_filters(c, group, column, <int>min(width, c.outer - column), room.panel)
            for number in range(first, end):
                if number != filled:
                    u = open_unit(c, number, room.buffer)
                    filled = number
                _multiply_unit(c, &u, s, group, column, <int>min(width, c.outer - column), room)


cdef void _pack_filters(const Convolution* c, int64_t group, int64_t column, int columns, char* panel) noexcept nogil:
    """Write some filters of a group as a panel, by places of the window and channels."""
    cdef int64_t places = num_places(c), place, wide
    cdef size_t strip = strip_bytes(c.bits)
    cdef size_t apart = places * c.inner * strip
    if not c.turned:
        wide = c.groups * c.outer
        pack(c.filters + c.size * (group * c.outer + column), wide, 1, places * c.inner, columns, c.size, strip, apart,
             panel)
        return
    wide = c.groups * c.inner  # the filters of the convolution whose gradient this is
    for place in range(places):
        pack(c.filters + c.size * (((places - 1 - place) * c.outer + column) * wide + group * c.inner), 1, wide,
             c.inner, columns, c.size, strip, apart, panel + place * c.inner * strip)


cdef void _multiply_unit(
        const Convolution* c, const Unit* u, const Segments* s, int64_t group, int64_t column, int columns,
        const Room* room) noexcept nogil:
    """Compute some columns of the result for a unit."""
    cdef int64_t wide = c.groups * c.outer, tile, pixel
    cdef const char* begin = u.data + c.size * group * c.inner
    cdef char* to = c.output + c.size * (u.pixel * wide + group * c.outer + column)
    cdef const void* rows[12]
    cdef int most = tile_rows(c.bits, c.size, columns), count, i
    cdef size_t strip = strip_bytes(c.bits) // c.size
    cdef const char* bias = NULL if c.bias == NULL else c.bias + c.size * (group * c.outer + column)
    cdef const char* where = NULL if c.where == NULL else c.where + (to - c.output)
    for tile in range(ceiling(u.pixels, most)):
        pixel = tile * most
        count = <int>min(<int64_t>most, u.pixels - pixel)
        for i in range(count):
            rows[i] = begin + c.size * room.pixels[pixel + i]
        multiply_windows(
            c.bits, c.size, count, columns, rows, s, room.panel, strip, num_places(c) * c.inner * strip,
            to + c.size * pixel * wide, wide, 0, bias, bias != NULL and c.relu,
            NULL if where == NULL else where + c.size * pixel * wide)


cdef void _convolve_channels(const Convolution* c, const Segments* s, int part, int parts, Room* room) noexcept nogil:
    """Compute the result for some units, each channel for itself."""
    cdef int64_t channels = num_channels(c), place, number, pixel, at
    cdef const char* used = c.filters
    cdef Unit u
    if c.turned:
        used = room.panel
        for place in range(<int64_t>s.count):
            memcpy(room.panel + place * channels * c.size, c.filters + (s.count - 1 - place) * channels * c.size,
                   channels * c.size)
    for number in range(_begin(c.units, part, parts), _begin(c.units, part + 1, parts)):
        u = open_unit(c, number, room.buffer)
        for pixel in range(u.pixels):
            multiply_channels(
                c.bits, c.size, channels, u.data + c.size * room.pixels[pixel], s, used,
                c.output + c.size * (u.pixel + pixel) * channels)
        at = c.size * u.pixel * channels
        if c.bias != NULL or c.where != NULL:
            finish_pixels(
                c.bits, c.size, <int>u.pixels, <int>channels, c.output + at, c.bias, c.bias != NULL and c.relu,
                NULL if c.where == NULL else c.where + at)


# ---- gradients of filters


cdef void _filters_part(const void* arguments, int part, int parts) noexcept nogil:
    """Compute some rows of the gradient of the filters: elements of a window, by places and channels."""
    cdef const Convolution* c = <const Convolution*>arguments
    cdef int64_t rows = c.unit_images * c.unit[Z] * c.unit[Y]
    cdef Room room
    cdef Segments s
    if not _take_room(arguments, rows * c.unit[X] * PANEL_BYTES, num_places(c) * c.inner, rows, &room):
        return
    s.offsets, s.inner, s.step = room.pixels, c.result[X], c.stride[X] * c.step[X]
    write_row_offsets(c, room.pixels)
    if c.by_channel:
        _sum_channels(c, &s, part, parts, &room)
    else:
        _sum_units(c, &s, part, parts, &room)
    free(room.memory)


cdef void _sum_units(const Convolution* c, Segments* s, int part, int parts, Room* room) noexcept nogil:
    """Sum some rows of the gradient over all units, a panel of filters after the other."""
    cdef int64_t rows = num_places(c) * c.inner, tiles = ceiling(rows, TALL_TILE_ROWS)
    cdef int64_t first = _begin(tiles, part, parts) * TALL_TILE_ROWS
    cdef int64_t end = min(_begin(tiles, part + 1, parts) * TALL_TILE_ROWS, rows)
    cdef int64_t width = PANEL_BYTES // c.size, wide = c.groups * c.outer, strip = strip_bytes(c.bits) // c.size
    cdef int64_t group, panel, column, number, row, filled = -1
    cdef bint lies = wide <= width and wide * c.size % VECTOR_BYTES == 0  # so that whole vectors are read where it is
    cdef const char* g
    cdef int columns
    cdef Unit u
    for row in range(first, end):
        room.places[row] = place_offset(c, row // c.inner) + row % c.inner
    for group in range(c.groups):
        for panel in range(ceiling(c.outer, width)):
            column = panel * width
            columns = <int>min(width, c.outer - column)
            for number in range(c.units):
                if number != filled:
                    u = open_unit(c, number, room.buffer)
                    s.count = u.pixels // c.result[X]
                    filled = number
                if group == 0 and panel == 0 and part == parts - 1:
                    _sum_pixels(c, &u)
                g = c.filters + c.size * (u.pixel * wide + group * c.outer + column)
                if lies and c.groups == 1:
                    _sum_unit(c, &u, s, group, column, columns, g, wide, strip, wide, first, end, room.places)
                    continue
                pack(g, wide, 1, u.pixels, columns, c.size, strip * c.size, u.pixels * strip * c.size, room.panel)
                _sum_unit(
                    c, &u, s, group, column, columns, room.panel, strip, u.pixels * strip, width, first, end, room.places)


cdef inline void _sum_pixels(const Convolution* c, const Unit* u) noexcept nogil:
    """Add the channels of a unit's pixels to their sums, pixel by pixel, while they are in the cache."""
    cdef int64_t wide = c.groups * c.outer
    if c.sums == NULL:
        return
    if u.pixel == 0:
        memset(c.sums, 0, c.size * wide)
    add_rows(c.sums, c.filters + u.pixel * wide * c.size, u.pixels, wide, wide, c.size, c.bits)


cdef void _sum_unit(
        const Convolution* c, const Unit* u, const Segments* s, int64_t group, int64_t column, int columns,
        const char* g, int64_t g_step, int64_t g_next, int64_t g_width, int64_t first, int64_t end,
        const Py_ssize_t* places) noexcept nogil:
    """Add the contribution of a unit to some rows and columns of the gradient; the first unit initialises them.

    A row of the gradient of the result, `g`, has `g_width` elements, of which a tile reads a strip; that of the next
    tile lies `g_next` elements further.
    """
    cdef int64_t wide = c.groups * c.outer, at_once = _rows_at_once(c, g_width), block, begin, tile, row
    cdef const char* data = u.data + c.size * group * c.inner
    cdef const void* rows[12]
    cdef Segments some = s[0]
    cdef int most = tile_rows(c.bits, c.size, columns), count, i
    for block in range(ceiling(<int64_t>s.count, at_once)):
        begin = block * at_once
        some.offsets, some.count = s.offsets + begin, min(at_once, <int64_t>s.count - begin)
        for tile in range(ceiling(end - first, most)):
            row = first + tile * most
            count = <int>min(<int64_t>most, end - row)
            for i in range(count):
                rows[i] = data + c.size * places[row + i]
            multiply_windows(
                c.bits, c.size, count, columns, rows, &some, g + c.size * g_step * c.result[X] * begin, g_step,
                g_next, c.output + c.size * (row * wide + group * c.outer + column), wide, u.pixel > 0 or begin > 0,
                NULL, 0, NULL)


cdef inline int64_t _rows_at_once(const Convolution* c, int64_t g_width) noexcept nogil:
    """Return of how many rows of pixels both images and the gradient of the result stay in the nearest cache."""
    cdef int64_t seen = c.step[Y] * c.stride[Y] * c.size, row = seen + c.result[X] * g_width * c.size
    cdef int64_t shared = c.step[Y] * (c.window[Y] - 1) * c.dilation[Y] * c.size  # by windows of two rows of pixels
    return max(ceiling(ENOUGH_TERMS, c.result[X]), (NEAR - shared) // row)


cdef void _sum_channels(const Convolution* c, Segments* s, int part, int parts, Room* room) noexcept nogil:
    """Sum some places of the gradient over all units, each channel for itself."""
    cdef int64_t channels = num_channels(c), number, place
    cdef int64_t first = _begin(num_places(c), part, parts), end = _begin(num_places(c), part + 1, parts)
    cdef Unit u
    for number in range(c.units):
        u = open_unit(c, number, room.buffer)
        s.count = u.pixels // c.result[X]
        if part == parts - 1:
            _sum_pixels(c, &u)
        for place in range(first, end):
            sum_channels(
                c.bits, c.size, channels, u.data + c.size * place_offset(c, place), s,
                c.filters + c.size * u.pixel * channels, c.output + c.size * place * channels, u.pixel > 0)


# ---- operations


cdef inline double _cost(const Convolution* c) noexcept nogil:
    """Return an estimate of the nanoseconds of a convolution."""
    cdef int64_t pixels = c.images * num_pixels(c)
    return product_cost(pixels, num_places(c) * c.inner, c.groups * c.outer, c.size)


cdef inline const Settings* _settings(const Node* node) noexcept nogil:
    return <const Settings*>node.params[0]


cdef inline bint _has_rank(ArrayObject* array, const Settings* settings) noexcept nogil:
    return array != NULL and PyArray_NDIM(array) == settings.rank + 2


cdef void _result_dims(
        const Convolution* c, const Settings* settings, const int64_t* sizes, int64_t channels,
        cnp.npy_intp* dims) noexcept nogil:
    """Write the shape of images with a number of channels."""
    cdef int d
    dims[0] = c.images
    for d in range(settings.rank):
        dims[1 + d] = sizes[MOST_RANK - settings.rank + d]
    dims[1 + settings.rank] = channels


cdef inline bint _is_shape(ArrayObject* array, const cnp.npy_intp* dims) noexcept nogil:
    cdef int d
    for d in range(PyArray_NDIM(array)):
        if PyArray_DIM(array, d) != dims[d]:
            return False
    return True


cdef int _convolve(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Convolve images with filters, and add a bias if there is one."""
    cdef Convolution* c = <Convolution*>work.arguments
    cdef const Settings* settings = _settings(node)
    cdef ArrayObject* images = plain_in(inputs[0])
    cdef ArrayObject* filters = plain_in(inputs[1])
    cdef ArrayObject* bias
    cdef cnp.npy_intp dims[MOST_RANK + 2]
    if not _has_rank(images, settings) or not _has_rank(filters, settings):
        return 0
    if not open_convolution(settings, PyArray_DIMS(images), PyArray_DIMS(filters), output_type(table, node, 0).itemsize, c):
        return 0
    if settings.biased:
        bias = plain_in(inputs[2])
        if bias == NULL or PyArray_NDIM(bias) != 1 or PyArray_DIM(bias, 0) != c.groups * c.outer:
            return 0
        c.bias = <const char*>PyArray_DATA(bias)
    _result_dims(c, settings, c.result, c.groups * c.outer, dims)
    c.data, c.filters = <const char*>PyArray_DATA(images), <const char*>PyArray_DATA(filters)
    c.output = <char*>PyArray_DATA(new_array(live, output_type(table, node, 0), settings.rank + 2, dims, outputs))
    lay_out(c)
    return do_or_leave(table, work, _convolve_part, _cost(c), <int>min(c.units, <int64_t>MOST_PARTS), outputs)


cdef int _convolve_back(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Compute the gradient of the images, whose shape is the first input, perhaps where the last is above zero."""
    cdef Convolution* c = <Convolution*>work.arguments
    cdef const Settings* settings = _settings(node)
    cdef ArrayObject* where
    cdef ArrayObject* filters = plain_in(inputs[1])
    cdef ArrayObject* g = plain_in(inputs[2])
    cdef cnp.npy_intp sizes[MOST_DIMS]
    cdef cnp.npy_intp dims[MOST_RANK + 2]
    if not _has_rank(filters, settings) or not _has_rank(g, settings):
        return 0
    if read_sizes(&inputs[0], input_type(table, node, 0), sizes) != settings.rank + 2:
        return 0
    if not open_convolution(settings, sizes, PyArray_DIMS(filters), output_type(table, node, 0).itemsize, c):
        return 0
    _result_dims(c, settings, c.result, c.groups * c.outer, dims)
    if not _is_shape(g, dims):
        return 0
    if settings.masked:
        where = plain_in(inputs[3])
        if not _has_rank(where, settings) or not _is_shape(where, sizes):
            return 0
        c.where = <const char*>PyArray_DATA(where)
    c.data, c.filters = <const char*>PyArray_DATA(g), <const char*>PyArray_DATA(filters)
    c.output = <char*>PyArray_DATA(new_array(live, output_type(table, node, 0), settings.rank + 2, sizes, outputs))
    turn_around(c)
    lay_out(c)
    return do_or_leave(table, work, _convolve_part, _cost(c), <int>min(c.units, <int64_t>MOST_PARTS), outputs)


cdef int _differentiate_filters(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Compute the gradient of the filters, whose shape is the second input."""
    cdef Convolution* c = <Convolution*>work.arguments
    cdef const Settings* settings = _settings(node)
    cdef ArrayObject* images = plain_in(inputs[0])
    cdef ArrayObject* g = plain_in(inputs[2])
    cdef cnp.npy_intp sizes[MOST_DIMS]
    cdef cnp.npy_intp dims[MOST_RANK + 2]
    cdef int64_t rows
    if not _has_rank(images, settings) or not _has_rank(g, settings):
        return 0
    if read_sizes(&inputs[1], input_type(table, node, 1), sizes) != settings.rank + 2:
        return 0
    if not open_convolution(settings, PyArray_DIMS(images), sizes, output_type(table, node, 0).itemsize, c):
        return 0
    _result_dims(c, settings, c.result, c.groups * c.outer, dims)
    if not _is_shape(g, dims):
        return 0
    c.data, c.filters = <const char*>PyArray_DATA(images), <const char*>PyArray_DATA(g)
    c.output = <char*>PyArray_DATA(new_array(live, output_type(table, node, 0), settings.rank + 2, sizes, outputs))
    if settings.summed:
        dims[0] = c.groups * c.outer
        c.sums = <char*>PyArray_DATA(new_array(live, output_type(table, node, 1), 1, dims, &outputs[1]))
    lay_out(c)
    rows = num_places(c) if c.by_channel else ceiling(num_places(c) * c.inner, TALL_TILE_ROWS)
    return do_or_leave(table, work, _filters_part, _cost(c), <int>min(rows, <int64_t>MOST_PARTS), outputs)


cdef Native _find_convolution(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of a convolution, or of a gradient."""
    cdef Settings* settings
    cdef int d, at
    if outputs[0] not in (np.float32, np.float64):
        return NULL
    memory = np.zeros(sizeof(Settings), np.uint8)
    settings = <Settings*>cnp.PyArray_DATA(memory)
    strides, dilations, padding = attrs["strides"], attrs["dilations"], attrs["padding"]
    settings.rank, settings.same = len(strides), padding == "SAME"
    settings.biased, settings.relu = type == "ConvBias", attrs.get("relu", False)
    settings.summed = type == "ConvFilterBiasGrad"
    settings.masked = type == "ConvInputGradMasked"
    for d in range(MOST_RANK):
        at = d - (MOST_RANK - settings.rank)
        settings.stride[d] = strides[at] if at >= 0 else 1
        settings.dilation[d] = dilations[at] if at >= 0 else 1
        if at >= 0 and not isinstance(padding, str):
            settings.before[d], settings.after[d] = padding[at]
    kept.append(memory)
    params[0] = <int64_t>settings
    if type in ("Conv", "ConvBias"):
        return _convolve
    return _convolve_back if type in ("ConvInputGrad", "ConvInputGradMasked") else _differentiate_filters


register("Conv", _find_convolution, ())
register("ConvBias", _find_convolution, ())
register("ConvInputGrad", _find_convolution, (0,))
register("ConvInputGradMasked", _find_convolution, (0,))
register("ConvFilterGrad", _find_convolution, (1,))
register("ConvFilterBiasGrad", _find_convolution, (1,))
