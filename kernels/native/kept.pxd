"""Runs that are kept for other inputs of the same shapes."""

from tagloom.kernels.core.table cimport Node, Table, Work
from tagloom.kernels.core.values cimport Counters, Value
from tagloom.kernels.native.compiled cimport CompiledProgram
from tagloom.kernels.native.run cimport Run

cdef class KeptRuns:
    cdef list idle  # Runs that are not under way, the last used one at the end
    cdef int credit  # cost saved, in runs, and not yet spent on recording

cdef int run_cluster(
    const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1
cdef Run run_of_loop(KeptRuns kept, CompiledProgram program, const Value* inputs)
cdef int copy_out(Run run, const Table* table, const Node* node, Counters* live, Value* outputs) except -1
cdef int put_back(KeptRuns kept, Run run) except -1
