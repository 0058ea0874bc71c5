"""Spans of operation instances, kept in a ring."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t


cdef enum Stream:
    COMPUTE = 0  # ran on the event loop's thread, start to end
    AWAITED = 1  # an asynchronous instance, from its launch until its result was there
    OFFLOADED = 2  # the workers did it, from the submission until its result was there
    COPIED_IN = 3  # the copy of a received value


cdef struct Span:
    PyObject* path  # str of the frame, owned; NULL while the slot is unused
    int64_t iteration
    int64_t begin  # nanoseconds on the monotonic clock
    int64_t end
    int64_t bytes  # held by the step when the span ended; -1 where not measured
    int64_t iterations  # of all loops of the step in flight then; -1 where not measured
    uint32_t step  # index in Recorder.steps
    uint32_t node
    uint8_t dead  # 0 or 1
    uint8_t stream  # a Stream


cdef class Recorder:
    cdef Span* spans  # ring, owned
    cdef readonly int64_t capacity  # length of `spans`
    cdef readonly int64_t recorded  # spans ever put; the newest is at (recorded - 1) % capacity
    cdef readonly list steps  # (Plan, number) of each step that was joined

    cdef int put(self, Span span, object path) except -1
