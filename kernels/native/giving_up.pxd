"""Programs that are not run, because they do not fit the arrays of a step or give up."""

from tagloom.kernels.core.table cimport Node
from tagloom.kernels.native.compiled cimport CompiledProgram

cdef int give_up(CompiledProgram program, const Node* node, str reason) except -1
