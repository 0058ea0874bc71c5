"""Calls of kernels written in Python."""

from cpython.object cimport PyObject

from tagloom.kernels.core.table cimport Node
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready

cdef object call_kernel(
    Machine* m, Ready ready, PyObject** scratch, CompiledPlan compiled, object step, double nanoseconds_left)
cdef int accept_outputs(Machine* m, const Node* node, object result) except -1
