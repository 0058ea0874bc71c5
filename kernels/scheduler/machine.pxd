"""Step machine: one execution of a compiled plan."""

from tagloom.kernels.core.table cimport Node
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.state cimport StepState
from tagloom.kernels.scheduler.workers cimport OffloadedWork


cdef class StepMachine(StepState):
    cdef int visit(self, double deadline, int budget) except -1
    cdef int _run(self, double deadline, int budget) except -1
    cdef int _trace(self, Ready ready) except -1
    cdef int _perform(self, Ready ready) except -1
    cdef int _execute(self, Ready ready) except -1
    cdef int _give_up(self, Ready ready, object exception) except -1
    cdef int _decline(self, Ready ready) except -1
    cdef int _finish_later(self, Ready ready, object unfinished, bint at_once=*) except -1
    cdef bint _go_on_with(self, Ready ready) except -1
    cdef bint _wants_python(self, Ready ready) except -1
    cdef int _run_python(self, Ready ready) except -1
    cdef object _call(self, Ready ready)
    cdef double _left(self) noexcept
    cdef int _compute(self, Ready ready, Node* node) except -1
    cdef int _hand_over(self, Ready ready, Node* node) except -1
    cdef bint _collect(self, double seconds, double deadline) except -1
    cdef int _return(self, OffloadedWork offload) except -1
