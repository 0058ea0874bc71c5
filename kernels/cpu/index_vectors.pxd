"""Rows of arrays by index vectors."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.seen cimport Seen

cdef int seen_by_row_update(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil
cdef bint update_rows_in_place(Compute compute, uint64_t* arguments, const char* total, const char* target) noexcept nogil
