"""What code for the steps of a run depends on."""

from tagflow.kernels.native.run cimport Run

cdef bytes signature_of(Run run)
cdef list steps_of(Run run)
