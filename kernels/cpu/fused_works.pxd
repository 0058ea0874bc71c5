"""What a fused operation left to be done, for those who do it again, perhaps elsewhere."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.seen cimport Seen

cdef int seen_by_fused(Compute compute, uint64_t* arguments, Seen* seen, int most) noexcept nogil
cdef bytes describe_fused(Compute compute, uint64_t* arguments)
