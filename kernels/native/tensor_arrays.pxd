"""TensorArrays of which a run of a native program reads and writes elements."""

from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run, Step

cdef enum Transfer:  # direction in which a step copies
    NEITHER
    FROM_ROW
    TO_ROW


cdef int record_get(Run run, const Instruction* each) except -1
cdef int record_put(Run run, const Instruction* each) except -1
cdef int grow_tensor_arrays(Run run) except -1
cdef Transfer transfer_in(const Step* step) noexcept nogil
cdef bint are_as_found(Run run) except -1
cdef int close_tensor_arrays(Run run) except -1
