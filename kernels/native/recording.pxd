"""The steps of a run, recorded."""

from libc.stdint cimport int64_t

from tagloom.kernels.core.values cimport Value
from tagloom.kernels.native.compiled cimport CompiledProgram
from tagloom.kernels.native.run cimport Run

cdef int64_t trips_of(Run run) except -1
cdef bint is_series_or_sum(Value value)
cdef Run record(CompiledProgram program, const Value* inputs, bint for_others)
