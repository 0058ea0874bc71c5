"""Parts of an array: elements by index, and slices as in ``tensor[...]``."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.table cimport Compute

cdef enum:
    INDICES = 2  # of a part that can be read in place


cdef int indices_of_part(Compute compute, const uint64_t* arguments, char** indices, size_t* sizes) noexcept nogil
cdef char* part_at(Compute compute, const uint64_t* arguments, char** indices) noexcept nogil
