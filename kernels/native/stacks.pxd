"""Generalised ufuncs as steps."""

from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.native.run cimport Run

cdef int append_stack(
    Run run, Loop loop, void* data, list ranks, list sizes, list inputs, list outputs, bint checks) except -1
