"""Series that a run of a native program writes and reads."""

from tagflow.kernels.native.compiled cimport Instruction
from tagflow.kernels.native.run cimport Run

cdef int record_push(Run run, const Instruction* each) except -1
cdef int record_read(Run run, const Instruction* each) except -1
cdef int make_room(Run run) except -1
cdef int close_series(Run run) except -1
cdef int release_rows(Run run) except -1
