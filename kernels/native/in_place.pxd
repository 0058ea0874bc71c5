"""Rows that steps see where they lie."""

from tagflow.kernels.native.run cimport Run

cdef int place_rows(Run run) except -1
