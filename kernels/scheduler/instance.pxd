"""Instance: identifies the operation, frame and iteration of a running kernel."""

from libc.stdint cimport int64_t

from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready


cdef class Instance:
    cdef readonly object step  # StepContext of the step
    cdef readonly str operation
    cdef readonly object frame_id  # int
    cdef readonly int64_t iteration
    cdef readonly str path  # of the frame


cdef Instance instance_of(Ready ready, CompiledPlan compiled, object step)
