"""Accesses of a run's steps to memory, and the variables with the addresses.

A Sight is the access of a step to a range of memory. If the variable with the address is known for every access to a
range, all these steps can be redirected to other memory by writing another address there: see in_place.pyx and
exchanging.pyx. An access whose address stands in an unknown variable must stay where it is, as must whatever overlaps
its memory; in doubt an access counts as a write.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from numpy cimport import_array, npy_intp

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.core.values cimport OBJECT
from tagloom.kernels.cpu.arrays cimport ArrayObject, PyArray_CheckExact, PyArray_DATA, PyArray_NBYTES, array_in
from tagloom.kernels.cpu.concat_transpose cimport seen_by_concat
from tagloom.kernels.cpu.fused_works cimport seen_by_fused
from tagloom.kernels.cpu.index_vectors cimport seen_by_row_update
from tagloom.kernels.cpu.linear cimport Product, is_small, product_in, seen_by_product
from tagloom.kernels.cpu.reducing cimport seen_by_reduction
from tagloom.kernels.cpu.seen cimport Seen
from tagloom.kernels.cpu.slice_sums cimport seen_by_slice_sum
from tagloom.kernels.native.parts cimport is_part
from tagloom.kernels.native.run cimport (
    ADD_ROWS, APPLY, CALL, COPY, COPY_8, GO, GO_TO, MOST_OPERANDS, PUSH_ROW, READ_ROW, WORK, WORK_TO, Register, Run, Step,
    are_straight, most_value_bytes, type_of,
)
from tagloom.kernels.native.sums cimport are_gathered
from tagloom.kernels.native.team cimport shared_in
from tagloom.kernels.native.element_access cimport FROM_ROW, TO_ROW, transfer_in

import_array()

cdef enum:
    MOST_SEEN = 128  # accesses of a work; one with more counts as a work that does not describe its accesses
    WIDEST_ELEMENT = 16  # bytes, of complex128


cdef bint copies_row(const Step* step, int transfer) noexcept nogil:
    """Return True if a step copies a long row of a series or TensorArray, or for FROM_ROW a long part of an array.

    Rows up to `most_value_bytes` are values of compiled code, which has no use for their address.
    """
    if step.in_place or step.count <= most_value_bytes:
        return False
    if step.code == CALL:
        return transfer_in(step) == transfer or transfer == FROM_ROW and is_part(step)
    return step.code == (READ_ROW if transfer == FROM_ROW else PUSH_ROW)


cdef int _see(Sights* sights, int step, int operand, Seen seen) except -1:
    """Append an access of a step, or of the run itself for -1; `operand` is the operand with the address, or -1."""
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


cdef int see_all(Run run, Sights* sights) except -1:
    """Note the accesses of all steps, and the accesses of the run itself to its outputs, which its end reads and moves.
    """
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
    """Note the accesses of a step. Steps that go elsewhere are left out: they read elements, which never move."""
    cdef const Step* step = &run.steps[i]
    if step.code == WORK or step.code == WORK_TO:
        _see_work(run, i, sights)
    elif step.code == APPLY:
        _see_loop(run, i, sights)
    elif step.code == COPY or step.code == COPY_8:
        _see(sights, i, 0, _all_of(step.operands[0], step.count, True))
        _see(sights, i, 1, _all_of(step.operands[1], step.count, False))
    elif PUSH_ROW <= step.code <= CALL:  # the codes between are READ_ROW and ADD_ROWS
        _see_row(run, i, sights)
    elif not GO <= step.code <= GO_TO:  # ADD_ONE and the guards; END has no operand
        _see(sights, i, 0, _all_of(step.operands[0], max(sizeof(uint64_t), step.count * step.strides[0]), True))
    return 0


cdef int _see_row(Run run, int i, Sights* sights) except -1:
    """Note the accesses of a step with copies of rows, or a call of a function.

    The place of the row itself is found when the step runs, so there is no access to note. The strides of such a step
    are the sizes of its operands in bytes. The operands of an unknown function have to stay where they are.
    """
    cdef const Step* step = &run.steps[i]
    cdef bint is_known = step.code != CALL or copies_row(step, FROM_ROW) or copies_row(step, TO_ROW)
    is_known = is_known and (step.code != ADD_ROWS or are_gathered(step))
    cdef bint writes = step.code == READ_ROW or copies_row(step, FROM_ROW)
    cdef int k
    for k in range(1, MOST_OPERANDS):
        _see(sights, i, k if is_known else -1,
             _all_of(step.operands[k], step.strides[k], writes and k == 1 or not is_known))
    return 0


cdef int _see_loop(Run run, int i, Sights* sights) except -1:
    """Note the accesses of an inner loop to its operands; the last operand is the result. Strides may be negative."""
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
    """Return an upper bound of the bytes of an operand's element, from the distance between two elements."""
    return min(abs(step.strides[k]), <npy_intp>WIDEST_ELEMENT) if step.strides[k] else WIDEST_ELEMENT


