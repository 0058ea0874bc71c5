"""Rows of series, TensorArrays and arrays in the places where steps access them without a copy.

Steps contain addresses, so a row is copied to memory at a fixed address to be read, and from there to be written.
Where the addresses are known of all steps with access to such memory, the step reading a row replaces them by the row's
address instead, and the step writing a row does so before the computation of the row. Rows gathered by a sum of
products are computed in the buffers of the sum: the step adding rows sets the address of the next rows.

A row to be read must not be written to: saved values would change, and a run may give up and be repeated.
"""

from libc.stdlib cimport free
from numpy cimport import_array, npy_intp

from tagloom.kernels.native.exchanging cimport exchange_variables
from tagloom.kernels.native.parts cimport is_part
from tagloom.kernels.native.run cimport ADD_ROWS, CALL, COPY, Place, Run, Step, are_straight, most_value_bytes
from tagloom.kernels.native.sights cimport (
    Sight, Sights, copies_row, is_made_before, is_movable, is_seen, place_of_sight, see_all,
)
from tagloom.kernels.native.sums cimport are_gathered, change_factors, point_to_next
from tagloom.kernels.native.element_access cimport FROM_ROW, TO_ROW

import_array()


cdef int place_rows(Run run) except -1:
    """Make steps access rows in place, and exchange variables, where this is known to be right."""
    cdef Sights sights
    cdef int i
    if not _any_copied(run):
        return 0
    sights.count, sights.capacity = 0, 0
    sights.all = NULL
    try:
        see_all(run, &sights)
        for i in range(run.num_steps):
            if copies_row(&run.steps[i], FROM_ROW):
                _read_in_place(run, i, &sights)
        for i in range(run.num_steps):
            if copies_row(&run.steps[i], TO_ROW):
                _write_in_place(run, i, &sights)
        for i in range(run.num_steps):
            if _gathers(&run.steps[i]):
                _gather_either(run, i, &sights)
        for i in range(run.num_steps):
            if run.steps[i].in_place:
                _note_places(run, i, &sights)
        if not run.has_homes:
            exchange_variables(run, &sights)
    finally:
        free(sights.all)
    return 0


cdef bint _any_copied(Run run) noexcept:
    """Return True if a step copies many bytes which could be accessed, or computed, in place."""
    cdef const Step* step
    cdef int i
    for i in range(run.num_steps):
        step = &run.steps[i]
        if copies_row(step, FROM_ROW) or copies_row(step, TO_ROW) or _gathers(step):
            return True
        if step.code == COPY and step.count > most_value_bytes:
            return True
    return False


cdef inline bint _gathers(const Step* step) noexcept:
    """Return True if a step copies long rows of a factor of a sum of products."""
    cdef npy_intp size = max(step.strides[1], step.strides[2])
    return step.code == ADD_ROWS and size > most_value_bytes and are_gathered(step)


cdef inline char* _begin_of(const Step* step) noexcept nogil:
    """Return the target, or source, of a step's copy of a row."""
    return step.operands[2 if step.code == ADD_ROWS else 1]


cdef inline size_t _size_of(const Step* step) noexcept nogil:
    """Return the bytes of a step's row, or of its rows in a factor."""
    return step.strides[2] if step.code == ADD_ROWS else step.count


cdef int _read_in_place(Run run, int i, Sights* sights) except -1:
    """Make steps access a row in place, if no other step writes to the memory of its copy."""
    cdef Step* step = &run.steps[i]
    cdef char* low = step.operands[1]
    cdef char* high = low + step.count
    cdef Sight* sight
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if sight.step == i and sight.operand == 1:
            continue
        if is_seen(sight, low, high) and (sight.writes or not is_movable(sight, low, high)):
            return 0
    _place(run, i, sights)
    return 0


cdef int _write_in_place(Run run, int i, Sights* sights) except -1:
    """Compute a row in place, if the step with its computation is known, and the time."""
    cdef Step* step = &run.steps[i]
    cdef char* low = step.operands[1]
    cdef char* high = low + step.count
    cdef Sight* sight
    cdef size_t made = 0
    cdef int maker = -1
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if not is_seen(sight, low, high):
            continue
        if not is_movable(sight, low, high) or sight.writes and maker not in (-1, sight.step):
            return 0
        if sight.writes:
            maker, made = sight.step, made + sight.count
    if made != <size_t>step.count or maker >= i or not _may_come_first(run, i, maker, sights):
        return 0
    _move_up(run, i, maker, sights)
    _place(run, maker, sights)
    return 0


