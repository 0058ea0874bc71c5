"""What code for the steps of a run depends on."""

from tagloom.kernels.native.run cimport Run


cdef class Listing:
    cdef Run run
    cdef bytes signature
    cdef dict fused  # by step: what describe_fused says
    cdef list steps(self)


cdef Listing list_steps(Run run)
