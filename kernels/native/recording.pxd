"""The steps of a run, recorded."""

from tagflow.kernels.core.values cimport Value
from tagflow.kernels.native.compiled cimport CompiledProgram
from tagflow.kernels.native.run cimport Run

cdef Run record(CompiledProgram program, const Value* inputs, bint for_others)
