"""Steps that call the Python kernels of operations."""

from tagloom.kernels.core.table cimport Work
from tagloom.kernels.core.values cimport Value
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run

cdef bint leave_call(Run run, const Instruction* each, const Value* inputs, Value* outputs, Work* work) except -1
cdef str reason_of_calls(Run run)
cdef tuple names_of_calls(Run run)
