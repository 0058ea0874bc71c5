"""Description of a convolution, and its units: rows of pixels of a result, or images, with the pixels read for them.

The pixels read by a unit are copied with padding into memory small enough for the core's cache, or read in place
without padding. Units depend on sizes alone, and so no bit of a result depends on the number of parts.
"""

cimport numpy as cnp
from libc.string cimport memcpy, memset

from tagloom.kernels.cpu.linear cimport vector_bits


cdef enum:
    IN_CACHE = 192 << 10  # bytes of a unit
    ENOUGH_PIXELS = 512  # of a unit, if it is of several images
    FEW_UNITS = 16  # that there are at least, if there are so many images


cdef bint open_convolution(
        const Settings* settings, const cnp.npy_intp* images, const cnp.npy_intp* filters, int size,
        Convolution* c) noexcept nogil:
    """Describe the convolution of images with filters; return False if sizes do not fit, or there is nothing to do."""
    cdef int rank = settings.rank, d, at
    cdef int64_t length, total
    for d in range(rank + 2):
        if images[d] <= 0 or filters[d] <= 0:
            return False
    c.images, c.inner, c.size = images[0], filters[rank], size
    if images[rank + 1] % c.inner:
        return False
    c.groups = images[rank + 1] // c.inner
    if filters[rank + 1] % c.groups:
        return False
    c.outer = filters[rank + 1] // c.groups
    for d in range(MOST_RANK):
        at = d - (MOST_RANK - rank)
        c.source[d] = images[1 + at] if at >= 0 else 1
        c.window[d] = filters[at] if at >= 0 else 1
        c.stride[d], c.dilation[d], c.spread[d] = settings.stride[d], settings.dilation[d], 1
        length = (c.window[d] - 1) * c.dilation[d] + 1
        if settings.same:
            c.result[d] = ceiling(c.source[d], c.stride[d])
            total = max(0, (c.result[d] - 1) * c.stride[d] + length - c.source[d])
            c.before[d] = total // 2
        else:
            c.before[d] = settings.before[d]
            total = c.source[d] + settings.before[d] + settings.after[d] - length
            if total < 0:
                return False
            c.result[d] = total // c.stride[d] + 1
    c.bits, c.relu = vector_bits(), settings.relu
    c.bias = c.where = c.sums = NULL
    c.turned, c.by_channel = False, c.inner == 1 and c.groups > 1
    return c.bits > 0


cdef void turn_around(Convolution* c) noexcept nogil:
    """Turn the convolution into the computation of the gradient of its images from the gradient of its result."""
    cdef int64_t swapped
    cdef int d
    for d in range(MOST_RANK):
        c.before[d] = (c.window[d] - 1) * c.dilation[d] - c.before[d]
        c.spread[d], c.stride[d] = c.stride[d], 1
        swapped = c.source[d]
        c.source[d], c.result[d] = c.result[d], swapped
    c.inner, c.outer = c.outer, c.inner
    c.turned, c.by_channel = True, c.groups > 1 and c.inner == c.outer == 1


