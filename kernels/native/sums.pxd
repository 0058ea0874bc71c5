"""Sums of products that a run of a native program adds to."""

from tagflow.kernels.native.compiled cimport Instruction
from tagflow.kernels.native.run cimport Run

cdef int record_add(Run run, const Instruction* each) except -1
cdef int close_sums(Run run) except -1
