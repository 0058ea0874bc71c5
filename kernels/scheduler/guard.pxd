"""A look at what kernels give, before it goes on."""

from tagflow.kernels.scheduler.delivery cimport Machine
from tagflow.kernels.scheduler.table cimport Node

cdef int guard_outputs(Machine* m, const Node* node, object guard) except -1
