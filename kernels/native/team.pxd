"""Team of threads for the long works of one run."""

from libc.stdint cimport int64_t, uint64_t

from tagloom.kernels.core.table cimport Compute, Work

cdef enum:
    SHORTEST_SHARE = 6000  # nanoseconds of a part of a work that is shared, so that sharing does not matter


cdef struct Team:
    int64_t job  # a number for each work, how many parts it has, and which is next: 32, 16 and 16 bits
    int64_t done  # parts of it
    int64_t over  # whether helpers must stop
    int64_t left  # whether a helper has left, so that another slice would have more helpers
    int threads  # that the slice has, if all come
    Compute compute
    const void* arguments


cdef inline int most_shares(const Work* work) noexcept nogil:
    """Return the largest number of parts of a work for a team; 1 if cutting does not pay."""
    return <int>max(1, min(work.cost // SHORTEST_SHARE, <double>work.parts))


cdef uint64_t* shared_in(Compute* compute, uint64_t* arguments) noexcept nogil
cdef bint is_shared(Compute compute) noexcept nogil
cdef Compute share(Team* team, Compute compute, uint64_t* arguments, int parts, uint64_t* shared) noexcept nogil
cdef void do_together(Team* team, Compute compute, const void* arguments, int most_parts) noexcept nogil
cdef bint is_set(void** place) noexcept nogil
cdef void help_team(Team* team, void** queue) noexcept nogil
cdef void open_team(Team* team, int threads) noexcept nogil
cdef void close_team(Team* team) noexcept nogil
