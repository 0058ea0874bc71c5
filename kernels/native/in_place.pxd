"""Rows that steps see where they lie."""

from tagloom.kernels.native.run cimport Run

cdef int place_rows(Run run) except -1
