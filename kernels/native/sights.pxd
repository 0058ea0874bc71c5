"""Memory accessed by the steps of a run, and the places of its addresses."""

from tagloom.kernels.native.run cimport Run, Step

cdef struct Sight:  # an access of a step to memory
    char* low
    char* high
    int step  # -1: of the run
    int operand  # -1: the address stands at `place`
    char** place  # place of the address; NULL if it is an operand, or unknown
    size_t count  # bytes in between that it accesses
    bint writes
    int row  # step that sets the address of the row with this memory, or -1


cdef struct Sights:
    Sight* all
    int count
    int capacity


cdef int see_all(Run run, Sights* sights) except -1
cdef bint copies_row(const Step* step, int transfer) noexcept nogil
cdef bint is_made_before(Run run, int i, const Sights* sights, char* low, size_t size) noexcept


cdef inline bint is_seen(const Sight* sight, const char* low, const char* high) noexcept nogil:
    return sight.low < high and low < sight.high


cdef inline bint is_movable(const Sight* sight, const char* low, const char* high) noexcept nogil:
    """Return True if an access to memory within other memory can be moved elsewhere."""
    return low <= sight.low and sight.high <= high and sight.row < 0 and (sight.operand >= 0 or sight.place != NULL)


cdef inline char** place_of_sight(Run run, const Sight* sight) noexcept:
    """Return the place of the address of a movable access, and note that it moves."""
    if sight.operand < 0:
        return sight.place
    run.steps[sight.step].moving |= 1 << sight.operand
    return &run.steps[sight.step].operands[sight.operand]
