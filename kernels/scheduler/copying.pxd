"""Copies of values received from another device, made in the memory of this device."""

from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.core.table cimport Node, Work
from tagloom.kernels.scheduler.delivery cimport Machine

cdef int copy_received(Machine* m, Iteration* it, const Node* node, Work* work) except -1
