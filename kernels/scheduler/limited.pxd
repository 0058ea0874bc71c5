"""A step machine whose memory has a limit."""

from libc.stdint cimport int64_t

from tagloom.kernels.memory.blocks cimport Account
from tagloom.kernels.scheduler.gate cimport MemoryGate
from tagloom.kernels.scheduler.machine cimport StepMachine
from tagloom.kernels.scheduler.ready cimport Ready


cdef class Parked:
    cdef Ready ready  # outstanding, all its inputs where they were
    cdef int64_t need  # bytes that it takes at least; there was less when it was tried
    cdef tuple age  # oldest first: (whether no backward loop, numbers of the iterations around and its own)


cdef class LimitedMachine(StepMachine):
    cdef MemoryGate gate
    cdef object pool  # holds gate.store
    cdef int64_t seen  # gate.store.budget.given when nothing was found to go on with; -1: look again
    cdef int64_t refusals  # of the store before the instance that runs
    cdef bint performing  # an instance runs
    cdef bint refused  # it was refused memory
    cdef Account* account  # of all memory of the step, with its own reference; NULL for a step without operations
    cdef Ready forced  # may take memory that others wait for, since nothing else can go on; iteration NULL for none

    cdef bint _give_up_program(self) except -1
    cdef bint _parks(self, Ready ready, object exception) except -1
    cdef int _park(self, Ready ready, int64_t need) except -1
    cdef int _unpark(self, Py_ssize_t i) except -1
    cdef int64_t _limit_for(self, Ready ready) except? -1
    cdef bint _find_room(self) except -1
    cdef bint _reopen(self, bint backward) except -1
