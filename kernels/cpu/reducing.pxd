"""Reductions of plain arrays."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.seen cimport Seen

cdef int seen_by_reduction(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil
