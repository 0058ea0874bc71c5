"""Kernels that move elements without computation."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.seen cimport Seen

cdef int seen_by_concat(Compute compute, uint64_t* arguments, Seen* seen, int most) noexcept nogil
