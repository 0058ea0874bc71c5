"""The log of one step: spans for a Recorder."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tagloom.kernels.memory.pool cimport Pool
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.tracing cimport Recorder, Span


cdef class Log:
    cdef Recorder recorder
    cdef CompiledPlan compiled
    cdef Machine* machine  # of the StepMachine that owns this object
    cdef Pool pool  # of the step's device, or None
    cdef uint32_t step  # index in recorder.steps
    cdef uint64_t spans  # recorded so far

    cdef Span begin(self, Ready ready, int64_t begin, int stream) noexcept
    cdef int end(self, Span span, object path) except -1
    cdef int put(self, Ready ready, int64_t begin, int stream) except -1


cdef Log open_log(Recorder recorder, CompiledPlan compiled, object step, Machine* machine)
