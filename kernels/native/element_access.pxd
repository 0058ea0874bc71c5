"""Reads and writes of the elements of TensorArrays as steps of a run."""

from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run, Step

cdef enum Transfer:  # direction in which a step copies
    NEITHER
    FROM_ROW
    TO_ROW


cdef int record_get(Run run, const Instruction* each) except -1
cdef int record_put(Run run, const Instruction* each) except -1
cdef int record_gather(Run run, const Instruction* each) except -1
cdef int record_scatter(Run run, const Instruction* each) except -1
cdef int record_new(Run run, const Instruction* each) except -1
cdef Transfer transfer_in(const Step* step) noexcept nogil
