"""Private contexts: where kernels run."""

from tagflow.kernels.cpu.pool cimport Pool


cdef class KernelContexts:
    cdef readonly Pool pool
    cdef list idle
