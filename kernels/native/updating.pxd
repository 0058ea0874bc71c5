"""Updates of loop variables in place."""

from tagloom.kernels.native.run cimport Run

cdef int update_in_place(Run run) except -1
