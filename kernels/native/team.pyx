"""Long works of a run, done by several threads at once.

A slice of a run is work in several parts. The first walks over the steps, the others are helpers: they look for parts of
the work that the first is at. Nobody waits for a helper that did not come: a part that none has taken is done by the
first thread itself, and a helper that finds nothing for a while, or sees that other work waits, leaves.

Works are cut only where no bit of the results depends on that.
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
    PATIENCE = 1000000  # nanoseconds that a helper looks for something to do
    SHARES = 2  # parts for each thread of a long work, so that one that comes late finds some
    MANY = 16  # parts for each thread that a long work could be cut into
    LOOKS = 1000  # before whoever wants the core goes first

cdef enum:  # arguments of a work that is shared
    TEAM
    COMPUTE
    ARGUMENTS
    PARTS
    NUM_GIVEN  # here; what the work says comes behind

# Of the arguments of a work that is shared: their size, that of what is given, and where the function lies, in bytes.
SHARED_LAYOUT = (sizeof(uint64_t) * MOST_ARGUMENTS, sizeof(uint64_t) * NUM_GIVEN, sizeof(uint64_t) * COMPUTE)


cdef Compute share(Team* team, Compute compute, uint64_t* arguments, int parts, uint64_t* shared) noexcept nogil:
    """Describe in `shared` a work that a team shares; return the function that does it."""
    shared[TEAM], shared[COMPUTE] = <uint64_t>team, <uint64_t>compute
    shared[ARGUMENTS], shared[PARTS] = <uint64_t>arguments, parts
    return _do_shared


cdef uint64_t* shared_in(Compute* compute, uint64_t* arguments) noexcept nogil:
    """Return the arguments of a work, and which it is, as they are where nobody shares it."""
    if compute[0] == _do_shared:
        compute[0] = <Compute>arguments[COMPUTE]
        return <uint64_t*>arguments[ARGUMENTS]
    return arguments


cdef bint is_shared(Compute compute) noexcept nogil:
    """Say whether a work is shared."""
    return compute == _do_shared


cdef void _do_shared(const void* shared, int part, int parts) noexcept nogil:
    cdef uint64_t* given = <uint64_t*>shared
    cdef uint64_t* arguments = <uint64_t*>given[ARGUMENTS]
    do_together(<Team*>given[TEAM], <Compute>given[COMPUTE], arguments, <int>given[PARTS])
    given[DECLINED], given[RESULT] = arguments[DECLINED], arguments[RESULT]


cdef void do_together(Team* team, Compute compute, const void* arguments, int most_parts) noexcept nogil:
    """Do a work, with the help of those who are there: what is short in as few parts as keep all of them busy."""
    cdef int64_t parts = min(team.threads * (SHARES if most_parts >= MANY * team.threads else 1), most_parts)
    cdef int looks = 0
    if team.threads <= 1 or parts == 1:
        compute(arguments, 0, 1)
        return
    team.compute, team.arguments = compute, arguments
    tagloom_set(&team.done, 0)
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
    """Take a part of the work, if one is left, and do it."""
    cdef int64_t job = tagloom_read(&team.job)
    cdef int64_t part = job & 0xFFFF
    cdef int64_t parts = job >> 16 & 0xFFFF
    if part >= parts:
        return False
    if tagloom_replace(&team.job, job, job + 1):  # no other work comes before this part is done
        team.compute(team.arguments, <int>part, <int>parts)
        tagloom_add(&team.done, 1)
    return True


cdef bint is_set(void** place) noexcept nogil:
    """Say whether something other than 0 is at a place where another thread may write it."""
    return tagloom_read(<const int64_t*>place) != 0


cdef void help_team(Team* team, void** queue) noexcept nogil:
    """Do parts until there are none for a while, the slice is over, or other work waits in the queue."""
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
    """Begin a slice."""
    team.threads, team.left = threads, 0


cdef void close_team(Team* team) noexcept nogil:
    """End a slice, and let the helpers go."""
    team.threads = 1
    tagloom_set(&team.over, 1)
