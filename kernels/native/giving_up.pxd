"""What happens when a program is not run."""

from tagloom.kernels.core.table cimport Node
from tagloom.kernels.native.compiled cimport CompiledProgram

cdef int give_up(CompiledProgram program, const Node* node, str reason) except -1
