"""What SERIES_PUSH, SERIES_EXIT and SERIES_READ do."""

from tagflow.kernels.scheduler.delivery cimport Machine
from tagflow.kernels.scheduler.frames cimport Iteration
from tagflow.kernels.scheduler.table cimport Node

cdef object run_series(Machine* m, Iteration* it, const Node* node, object swap)
