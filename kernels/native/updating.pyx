"""Updates of loop variables in place: a slice added to a sum, rows put into a tensor.

A kernel that changes a part of an array makes another array, which the loop variable takes at the end of the iteration:
a copy of the whole array in the kernel, and one for the variable. Where no step sees the array in between, the kernel
changes the memory of the variable, and an iteration takes time by the size of the part.
"""

from libc.stdlib cimport free
from libc.string cimport memset

from tagloom.kernels.cpu.index_vectors cimport update_rows_in_place
from tagloom.kernels.cpu.slice_sums cimport update_slice_in_place
from tagloom.kernels.native.run cimport CALL, COPY, WORK, YES, Run, Step, Verdict, are_straight, most_value_bytes
from tagloom.kernels.native.sights cimport Sight, Sights, is_seen, see_all


cdef int update_in_place(Run run) except -1:
    """Make works change the memory of loop variables where this is known to be right."""
    cdef Sights sights
    cdef int i, maker
    if not _any_long_copy(run):
        return 0
    sights.count, sights.capacity = 0, 0
    sights.all = NULL
    try:
        see_all(run, &sights)
        for i in range(run.num_steps):
            if not _is_long_copy(&run.steps[i]):
                continue
            maker = _maker_of(run, i, &sights)
            if maker >= 0 and _join(run, maker, run.steps[i].operands[0], run.steps[i].operands[1]):
                _clear(&run.steps[i])
    finally:
        free(sights.all)
    return 0


cdef bint _any_long_copy(Run run) noexcept:
    cdef int i
    for i in range(run.num_steps):
        if _is_long_copy(&run.steps[i]):
            return True
    return False


cdef inline bint _is_long_copy(const Step* step) noexcept:
    """Return True for copies of more bytes than a value of compiled code, which has no address there."""
    return step.code == COPY and step.count > most_value_bytes


cdef int _maker_of(Run run, int i, const Sights* sights) noexcept:
    """Return the work that alone computes the value which step `i` copies to a variable; -1 if it must not be in place.

    The variable then has the new value from this work on instead of from the copy, so that no step in between may see
    the variable, and none at all the memory of the value.
    """
    cdef const Step* copy = &run.steps[i]
    cdef char* variable = copy.operands[0]
    cdef char* value = copy.operands[1]
    cdef const Sight* sight
    cdef int maker = -1
    cdef int reads = 0  # of the variable by the maker: of the whole alone, and not of a part that it may have changed
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if sight.step == i or not is_seen(sight, value, value + copy.count):
            continue
        if not sight.writes or maker not in (-1, sight.step):
            return -1
        maker = sight.step
    if maker < 0 or maker >= i or run.steps[maker].code != WORK or not are_straight(run, maker, i):
        return -1
    for k in range(sights.count):
        sight = &sights.all[k]
        if maker <= sight.step < i and is_seen(sight, variable, variable + copy.count):
            reads += 1
            if sight.step != maker or sight.writes:
                return -1
    return maker if reads == 1 else -1


cdef bint _join(Run run, int maker, const char* variable, const char* value) noexcept:
    """Make an update of a variable change the variable in place; return False for other works."""
    cdef const Step* step = &run.steps[maker]
    return update_slice_in_place(step.compute, step.arguments, variable, value) or update_rows_in_place(
        step.compute, step.arguments, variable, value)


cdef void _clear(Step* step) noexcept:
    """Turn a step into one without effects, at the same number for jumps."""
    step.code, step.act, step.count = CALL, _do_nothing, 0
    memset(step.operands, 0, sizeof(step.operands))
    memset(step.strides, 0, sizeof(step.strides))


cdef Verdict _do_nothing(const Step* step) noexcept nogil:
    return YES
