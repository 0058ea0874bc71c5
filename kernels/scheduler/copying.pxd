"""What arrives from another device is copied into the memory of this one."""

from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.core.table cimport Node, Work
from tagloom.kernels.scheduler.delivery cimport Machine

cdef int copy_received(Machine* m, Iteration* it, const Node* node, Work* work) except -1
