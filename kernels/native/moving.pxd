"""Moves of values between registers."""

from tagloom.kernels.core.values cimport Value
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Register, Run

cdef int record_move(Run run, Instruction* each) except -1
cdef int make_home(Run run, int number, Value value) except -1
cdef Value copy_of_size(Run run, Value value) except *
cdef bint is_unboxed(Run run, int number, Value value) noexcept
cdef int straighten(Run run, Register* register) except -1