cdef bint _may_come_first(Run run, int i, int maker, const Sights* sights) noexcept:
    """Return True if the step writing a row may choose the place before the step computing the row.

    Both run equally often, and no step between them changes the choice of the row, or reads rows.
    """
    cdef const Step* step = &run.steps[i]
    cdef const Sight* sight
    cdef int k
    if not are_straight(run, maker, i):
        return False
    for k in range(maker, i):
        if run.steps[k].code == CALL and not is_part(&run.steps[k]):
            return False
    for k in range(sights.count):
        sight = &sights.all[k]
        if maker <= sight.step < i and sight.writes and (
                is_seen(sight, step.operands[2], step.operands[2] + step.strides[2])
                or is_seen(sight, step.operands[3], step.operands[3] + step.strides[3])):
            return False
    return True


cdef int _gather_either(Run run, int i, Sights* sights) except -1:
    """Compute the rows of a factor in place among a sum's gathered rows: of the larger factor, if possible.
    """
    cdef Step* step = &run.steps[i]
    cdef int tries = 0
    if step.strides[1] > step.strides[2]:
        _change_factors(step, i, sights)
    while tries < 2 and not step.in_place:
        if step.strides[2] > most_value_bytes:
            _gather_in_place(run, i, sights)
        if not step.in_place:
            _change_factors(step, i, sights)
        tries += 1
    return 0


cdef int _change_factors(Step* step, int i, Sights* sights) noexcept:
    """Exchange the factors of a sum, operands 1 and 2."""
    cdef int k
    change_factors(step)
    for k in range(sights.count):
        if sights.all[k].step == i and 1 <= sights.all[k].operand <= 2:
            sights.all[k].operand = 3 - sights.all[k].operand
    return 0


cdef int _gather_in_place(Run run, int i, Sights* sights) except -1:
    """Compute rows in place among a sum's gathered rows, if a single step does so and none reads them after the sum."""
    cdef const Step* step = &run.steps[i]
    if is_made_before(run, i, sights, _begin_of(step), _size_of(step)):
        _place(run, i, sights)
    return 0


cdef int _move_up(Run run, int i, int to, Sights* sights) noexcept:
    """Move a step to the front of others."""
    cdef Step moved = run.steps[i]
    cdef int k
    for k in range(i, to, -1):
        run.steps[k] = run.steps[k - 1]
    run.steps[to] = moved
    for k in range(sights.count):
        sights.all[k].step = _moved(sights.all[k].step, i, to)
        sights.all[k].row = _moved(sights.all[k].row, i, to)
    return 0


cdef inline int _moved(int step, int i, int to) noexcept:
    """Return the number of a step once step `i` has moved up."""
    return to if step == i else step + 1 if to <= step < i else step


cdef int _place(Run run, int i, Sights* sights) noexcept:
    """Make a step set the address of the row in all steps with access to the memory of its copy."""
    cdef Step* step = &run.steps[i]
    cdef char* low = _begin_of(step)
    cdef Sight* sight
    cdef int k
    step.in_place = True
    for k in range(sights.count):
        sight = &sights.all[k]
        if is_seen(sight, low, low + _size_of(step)) and (sight.step != i or sight.operand != 1 or step.code == ADD_ROWS):
            sight.row = i
            step.num_places += 1
    return 0


cdef int _note_places(Run run, int i, const Sights* sights) except -1:
    """Note the places of addresses with which steps access a row; all steps must have their final numbers."""
    cdef Step* step = &run.steps[i]
    cdef const Sight* sight
    cdef Place* place
    cdef char* low = _begin_of(step)
    cdef int k
    step.places = place = <Place*>run.arena.take(step.num_places, sizeof(Place))
    for k in range(sights.count):
        sight = &sights.all[k]
        if sight.row != i:
            continue
        place.at = place_of_sight(run, sight)
        place.offset = place.at[0] - low
        place += 1
    if step.code == ADD_ROWS:
        point_to_next(step)
    return 0
