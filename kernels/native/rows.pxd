"""Access to rows by numbers that change, as steps."""

from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.native.run cimport Run

cdef int append_take(Run run, table, list numbers, target) except -1
cdef int append_put(Run run, table, list numbers, source, Loop loop, void* data) except -1
cdef int append_assumption(Run run, condition, bint value) except -1
cdef int append_check(Run run, numbers, count) except -1
