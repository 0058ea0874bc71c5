"""Parts of arrays that a run of a native program reads by index."""

from tagloom.kernels.core.table cimport Work
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run, Step

cdef bint record_part(Run run, const Instruction* each, const Work* work) except -1
cdef bint is_part(const Step* step) noexcept nogil
