"""The log of a step: spans for a Recorder, and at times the bytes in use. See docs/design/0004-seeing-a-step.md."""

from libc.stdint cimport int64_t

from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.report cimport count_iterations, frame_path_of, held_bytes
from tagloom.kernels.scheduler.tracing cimport Recorder, Span

cdef enum:
    LOOKS = 16  # spans between two looks at the bytes in use and the iterations in flight


cdef class Log:
    """The part of a trace for a single step."""

    cdef Span begin(self, Ready ready, int64_t begin, int stream) noexcept:
        """Return the span of an instance, without its end."""
        cdef Span span
        span.step, span.node, span.iteration = self.step, ready.node, ready.iteration.number
        span.begin, span.end, span.dead, span.stream = begin, 0, ready.dead, stream
        span.bytes = span.iterations = -1
        return span

    cdef int end(self, Span span, object path) except -1:
        """Record a span, which ends now unless its end is set; its iteration may be gone."""
        if span.end == 0:
            span.end = nanoseconds()
        if self.spans % LOOKS == 0 or self.machine.root == NULL:
            span.bytes = held_bytes(self.machine) if self.pool is None else self.pool.store.live
            span.iterations = count_iterations(self.machine.root)
        self.spans += 1
        return self.recorder.put(span, path)

    cdef int put(self, Ready ready, int64_t begin, int stream) except -1:
        """Record an instance which ends now and is still outstanding."""
        return self.end(self.begin(ready, begin, stream), frame_path_of(ready.iteration.frame, self.compiled))


cdef Log open_log(Recorder recorder, CompiledPlan compiled, object step, Machine* machine):
    """Return a log of a step, None if there is no recorder."""
    if recorder is None:
        return None
    cdef Log log = Log()
    log.recorder = recorder
    log.compiled = compiled
    log.machine = machine
    log.pool = getattr(getattr(step, "contexts", None), "pool", None)
    log.step = recorder.join(compiled.plan, step.number)
    return log
