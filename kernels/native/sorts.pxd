"""Sorts as steps."""

from tagloom.kernels.native.run cimport Run

cdef int append_sort(Run run, array, bint is_stable) except -1
cdef int append_order(Run run, source, places, bint is_stable) except -1
