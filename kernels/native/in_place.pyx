"""Rows of series and TensorArrays that steps see where they lie, so that nobody copies them.

A row that is read is copied to memory that stays where it is, since the steps have addresses in them; one that is
written is copied from there. Where it is known of all steps that see such memory where the address stands, the step that
reads puts the address of the row there instead, and one that writes does so in front of the step that computes the row.
Rows that a sum of products gathers are computed among those gathered: the step that adds some says where the next are.

A row that is read must not be written to: what was saved would change, and a run may give up and be done again.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from numpy cimport import_array, npy_intp

from tagflow.kernels.core.table cimport Compute
from tagflow.kernels.core.values cimport OBJECT
from tagflow.kernels.cpu.arrays cimport ArrayObject, PyArray_CheckExact, PyArray_DATA, PyArray_NBYTES, array_in
from tagflow.kernels.cpu.concat_transpose cimport seen_by_concat
from tagflow.kernels.cpu.fused_works cimport seen_by_fused
from tagflow.kernels.cpu.linear cimport Product, is_small, product_in, seen_by_product
from tagflow.kernels.cpu.reducing cimport seen_by_reduction
from tagflow.kernels.cpu.seen cimport Seen
from tagflow.kernels.native.run cimport (
    ADD_ROWS, APPLY, CALL, COPY, COPY_8, END, GO, GO_TO, MOST_OPERANDS, PUSH_ROW, READ_ROW, WORK, WORK_TO, Place, Register,
    Run, Step, most_value_bytes, type_of,
)
from tagflow.kernels.native.sums cimport are_gathered, point_to_next
from tagflow.kernels.native.team cimport shared_in
from tagflow.kernels.native.tensor_arrays cimport FROM_ROW, TO_ROW, transfer_in

import_array()

cdef enum:
    MOST_SEEN = 128  # by a step
    WIDEST_ELEMENT = 16  # bytes


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


cdef int place_rows(Run run) except -1:
    """Have steps see rows where these lie, as far as that is known to be right."""
    cdef Sights sights
    cdef int i
    if not _any_long_rows(run):
        return 0
    sights.count, sights.capacity = 0, 0
    sights.all = NULL
    try:
        _see_all(run, &sights)
        for i in range(run.num_steps):
            if _copies(run, i, FROM_ROW):
                _read_in_place(run, i, &sights)
        for i in range(run.num_steps):
            if _copies(run, i, TO_ROW):
                _write_in_place(run, i, &sights)
        for i in range(run.num_steps):
            if _gathers(&run.steps[i]):
                _gather_in_place(run, i, &sights)
        for i in range(run.num_steps):
            if run.steps[i].in_place:
                _note_places(run, i, &sights)
    finally:
        free(sights.all)
    return 0


cdef bint _any_long_rows(Run run) noexcept:
    cdef int i
    for i in range(run.num_steps):
        if _copies(run, i, FROM_ROW) or _copies(run, i, TO_ROW) or _gathers(&run.steps[i]):
            return True
    return False


cdef inline bint _copies(Run run, int i, int transfer) noexcept:
    """Say whether a step copies a long row from, or to, where it lies."""
    cdef const Step* step = &run.steps[i]
    if step.in_place or step.count <= most_value_bytes:
        return False
    if step.code == CALL:
        return transfer_in(step) == transfer
    return step.code == (READ_ROW if transfer == FROM_ROW else PUSH_ROW)


cdef inline bint _gathers(const Step* step) noexcept:
    """Say whether a step copies long rows of what is the second factor of a sum of products."""
    return step.code == ADD_ROWS and <size_t>step.strides[2] > most_value_bytes and are_gathered(step)


cdef inline char* _begin_of(const Step* step) noexcept nogil:
    """Return the memory that a step would copy a row to, or from."""
    return step.operands[2 if step.code == ADD_ROWS else 1]


cdef inline size_t _size_of(const Step* step) noexcept nogil:
    """Return the bytes of that."""
    return step.strides[2] if step.code == ADD_ROWS else step.count


# What steps see


cdef int _see(Sights* sights, int step, int operand, Seen seen) except -1:
    """Note that a step sees some memory."""
    cdef Sight* grown
    if seen.address == NULL or seen.size == 0:
        return 0
    if sights.count == sights.capacity:
        sights.capacity = 2 * sights.capacity + 64
        grown = <Sight*>malloc(sights.capacity * sizeof(Sight))
        if grown == NULL:
            raise MemoryError()
        memcpy(grown, sights.all, sights.count * sizeof(Sight))
        free(sights.all)
        sights.all = grown
    sights.all[sights.count] = Sight(
        seen.address, seen.address + seen.size, step, operand, seen.place, seen.count, seen.writes, -1)
    sights.count += 1
    return 0


cdef inline Seen _all_of(char* address, size_t size, bint writes) noexcept:
    return Seen(address, NULL, size, size, writes)


cdef int _see_all(Run run, Sights* sights) except -1:
    """Note what memory which steps see, and the run itself when it is over."""
    cdef Register* register
    cdef ArrayObject* array
    cdef int i
    for i in range(run.num_steps):
        _see_step(run, i, sights)
    for i in range(run.program.num_outputs):
        register = &run.registers[run.program.outputs[i]]
        if register.value.form == OBJECT and PyArray_CheckExact(array_in(register.value)):
            array = array_in(register.value)
            _see(sights, -1, -1, _all_of(<char*>PyArray_DATA(array), PyArray_NBYTES(array), True))
    return 0


cdef int _see_step(Run run, int i, Sights* sights) except -1:
    """Note what memory a step sees."""
    cdef const Step* step = &run.steps[i]
    if step.code == WORK or step.code == WORK_TO:
        _see_work(run, i, sights)
    elif step.code == APPLY:
        _see_loop(run, i, sights)
    elif step.code == COPY or step.code == COPY_8:
        _see(sights, i, 0, _all_of(step.operands[0], step.count, True))
        _see(sights, i, 1, _all_of(step.operands[1], step.count, False))
    elif step.code == ADD_ROWS or PUSH_ROW <= step.code <= CALL:
        _see_row(run, i, sights)
    elif step.code < GO or step.code > GO_TO:
        _see(sights, i, 0, _all_of(step.operands[0], max(sizeof(uint64_t), step.count * step.strides[0]), True))
    return 0


cdef int _see_row(Run run, int i, Sights* sights) except -1:
    """Note what a step sees that copies rows: what it copies is looked for when it is its turn."""
    cdef const Step* step = &run.steps[i]
    cdef bint is_known = step.code != CALL or _copies(run, i, FROM_ROW) or _copies(run, i, TO_ROW)
    is_known = is_known and (step.code != ADD_ROWS or are_gathered(step))
    cdef bint writes = step.code == READ_ROW or _copies(run, i, FROM_ROW)
    cdef int k
    for k in range(1, MOST_OPERANDS):
        _see(sights, i, k if is_known else -1,
             _all_of(step.operands[k], step.strides[k], writes and k == 1 or not is_known))
    return 0


cdef int _see_loop(Run run, int i, Sights* sights) except -1:
    """Note what an inner loop sees; the last operand is the result."""
    cdef const Step* step = &run.steps[i]
    cdef npy_intp first, last
    cdef int count = MOST_OPERANDS
    cdef int k
    while count > 0 and step.operands[count - 1] == NULL:
        count -= 1
    for k in range(count):
        last = max(step.count - 1, <npy_intp>0) * step.strides[k]
        first, last = min(last, <npy_intp>0), max(last, <npy_intp>0)
        _see(sights, i, k, _all_of(step.operands[k] + first, last - first + _element(step, k), k == count - 1))
    return 0


cdef inline size_t _element(const Step* step, int k) noexcept:
    """Return the bytes of an element of an operand; where nobody knows, those between two, or many."""
    return min(abs(step.strides[k]), <npy_intp>WIDEST_ELEMENT) if step.strides[k] else WIDEST_ELEMENT


cdef int _see_work(Run run, int i, Sights* sights) except -1:
    """Note what a work sees, if it is one that says so; all memory of the others' arrays is noted where they are kept."""
    cdef Seen seen[MOST_SEEN]
    cdef Compute compute = run.steps[i].compute
    cdef uint64_t* arguments = shared_in(&compute, run.steps[i].arguments)
    cdef int count = seen_by_product(compute, arguments, seen)
    cdef int k
    if count < 0:
        count = seen_by_fused(compute, arguments, seen, MOST_SEEN)
    if count < 0:
        count = seen_by_concat(compute, arguments, seen, MOST_SEEN)
    if count < 0:
        count = seen_by_reduction(compute, arguments, seen)
    if run.steps[i].code == WORK_TO:
        _see(sights, i, 0, _all_of(run.steps[i].operands[0], sizeof(uint64_t), True))
    for k in range(count):
        _see(sights, i, -1, seen[k])
    if is_small(product_in(compute, arguments)):
        _see_small_product(run, i, <const Product*>arguments, sights)
    for low, high, step in run.opaque if count < 0 else ():
        if step == i:
            _see(sights, i, -1, _all_of(<char*><uint64_t>low, <uint64_t>high - <uint64_t>low, True))
    return 0


