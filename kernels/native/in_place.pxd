"""Rows that steps access in place, without a copy."""

from tagloom.kernels.native.run cimport Run

cdef int place_rows(Run run) except -1
