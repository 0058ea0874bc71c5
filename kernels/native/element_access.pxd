"""Reads and writes of the elements of TensorArrays as steps of a run."""

from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run, Step

cdef enum Transfer:  # direction in which a step copies
    NEITHER
    FROM_ROW
    TO_ROW


cdef bint record_access(Run run, const Instruction* each) except -1
cdef Transfer transfer_in(const Step* step) noexcept nogil