cdef int _see_small_product(Run run, int i, const Product* p, Sights* sights) except -1:
    """Note what is multiplied in line, at addresses that compiled code looks up once."""
    cdef size_t size = type_of(run, run.program.instructions[run.steps[i].instruction].inputs[1]).itemsize
    _see(sights, i, -1, _all_of(<char*>p.a.data, size * p.rows * p.inner, False))
    _see(sights, i, -1, _all_of(<char*>p.b.data, size * p.inner * p.columns, False))
    _see(sights, i, -1, _all_of(<char*>p.data, size * p.rows * p.columns, True))
    _see(sights, i, -1, _all_of(<char*>p.total, size * p.rows * p.columns, False))
    return 0


# Rows in place


cdef inline bint _is_seen(const Sight* sight, const char* low, const char* high) noexcept nogil:
    return sight.low < high and low < sight.high


cdef inline bint _is_movable(const Sight* sight, const char* low, const char* high) noexcept nogil:
    """Say whether memory within some other can be seen elsewhere."""
    return low <= sight.low and sight.high <= high and sight.row < 0 and (sight.operand >= 0 or sight.place != NULL)


cdef int _read_in_place(Run run, int i, Sights* sights) except -1:
    """Have a row that is read be seen where it lies, if nobody else writes to the memory that it is copied to."""
    cdef Step* step = &run.steps[i]
    cdef char* low = step.operands[1]
    cdef char* high = low + step.count
    cdef Sight* sight
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if sight.step == i and sight.operand == 1:
            continue
        if _is_seen(sight, low, high) and (sight.writes or not _is_movable(sight, low, high)):
            return 0
    _place(run, i, sights)
    return 0


