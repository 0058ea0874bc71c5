"""Listing of a run's steps: the properties on which compiled code depends."""

from tagloom.kernels.native.run cimport Run


cdef class Listing:
    cdef Run run
    cdef bytes signature
    cdef dict fused  # by step: result of describe_fused
    cdef list steps(self)


cdef Listing list_steps(Run run)
