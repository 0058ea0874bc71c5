"""The compiled form of a plan, shared by all its steps."""

from libc.stdint cimport int64_t

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Table
from tagloom.kernels.core.values cimport Counters


cdef class CompiledPlan:
    cdef Table table
    cdef Counters held  # references that `table.constants` holds
    cdef Arena arena  # owns every array of `table`
    cdef readonly object plan  # keeps nodes, values and names alive
    cdef readonly list dtypes  # owns Type.descr, by type index
    cdef readonly list kernels  # owns Node.kernel
    cdef list programs  # native ones among them, which count their loops
    cdef int64_t running  # steps open now
    cdef set told  # numbers of the frames whose loops were logged
    cdef dict _type_index  # dtype or None -> type index, while building

    cdef int join(self) except -1
    cdef int leave(self) except -1