cdef int _write_in_place(Run run, int i, Sights* sights) except -1:
    """Have a row be computed where it is to be, if it is known what does that, and when."""
    cdef Step* step = &run.steps[i]
    cdef char* low = step.operands[1]
    cdef char* high = low + step.count
    cdef Sight* sight
    cdef size_t made = 0
    cdef int maker = -1
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if not _is_seen(sight, low, high):
            continue
        if not _is_movable(sight, low, high) or sight.writes and maker not in (-1, sight.step):
            return 0
        if sight.writes:
            maker, made = sight.step, made + sight.count
    if made != <size_t>step.count or maker >= i or not _may_come_first(run, i, maker, sights):
        return 0
    _move_up(run, i, maker, sights)
    _place(run, maker, sights)
    return 0


cdef bint _may_come_first(Run run, int i, int maker, const Sights* sights) noexcept:
    """Say whether a step that writes a row may find it in front of the step that computes it.

    Both are done as often, nothing between them changes which row it is, or looks at rows.
    """
    cdef const Step* step = &run.steps[i]
    cdef const Sight* sight
    cdef int k
    if not _are_straight(run, maker, i):
        return False
    for k in range(maker, i):
        if run.steps[k].code == CALL:
            return False
    for k in range(sights.count):
        sight = &sights.all[k]
        if maker <= sight.step < i and sight.writes and (
                _is_seen(sight, step.operands[2], step.operands[2] + step.strides[2])
                or _is_seen(sight, step.operands[3], step.operands[3] + step.strides[3])):
            return False
    return True


cdef bint _are_straight(Run run, int first, int last) noexcept:
    """Say whether steps are only done one after the other, from the first to the last."""
    cdef int k, j
    for k in range(first, last):
        if GO <= run.steps[k].code <= GO_TO or run.steps[k].code == END:
            return False
    for k in range(run.num_steps):
        if GO <= run.steps[k].code <= GO_TO and first < run.steps[k].target <= last:
            return False
        for j in range(run.steps[k].num_targets):
            if first < run.steps[k].targets[j] <= last:
                return False
    return True


cdef int _gather_in_place(Run run, int i, Sights* sights) except -1:
    """Have rows be computed where a sum gathers them, if one step does that and nobody looks at them behind the sum."""
    cdef Step* step = &run.steps[i]
    cdef char* low = _begin_of(step)
    cdef char* high = low + _size_of(step)
    cdef Sight* sight
    cdef size_t made = 0
    cdef int maker = -1
    cdef int first = i
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if not _is_seen(sight, low, high):
            continue
        if not _is_movable(sight, low, high) or sight.step > i or sight.writes and maker not in (-1, sight.step):
            return 0
        if sight.writes:
            maker, made = sight.step, made + sight.count
        else:
            first = min(first, sight.step)
    if made == _size_of(step) and 0 <= maker < first and _are_straight(run, maker, i):
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
    """Return where a step is once step `i` has moved up."""
    return to if step == i else step + 1 if to <= step < i else step


cdef int _place(Run run, int i, Sights* sights) noexcept:
    """Have a step say where the row is to all that see the memory it would be copied to, or from."""
    cdef Step* step = &run.steps[i]
    cdef char* low = _begin_of(step)
    cdef Sight* sight
    cdef int k
    step.in_place = True
    for k in range(sights.count):
        sight = &sights.all[k]
        if _is_seen(sight, low, low + _size_of(step)) and (sight.step != i or sight.operand != 1 or step.code == ADD_ROWS):
            sight.row = i
            step.num_places += 1
    return 0


cdef int _note_places(Run run, int i, const Sights* sights) except -1:
    """Note where the addresses stand of what sees a row, now that all steps are where they stay."""
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
        place.offset, place.at = sight.low - low, sight.place
        if sight.operand >= 0:
            run.steps[sight.step].moving |= 1 << sight.operand
            place.at = &run.steps[sight.step].operands[sight.operand]
        place += 1
    if step.code == ADD_ROWS:
        point_to_next(step)
    return 0
