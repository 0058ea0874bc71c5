"""What SERIES_PUSH, SERIES_EXIT and SERIES_READ do."""

from tagflow.kernels.core.frames cimport Iteration
from tagflow.kernels.core.table cimport Node
from tagflow.kernels.scheduler.delivery cimport Machine

cdef object run_series(Machine* m, Iteration* it, const Node* node, object swap)
