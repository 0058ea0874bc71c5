"""The steps of a run, recorded."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.values cimport Value
from tagflow.kernels.native.compiled cimport CompiledProgram
from tagflow.kernels.native.run cimport Run

cdef int64_t trips_of(Run run) except -1
cdef bint is_series_or_sum(Value value)
cdef Run record(CompiledProgram program, const Value* inputs, bint for_others)
