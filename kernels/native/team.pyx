"""Long works of a run, computed by several threads together.

The step machine runs a slice of a run as work in several parts, each in a thread. The thread of part 0 walks over the
steps; the other threads are helpers, which compute parts of the work reached by the first thread. The first thread
takes parts as well, so it never waits for an absent helper. A helper leaves after a while without a part, or when other
work waits for its thread.

A work is cut into parts only if every bit of its results is independent of the number of parts.
"""

from libc.stdint cimport int64_t, uint64_t

from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.core.table cimport DECLINED, MOST_ARGUMENTS, RESULT, Compute

cdef extern from *:
    """
    #include <stdint.h>
    static inline int64_t tagloom_read(const int64_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }
    static inline void tagloom_set(int64_t *place, int64_t value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }
    static inline void tagloom_add(int64_t *place, int64_t more) { __atomic_fetch_add(place, more, __ATOMIC_ACQ_REL); }
    static inline int tagloom_replace(int64_t *place, int64_t old, int64_t value) {
        return __atomic_compare_exchange_n(place, &old, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    static inline void tagloom_pause(void) {
    #if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
    #endif
    }
    """
    int64_t tagloom_read(const int64_t*) noexcept nogil
    void tagloom_set(int64_t*, int64_t) noexcept nogil
    void tagloom_add(int64_t*, int64_t) noexcept nogil
    bint tagloom_replace(int64_t*, int64_t old, int64_t value) noexcept nogil
    void tagloom_pause() noexcept nogil

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    PATIENCE = 1000000  # nanoseconds for which a helper without a part looks for one
    SHARES = 2  # parts for each thread of a long work, so that a late helper still finds some
    MANY = 16  # a work is long if it could be cut into as many parts for each thread
    LOOKS = 1000  # looks at `done` between two yields of the core, which a helper in the middle of its part may need

cdef enum:  # the arguments of _do_shared, by index
    TEAM  # pointer to the Team
    COMPUTE  # function of the work
    ARGUMENTS  # pointer to the work's own arguments
    PARTS  # most parts of the work
    NUM_GIVEN  # number of these; only RESULT and DECLINED, written by _do_shared, are used after them

# For compiled code, in bytes: size of all arguments of _do_shared, size of the first NUM_GIVEN, offset of COMPUTE.
SHARED_LAYOUT = (sizeof(uint64_t) * MOST_ARGUMENTS, sizeof(uint64_t) * NUM_GIVEN, sizeof(uint64_t) * COMPUTE)


cdef Compute share(Team* team, Compute compute, uint64_t* arguments, int parts, uint64_t* shared) noexcept nogil:
    """Write to `shared` the arguments of a work shared by a team; return the function to call with them."""
    shared[TEAM], shared[COMPUTE] = <uint64_t>team, <uint64_t>compute
    shared[ARGUMENTS], shared[PARTS] = <uint64_t>arguments, parts
    return _do_shared


cdef uint64_t* shared_in(Compute* compute, uint64_t* arguments) noexcept nogil:
    """Return a work's own arguments, and set `compute` to its own function, whether a team shares the work or not."""
    if compute[0] == _do_shared:
        compute[0] = <Compute>arguments[COMPUTE]
        return <uint64_t*>arguments[ARGUMENTS]
    return arguments


cdef bint is_shared(Compute compute) noexcept nogil:
    """Return True if `compute` is the function of a work shared by a team."""
    return compute == _do_shared


cdef void _do_shared(const void* shared, int part, int parts) noexcept nogil:
    cdef uint64_t* given = <uint64_t*>shared
    cdef uint64_t* arguments = <uint64_t*>given[ARGUMENTS]
    do_together(<Team*>given[TEAM], <Compute>given[COMPUTE], arguments, <int>given[PARTS])
    given[DECLINED], given[RESULT] = arguments[DECLINED], arguments[RESULT]


cdef void do_together(Team* team, Compute compute, const void* arguments, int most_parts) noexcept nogil:
    """Compute a work together with the helpers present; return when all parts are done.

    A long work has SHARES parts for each thread; a short work has a single part for each thread, since parts have a
    cost.
    """
    cdef int64_t parts = min(team.threads * (SHARES if most_parts >= MANY * team.threads else 1), most_parts)
    cdef int looks = 0
    if team.threads <= 1 or parts == 1:
        compute(arguments, 0, 1)
        return
    team.compute, team.arguments = compute, arguments
    tagloom_set(&team.done, 0)
    # Last, because helpers that see the new job read the fields set above. Bits: number of the work, parts, next part.
    tagloom_set(&team.job, ((team.job >> 32) + 1 & 0x7FFFFFFF) << 32 | parts << 16)
    while _do_part(team):
        pass
    while tagloom_read(&team.done) < parts:
        looks += 1
        if looks % LOOKS:
            tagloom_pause()
        else:
            sched_yield()


cdef bint _do_part(Team* team) noexcept nogil:
    """Take and compute the next part of the job; return False if no part is left."""
    cdef int64_t job = tagloom_read(&team.job)
    cdef int64_t part = job & 0xFFFF
    cdef int64_t parts = job >> 16 & 0xFFFF
    if part >= parts:
        return False
    # Unless another thread has taken the part meanwhile, or the job has ended: its number would differ. The fields of
    # the team then stay as they are until this part is done, because the first thread waits for it.
    if tagloom_replace(&team.job, job, job + 1):
        team.compute(team.arguments, <int>part, <int>parts)
        tagloom_add(&team.done, 1)
    return True


cdef bint is_set(void** place) noexcept nogil:
    """Return True if a word written by other threads, such as a pointer to waiting work, is not 0."""
    return tagloom_read(<const int64_t*>place) != 0


cdef void help_team(Team* team, void** queue) noexcept nogil:
    """Compute parts until there is none for PATIENCE, the slice is over, or other work waits in `queue`."""
    cdef int64_t end = nanoseconds() + PATIENCE
    while not tagloom_read(&team.over) and (queue == NULL or not is_set(queue)):
        if _do_part(team):
            end = nanoseconds() + PATIENCE
        elif nanoseconds() > end:
            break
        else:
            tagloom_pause()
    tagloom_set(&team.left, 1)


cdef void open_team(Team* team, int threads) noexcept nogil:
    """Begin a slice in `threads` threads, if all come; the caller has reset `over` before any helper may run."""
    team.threads, team.left = threads, 0


cdef void close_team(Team* team) noexcept nogil:
    """End a slice and dismiss the helpers."""
    team.threads = 1
    tagloom_set(&team.over, 1)
