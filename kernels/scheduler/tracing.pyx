"""Spans of operation instances, kept in a ring: the newest stay, the oldest make room.

See docs/design/0004-seeing-a-step.md.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from tagloom.kernels.core.values cimport Py_INCREF, Py_XDECREF


cdef class Recorder:
    """A ring of spans that any number of steps write to.

    Parameters
    ----------
    capacity : int
        Most spans kept, at least 1.
    """

    def __cinit__(self, int64_t capacity):
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.steps = []
        self.spans = <Span*>calloc(capacity, sizeof(Span))
        if self.spans == NULL:
            raise MemoryError(f"no memory for {capacity} spans")
        self.capacity = capacity

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.capacity):
            Py_XDECREF(self.spans[i].path)
        free(self.spans)

    def join(self, plan, number):
        """Register a step by its plan and number; return the index that its spans carry."""
        self.steps.append((plan, number))
        return len(self.steps) - 1

    def add(self, step, node, path, iteration, begin, end, *, dead, awaited, holdings=(-1, -1)):
        """Record a span; times in nanoseconds, `holdings` as (bytes, iterations), -1 for unknown."""
        cdef Span span
        span.step, span.node, span.iteration = step, node, iteration
        span.begin, span.end = begin, end
        span.dead, span.stream = bool(dead), AWAITED if awaited else COMPUTE
        span.bytes, span.iterations = holdings
        self.put(span, path)

    def rows(self):
        """Return the spans kept, in the order in which they ended.

        Returns
        -------
        list of tuple
            (step, node, path, iteration, begin, end, dead, stream, bytes, iterations); stream 0: computed in the drain,
            1: awaited, 2: done by the workers.
        """
        first = max(0, self.recorded - self.capacity)
        return [_row(&self.spans[i % self.capacity]) for i in range(first, self.recorded)]

    cdef int put(self, Span span, object path) except -1:
        """Keep a span, in the place of the oldest if the ring is full."""
        cdef Span* place = &self.spans[self.recorded % self.capacity]
        cdef PyObject* old = place.path
        span.path = <PyObject*>path
        Py_INCREF(span.path)  # released when overwritten, or with the ring
        place[0] = span
        self.recorded += 1
        Py_XDECREF(old)
        return 0


cdef tuple _row(const Span* span):
    """Return a span as a tuple."""
    return (
        span.step, span.node, <object>span.path, span.iteration, span.begin, span.end, bool(span.dead),
        span.stream, span.bytes, span.iterations,
    )
