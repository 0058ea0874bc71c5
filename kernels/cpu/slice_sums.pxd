"""Arrays in which a slice gets values."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.seen cimport Seen

cdef int seen_by_slice_sum(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil
cdef bint update_slice_in_place(Compute compute, uint64_t* arguments, const char* total, const char* target) noexcept nogil
