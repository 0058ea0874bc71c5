"""System calls for the threads of a pool: their cores, their time slices and their waits."""

from libc.stdint cimport int64_t, uint64_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from tagloom.kernels.core.clock cimport nanoseconds

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from *:
    """
    #ifdef __linux__
    #include <sched.h>
    #include <stdint.h>
    #include <sys/resource.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    /* Ask for long slices of a core, 20 ms. Linux (from 6.12) lets threads that ask for less, as the event loop's,
       run at once when they wake up; others ignore it. sched_setattr(2) has no wrapper in older C libraries. */
    static void tagloom_ask_for_long_slices(void) {
        struct {
            uint32_t size, policy;
            uint64_t flags;
            int32_t nice;
            uint32_t priority;
            uint64_t runtime, deadline, period;
        } attributes = {.size = 48, .nice = getpriority(PRIO_PROCESS, 0), .runtime = 20000000};
        syscall(SYS_sched_setattr, 0, &attributes, 0);
    }
    /* Return the core that this thread runs on. */
    static int tagloom_core(void) { return sched_getcpu(); }

    /* Move this thread to a core that is not among some, if it may run on one; it still may run on any afterwards. */
    static void tagloom_leave(const int *cores, int count) {
        cpu_set_t allowed, others;
        if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
            return;
        others = allowed;
        for (int i = 0; i < count; i++)
            if (cores[i] >= 0 && cores[i] < CPU_SETSIZE)
                CPU_CLR(cores[i], &others);
        if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0)
            sched_setaffinity(0, sizeof(allowed), &allowed);
    }
    #else
    static void tagloom_ask_for_long_slices(void) {}
    static int tagloom_core(void) { return -1; }
    static void tagloom_leave(const int *cores, int count) {}
    #endif

    static inline void *tagloom_look(void *const *place) {
    #if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
    #endif
        return *(void *const volatile *)place;
    }

    static inline void tagloom_note(uint64_t *place) { *(volatile uint64_t *)place = 1; }
    """
    void tagloom_ask_for_long_slices() noexcept nogil
    int tagloom_core() noexcept nogil
    void tagloom_leave(const int* cores, int count) noexcept nogil
    void* tagloom_look(void**) noexcept nogil  # afresh, at whatever another thread may write
    void tagloom_note(uint64_t*) noexcept nogil  # where another thread looks


cdef inline void look_for(void** place, int64_t time, bint politely) noexcept nogil:
    """Poll a place until it is not NULL, for some nanoseconds, because waking up from sleep takes longer.

    A polite caller yields its core to other threads between polls. The event loop's thread must not be polite: a thread
    that yields again and again is put at the end of the queue for a core when it has work to do.
    """
    cdef int64_t end = nanoseconds() + time
    while tagloom_look(place) == NULL and nanoseconds() < end:
        if politely:
            sched_yield()


cdef inline void deadline_in(double seconds, timespec* end) noexcept nogil:
    """Set `end` to the time of day in some seconds."""
    cdef int64_t total
    clock_gettime(CLOCK_REALTIME, end)
    total = end.tv_nsec + <int64_t>(1e9 * seconds)
    end.tv_sec += total // 1000000000
    end.tv_nsec = total % 1000000000