cdef int _see_work(Run run, int i, Sights* sights) except -1:
    """Note the accesses of a work.

    Products, fused operations, concatenations, reductions and updates of parts describe their accesses. For another
    work every array among its inputs and outputs was noted in `run.opaque` at recording, and has to stay in its place.
    """
    cdef Seen seen[MOST_SEEN]
    cdef Compute compute = run.steps[i].compute
    cdef uint64_t* arguments = shared_in(&compute, run.steps[i].arguments)
    cdef int count = seen_by_product(compute, arguments, seen)  # -1: another work, or too many accesses
    cdef int k
    if count < 0:
        count = seen_by_fused(compute, arguments, seen, MOST_SEEN)
    if count < 0:
        count = seen_by_concat(compute, arguments, seen, MOST_SEEN)
    if count < 0:
        count = seen_by_reduction(compute, arguments, seen)
    if count < 0:
        count = seen_by_slice_sum(compute, arguments, seen)
    if count < 0:
        count = seen_by_row_update(compute, arguments, seen)
    if run.steps[i].code == WORK_TO:
        _see(sights, i, 0, _all_of(run.steps[i].operands[0], sizeof(uint64_t), True))
    for k in range(count):
        _see(sights, i, -1, seen[k])
    if is_small(product_in(compute, arguments)):
        _see_small_product(run, i, <const Product*>arguments, sights)
    if count < 0:
        for low, high, step in run.opaque:
            if step == i:
                _see(sights, i, -1, _all_of(<char*><uint64_t>low, <uint64_t>high - <uint64_t>low, True))
    return 0


cdef int _see_small_product(Run run, int i, const Product* p, Sights* sights) except -1:
    """Note the matrices of a small product, which have to stay: compiled code reads their addresses only once."""
    cdef size_t size = type_of(run, run.program.instructions[run.steps[i].instruction].inputs[1]).itemsize
    _see(sights, i, -1, _all_of(<char*>p.a.data, size * p.rows * p.inner, False))
    _see(sights, i, -1, _all_of(<char*>p.b.data, size * p.inner * p.columns, False))
    _see(sights, i, -1, _all_of(<char*>p.data, size * p.rows * p.columns, True))
    _see(sights, i, -1, _all_of(<char*>p.total, size * p.rows * p.columns, False))
    return 0


cdef bint is_made_before(Run run, int i, const Sights* sights, char* low, size_t size) noexcept:
    """Return True if a single step computes all bytes of some memory for step `i`, so that both can use other memory.

    The conditions: this step, the maker, is the only writer; every access can be redirected, and is between the maker
    and step `i`; and whenever the maker runs, the steps up to `i` follow.
    """
    cdef char* high = low + size
    cdef const Sight* sight
    cdef size_t made = 0  # bytes that the maker writes
    cdef int maker = -1
    cdef int first_reader = i
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if not is_seen(sight, low, high):
            continue
        if not is_movable(sight, low, high) or sight.step > i:
            return False
        if sight.writes and maker not in (-1, sight.step):
            return False  # a second writer
        if sight.writes:
            maker, made = sight.step, made + sight.count
        else:
            first_reader = min(first_reader, sight.step)
    return made == size and 0 <= maker < first_reader and are_straight(run, maker, i)
