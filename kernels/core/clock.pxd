"""The clock that costs, traces and deadlines are measured on."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef inline int64_t nanoseconds() noexcept nogil:
    """Return the time on the clock of ``time.monotonic_ns``."""
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return <int64_t>time.tv_sec * 1000000000 + time.tv_nsec


cdef inline double now() noexcept nogil:
    """Return the same time in seconds."""
    return 1e-9 * <double>nanoseconds()
