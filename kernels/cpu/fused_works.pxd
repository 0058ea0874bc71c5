"""The work of a fused operation, described for code that repeats it, perhaps elsewhere."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.seen cimport Seen

cdef int seen_by_fused(Compute compute, uint64_t* arguments, Seen* seen, int most) noexcept nogil
cdef bytes describe_fused(Compute compute, uint64_t* arguments)
