"""What arrives from another device is copied into the memory of this one."""

from tagflow.kernels.scheduler.delivery cimport Machine
from tagflow.kernels.scheduler.frames cimport Iteration
from tagflow.kernels.scheduler.table cimport Node, Work

cdef int copy_received(Machine* m, Iteration* it, const Node* node, Work* work) except -1
