"""The guard's check of kernel outputs before their delivery."""

from libc.stdint cimport int64_t

from tagloom.kernels.core.table cimport Node
from tagloom.kernels.scheduler.delivery cimport Machine

cdef int64_t guarded_bytes(Machine* m, const Node* node) except -1
cdef list guarded_outputs(Machine* m, const Node* node)
cdef int guard_outputs(Machine* m, const Node* node, object guard) except -1
cdef void drop_outputs(Machine* m, const Node* node) noexcept
cdef int64_t made_bytes(Machine* m, const Node* node) except -1
