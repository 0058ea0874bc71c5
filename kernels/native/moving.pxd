"""Registers that take the values of others."""

from tagflow.kernels.native.compiled cimport Instruction
from tagflow.kernels.native.run cimport Register, Run

cdef int record_move(Run run, Instruction* each) except -1
cdef int straighten(Run run, Register* register) except -1
