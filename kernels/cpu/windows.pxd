"""Elements of an array out of order, and copies of them in order."""

from libc.string cimport memcpy, memset
from numpy cimport npy_intp

from tagloom.kernels.core.cost cimport do_or_leave, leave, place_of
from tagloom.kernels.core.table cimport Table, Work
from tagloom.kernels.core.values cimport SCALAR, Value
from tagloom.kernels.cpu.arrays cimport MOST_DIMS, ArrayObject, PyArray_DATA, product

cdef enum:
    MOST_WINDOW_PARTS = 64


cdef struct Window:  # some elements of an array
    char* data
    int rank
    npy_intp dims[MOST_DIMS]
    npy_intp strides[MOST_DIMS]  # bytes


cdef struct WindowCopy:
    Window window
    size_t itemsize
    char* target  # where the elements are to lie in order


cdef inline void copy_window(const Window* window, size_t itemsize, char* target) noexcept nogil:
    """Copy the elements in order; there is at least one, and at least one dimension."""
    cdef npy_intp place[MOST_DIMS]
    cdef int last = window.rank - 1
    cdef char* source = window.data
    cdef int d = 0
    memset(place, 0, sizeof(place))
    while d >= 0:
        target = _copy_row(source, window.dims[last], window.strides[last], itemsize, target)
        d = last - 1
        while d >= 0:
            place[d] += 1
            source += window.strides[d]
            if place[d] < window.dims[d]:
                break
            source -= window.strides[d] * window.dims[d]
            place[d] = 0
            d -= 1


cdef inline char* _copy_row(
        char* source, npy_intp count, npy_intp stride, size_t itemsize, char* target) noexcept nogil:
    cdef npy_intp i
    if stride == <npy_intp>itemsize:
        memcpy(target, source, count * itemsize)
    else:
        for i in range(count):
            memcpy(target + i * itemsize, source + i * stride, itemsize)
    return target + count * itemsize


cdef inline void copy_window_part(const void* arguments, int part, int parts) noexcept nogil:
    """Copy the elements of this part, some places of the first dimension."""
    cdef WindowCopy copy = (<const WindowCopy*>arguments)[0]
    cdef Window* window = &copy.window
    cdef npy_intp start = window.dims[0] * part // parts
    window.dims[0] = window.dims[0] * (part + 1) // parts - start
    window.data += start * window.strides[0]
    if window.dims[0] > 0:
        copy_window(window, copy.itemsize, copy.target + start * product(window.dims, 1, window.rank) * copy.itemsize)


cdef inline int copy_window_to(
        const Table* table, const Window* window, size_t itemsize, char* target, Work* work, Value* output) noexcept nogil:
    """Copy the elements in order, or leave the work; there is at least one element, and at least one dimension."""
    cdef WindowCopy* copy = <WindowCopy*>work.arguments
    cdef npy_intp count = product(window.dims, 0, window.rank)
    copy.window, copy.itemsize, copy.target = window[0], itemsize, target
    # Elements that are apart take a few nanoseconds each, elements in rows a time by their bytes; and so does a row.
    cdef bint in_rows = window.strides[window.rank - 1] == <npy_intp>itemsize
    cdef double cost = 0.2 * count * itemsize if in_rows else 3.0 * count
    cost += 5.0 * product(window.dims, 0, window.rank - 1)
    return do_or_leave(table, work, copy_window_part, cost, <int>min(MOST_WINDOW_PARTS, window.dims[0]), output)


cdef struct ElementCopy:
    const char* source
    char* target  # NULL for an unboxed one
    size_t size


cdef inline void copy_element(const void* arguments, int part, int parts) noexcept nogil:
    cdef const ElementCopy* copy = <const ElementCopy*>arguments
    memcpy(place_of(arguments, copy.target), copy.source, copy.size)


cdef inline int copy_element_to(
        const Table* table, const char* source, size_t size, Value* output, Work* work) noexcept nogil:
    """Copy an element to a result, or leave the work where all work is left."""
    cdef ElementCopy* copy = <ElementCopy*>work.arguments
    cdef char* target = NULL if output.form == SCALAR else <char*>PyArray_DATA(<ArrayObject*>output.bits)
    if table.at_once > 0:
        memcpy(<char*>&output.bits if target == NULL else target, source, size)
    else:
        copy.source, copy.target, copy.size = source, target, size
        leave(work, copy_element, 1, 1)
    return 1
