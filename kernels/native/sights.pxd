"""What memory the steps of a run see, and where the addresses stand."""

from tagloom.kernels.native.run cimport Run, Step

cdef struct Sight:  # that a step sees memory
    char* low
    char* high
    int step  # -1: of the run
    int operand  # -1: the address stands at `place`
    char** place  # NULL if it is an operand, or nobody knows where it stands
    size_t count  # bytes in between that it sees
    bint writes
    int row  # step that says where the row lies in which this is, or -1


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
    """Say whether memory within some other can be seen elsewhere."""
    return low <= sight.low and sight.high <= high and sight.row < 0 and (sight.operand >= 0 or sight.place != NULL)


cdef inline char** place_of_sight(Run run, const Sight* sight) noexcept:
    """Return where the address stands of memory that can be seen elsewhere, and note that it moves."""
    if sight.operand < 0:
        return sight.place
    run.steps[sight.step].moving |= 1 << sight.operand
    return &run.steps[sight.step].operands[sight.operand]
