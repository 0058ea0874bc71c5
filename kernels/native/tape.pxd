"""Kernels in Python as steps: see kernel.py."""

from tagloom.kernels.core.values cimport Value
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run

cdef bint record_trace(Run run, const Instruction* each, const Value* inputs, Value* outputs) except -1
