"""The operations SERIES_PUSH, SERIES_EXIT and SERIES_READ."""

from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.core.table cimport Node
from tagloom.kernels.scheduler.delivery cimport Machine

cdef object run_series(Machine* m, Iteration* it, const Node* node, object swap)
