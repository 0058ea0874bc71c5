"""Series that a run of a native program writes to the slots of other series."""

from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run

cdef int record_nest(Run run, const Instruction* each) except -1
cdef int close_nests(Run run) except -1
