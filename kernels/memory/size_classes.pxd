"""Sizes of blocks: a few classes, so that a freed block fits the next array of about its size."""

from libc.stdint cimport uint32_t

cdef extern from *:
    uint32_t clz "__builtin_clzl"(size_t) nogil

cdef enum:
    SMALL_CLASSES = 8  # classes of small blocks: multiples of 64 bytes
    NUM_CLASSES = 168  # after the small classes, four for each power of two
    LARGEST_BIT = 48  # larger sizes are refused


cdef inline uint32_t size_class_of(size_t size) noexcept nogil:
    """Return the class of the smallest block with room for `size` bytes."""
    cdef uint32_t bit
    if size <= 64 * SMALL_CLASSES:
        return 0 if size == 0 else (size - 1) >> 6
    bit = 63 - clz(size - 1)
    return SMALL_CLASSES + 4 * (bit - 9) + (((size - 1) >> (bit - 2)) & 3)


cdef inline size_t capacity_of(uint32_t size_class) noexcept nogil:
    """Return the bytes there is room for in a block of a class."""
    if size_class < SMALL_CLASSES:
        return (<size_t>size_class + 1) << 6
    return <size_t>(((size_class - SMALL_CLASSES) & 3) + 5) << (7 + ((size_class - SMALL_CLASSES) >> 2))
