"""Machine code for runs."""

from tagloom.kernels.native.run cimport Run

cdef int use_code(Run run) except -1