cdef void lay_out(Convolution* c) noexcept nogil:
    """Choose the units, and the memory layout of the pixels read by a unit."""
    cdef int64_t row, plane, image, channels = num_channels(c)
    cdef int d
    c.lies = not c.by_channel or c.outer == 1
    for d in range(MOST_RANK):
        if c.before[d] != 0 or c.spread[d] != 1 or span(c, d, c.result[d]) > c.source[d]:
            c.lies = False
        c.unit[d] = c.result[d]
    row = span(c, X, c.result[X]) * channels * c.size
    plane = span(c, Y, c.result[Y]) * row
    image = span(c, Z, c.result[Z]) * plane
    c.unit_images = min(max(1, IN_CACHE // image), ceiling(ENOUGH_PIXELS, num_pixels(c)), max(1, c.images // FEW_UNITS))
    if image > IN_CACHE:
        c.unit[Z] = _fitting(c, Z, plane)
    if plane > IN_CACHE:
        c.unit[Y] = _fitting(c, Y, row)
    c.units = ceiling(c.images, c.unit_images) * ceiling(c.result[Z], c.unit[Z]) * ceiling(c.result[Y], c.unit[Y])
    c.step[X] = channels
    c.step[Y] = channels * (c.source[X] if c.lies else span(c, X, c.unit[X]))
    c.step[Z] = c.step[Y] * (c.source[Y] if c.lies else span(c, Y, c.unit[Y]))
    c.image_step = c.step[Z] * (c.source[Z] if c.lies else span(c, Z, c.unit[Z]))
    c.buffer = 0 if c.lies else c.unit_images * c.image_step * c.size


cdef inline int64_t _fitting(const Convolution* c, int d, int64_t size) noexcept nogil:
    """Return the number of windows along a dimension whose pixels stay in the cache; at least 1."""
    cdef int64_t count = (IN_CACHE // size - (c.window[d] - 1) * c.dilation[d] - 1) // c.stride[d] + 1
    return max(1, min(count, c.result[d]))


cdef Unit open_unit(const Convolution* c, int64_t number, char* buffer) noexcept nogil:
    """Describe a unit, and copy its pixels unless they are read in place."""
    cdef Unit u
    cdef int64_t columns = ceiling(c.result[Y], c.unit[Y])
    cdef int64_t planes = ceiling(c.result[Z], c.unit[Z])
    cdef int d
    u.begin[X], u.begin[Y] = 0, number % columns * c.unit[Y]
    u.begin[Z], u.first = number // columns % planes * c.unit[Z], number // columns // planes * c.unit_images
    u.images = min(c.unit_images, c.images - u.first)
    for d in range(MOST_RANK):
        u.count[d] = min(c.unit[d], c.result[d] - u.begin[d])
    u.pixel = ((u.first * c.result[Z] + u.begin[Z]) * c.result[Y] + u.begin[Y]) * c.result[X]
    u.pixels = u.images * u.count[Z] * u.count[Y] * u.count[X]
    if c.lies:
        u.data = c.data + c.size * (
            u.first * c.image_step + u.begin[Z] * c.stride[Z] * c.step[Z] + u.begin[Y] * c.stride[Y] * c.step[Y])
    else:
        u.data = buffer
        _copy_unit(c, &u, buffer)
    return u


cdef void _copy_unit(const Convolution* c, const Unit* u, char* buffer) noexcept nogil:
    """Copy the pixels read by a unit, with the zeros around and between them."""
    cdef int64_t row = c.size * c.step[Y], channels = c.groups * c.inner * c.size
    cdef int64_t image, z, y, at_z, at_y
    cdef const char* plane
    cdef char* to
    for image in range(u.images):
        for z in range(span(c, Z, u.count[Z])):
            at_z = _source_at(c, Z, u.begin[Z] * c.stride[Z] + z)
            plane = c.data + ((u.first + image) * c.source[Z] + at_z) * c.source[Y] * c.source[X] * channels
            to = buffer + c.size * (image * c.image_step + z * c.step[Z])
            for y in range(span(c, Y, u.count[Y])):
                at_y = _source_at(c, Y, u.begin[Y] * c.stride[Y] + y)
                if at_z < 0 or at_y < 0:
                    memset(to, 0, row)
                else:
                    _copy_row(c, plane + at_y * c.source[X] * channels, to, channels)
                to += row


cdef inline int64_t _source_at(const Convolution* c, int d, int64_t place) noexcept nogil:
    """Return the index of an image's element at a place of the padded image, -1 for a zero."""
    place -= c.before[d]
    if place < 0 or place % c.spread[d]:
        return -1
    place //= c.spread[d]
    return place if place < c.source[d] else -1


cdef void _copy_row(const Convolution* c, const char* row, char* to, int64_t channels) noexcept nogil:
    """Copy a row of pixels with the zeros around and between them."""
    cdef int64_t length = span(c, X, c.unit[X]), x, at
    cdef int64_t pixel = c.size * c.step[X]
    cdef int64_t begin = max(0, min(length, c.before[X]))
    cdef int64_t count = max(0, min(length - begin, c.source[X]))
    if c.spread[X] == 1 and not (c.by_channel and c.outer > 1) and c.before[X] >= 0:
        memset(to, 0, begin * pixel)
        memcpy(to + begin * pixel, row, count * pixel)
        memset(to + (begin + count) * pixel, 0, (length - begin - count) * pixel)
        return
    for x in range(length):
        at = _source_at(c, X, x)
        if at < 0:
            memset(to, 0, pixel)
        elif c.by_channel:
            _repeat_channels(c, row + at * channels, to)
        else:
            memcpy(to, row + at * channels, pixel)
        to += pixel


cdef inline void _repeat_channels(const Convolution* c, const char* pixel, char* to) noexcept nogil:
    """Copy each channel of a pixel as often as there are filters for the channel."""
    cdef int64_t i, j
    for i in range(c.groups):
        for j in range(c.outer):
            memcpy(to + (i * c.outer + j) * c.size, pixel + i * c.size, c.size)


cdef void write_row_offsets(const Convolution* c, Py_ssize_t* offsets) noexcept nogil:
    """Write where the first window of each row of the result begins, which is the same in all units."""
    cdef int64_t image, z, y
    for image in range(c.unit_images):
        for z in range(c.unit[Z]):
            for y in range(c.unit[Y]):
                offsets[0] = image * c.image_step + z * c.stride[Z] * c.step[Z] + y * c.stride[Y] * c.step[Y]
                offsets += 1


cdef void write_pixel_offsets(const Convolution* c, Py_ssize_t* offsets) noexcept nogil:
    """Write where the window of each pixel of the result begins, which is the same in all units."""
    cdef int64_t row, x, rows = c.unit_images * c.unit[Z] * c.unit[Y]
    write_row_offsets(c, offsets)
    for row in range(rows - 1, -1, -1):  # backwards, since they are spread in place
        for x in range(c.unit[X] - 1, -1, -1):
            offsets[row * c.unit[X] + x] = offsets[row] + x * c.stride[X] * c.step[X]
