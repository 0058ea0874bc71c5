"""Sums of products computed by a run of a native program, which multiplies many products at once.

Rows are gathered and multiplied by the same rule as outside of a program, so that sums are equal to the last bit;
see ``kernels/cpu/product_sum.pyx``. The sum of a run is its own until the run is over.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from numpy cimport PyArray_NewCopy, NPY_CORDER, import_array, ndarray, npy_intp

from tagloom.kernels.core.table cimport Table, Work
from tagloom.kernels.core.values cimport Value, drop, empty, hold, object_value, pointer
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_DATA, PyArray_DIM, PyArray_ITEMSIZE, PyArray_NBYTES, array_in, is_plain, new_array,
    same_shape,
)
from tagloom.kernels.cpu.linear cimport are_parts_alike, multiply_columns, product_cost, require_blas_for_sums
from tagloom.kernels.cpu.product_sum cimport ProductSum, is_tiny, most_rows, sum_in
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport (
    ADD_ROWS, LONG_STEP, NO, WORK, YES, Refusal, Register, Run, Step, Verdict, add_step, point_to, type_of,
)
from tagloom.kernels.native.team cimport SHORTEST_SHARE, do_together, most_shares

import_array()

cdef enum:
    FEWEST_ROWS = 64  # that there is room for

cdef Table _shared  # of calls that leave work for several threads
_shared.at_once = 2 * SHORTEST_SHARE
cdef Table _left  # where all is left
_left.at_once = 0


cdef int record_add(Run run, const Instruction* each) except -1:
    """Record the addition of a product to a sum, which becomes a sum of the run."""
    cdef Register* held = &run.registers[each.inputs[0]]
    cdef ArrayObject* a = array_in(run.registers[each.inputs[1]].value)
    cdef ArrayObject* b = array_in(run.registers[each.inputs[2]].value)
    cdef ProductSum given = sum_in(held.value)
    cdef ProductSum made
    cdef Sum* sum
    cdef Step* step
    cdef double cost
    if given is None or given.rows or any([made_before is given for made_before in run.sums]):
        raise Refusal("a sum is added to already")
    if a == NULL or b == NULL or not is_plain(a) or not is_plain(b) or not given.fits(a, b) or PyArray_DIM(a, 0) == 0:
        raise Refusal("what is added to a sum does not fit")
    require_blas_for_sums(<int>PyArray_DIM(b, 1))  # here: the run itself has no way to raise an error
    made = copy_of_sum(given)
    drop(&run.held, &held.value)
    hold(&run.held, &held.value, object_value(<PyObject*>made))
    sum = <Sum*>run.arena.take(1, sizeof(Sum))
    run.sums.append(made)
    run.sum_states.append(<uint64_t>sum)
    sum.register = each.inputs[0]
    if is_tiny(a, b):
        _record_product(run, a, b, <ArrayObject*><void*>made.total)
        return 0
    sum.more_a, sum.more_b, sum.total = a, b, <ArrayObject*><void*>made.total
    sum.most = sum.room = most_rows(sum.total)
    sum.team = &run.team
    if run.trips:
        sum.room = max(<int64_t>FEWEST_ROWS, min(sum.room, (run.trips + 1) * PyArray_DIM(a, 0)))
    sum.room = max(sum.room, PyArray_DIM(a, 0))
    # The last rows are for rows computed in place that are then not added.
    made.a, made.b = [_rows(run, sum.room + PyArray_DIM(a, 0), each.inputs[k]) for k in (1, 2)]
    sum.a, sum.b = <ArrayObject*><void*>made.a, <ArrayObject*><void*>made.b
    sum.first, sum.second = <char*>PyArray_DATA(sum.a), <char*>PyArray_DATA(sum.b)
    sum.quick = min(sum.room - PyArray_DIM(a, 0), sum.most - 2 * PyArray_DIM(a, 0))
    cost = product_cost(PyArray_DIM(a, 1), sum.room, PyArray_DIM(b, 1), PyArray_ITEMSIZE(a))
    run.is_shared, run.is_long = run.is_shared or cost >= 2 * SHORTEST_SHARE, run.is_long or cost >= LONG_STEP
    step = add_step(run, ADD_ROWS)
    step.act, step.operands[0], step.count = _add, <char*>sum, PyArray_DIM(a, 0)
    step.operands[1], step.strides[1] = <char*>PyArray_DATA(a), PyArray_NBYTES(a)
    step.operands[2], step.strides[2] = <char*>PyArray_DATA(b), PyArray_NBYTES(b)
    return 0


cdef ProductSum copy_of_sum(ProductSum sum):
    """Return a new sum with a copy of the total of another sum, which has no gathered rows."""
    made = ProductSum(PyArray_NewCopy(<ndarray>sum.total, NPY_CORDER))
    made.owned = True
    return made


cdef int _record_product(Run run, ArrayObject* a, ArrayObject* b, ArrayObject* total) except -1:
    """Record the addition of a product of a few elements to the total, in place."""
    cdef Work work
    cdef Step* step
    work.kept, work.compute = NULL, NULL
    multiply_columns(&_left, a, b, <int>PyArray_DIM(a, 0), NULL, NULL, total, NULL, &work)
    if work.compute == NULL:
        return 0  # there are no elements
    step = add_step(run, WORK)
    step.compute, step.arguments = work.compute, <uint64_t*>run.arena.take(1, sizeof(work.arguments))
    memcpy(step.arguments, work.arguments, sizeof(work.arguments))
    return 0


cdef object _rows(Run run, int64_t rows, int number):
    """Return a matrix with room for `rows` rows like the rows of a register."""
    cdef npy_intp dims[2]
    cdef Value made = empty()
    dims[0], dims[1] = rows, PyArray_DIM(array_in(run.registers[number].value), 1)
    new_array(&run.held, type_of(run, number), 2, dims, &made)
    array = <object>pointer(made)
    drop(&run.held, &made)
    return array


cdef Verdict _add(const Step* step) noexcept nogil:
    """Gather rows, or multiply them; return NO if there is no room because more rows came than expected."""
    cdef Sum* sum = <Sum*>step.operands[0]
    cdef int64_t more = PyArray_DIM(sum.more_a, 0)
    if sum.rows == 0 and 2 * more > sum.most:
        _multiply(sum, sum.more_a, sum.more_b, more)
        return YES
    if sum.rows + more > sum.room:
        return NO
    memcpy(sum.first + sum.rows * (step.strides[1] // more), step.operands[1], step.strides[1])
    if not step.in_place:
        memcpy(sum.second + sum.rows * (step.strides[2] // more), step.operands[2], step.strides[2])
    sum.rows += more
    if sum.rows + more > sum.most:
        _multiply(sum, sum.a, sum.b, sum.rows)
        sum.rows = 0
    if step.in_place:
        point_to_next(step)
    return YES


cdef void point_to_next(const Step* step) noexcept nogil:
    """Set the address of the next rows to the end of the gathered rows."""
    cdef Sum* sum = <Sum*>step.operands[0]
    point_to(step, sum.second + sum.rows * (step.strides[2] // step.count))


cdef void change_factors(Step* step) noexcept:
    """Exchange the factors, so that the rows of the other factor may be computed in place."""
    cdef Sum* sum = <Sum*>step.operands[0]
    sum.first, sum.second = sum.second, sum.first
    step.operands[1], step.operands[2] = step.operands[2], step.operands[1]
    step.strides[1], step.strides[2] = step.strides[2], step.strides[1]


cdef bint are_gathered(const Step* step) noexcept nogil:
    """Return True if the rows added by a step are always copied first: larger numbers of rows are multiplied in place.
    """
    return 2 * step.count <= (<const Sum*>step.operands[0]).most


cdef inline void _multiply(Sum* sum, ArrayObject* a, ArrayObject* b, int64_t rows) noexcept nogil:
    """Add the product of rows to the total."""
    cdef Work work
    cdef bint alike
    work.kept, work.compute = NULL, NULL
    multiply_columns(&_shared, a, b, <int>rows, NULL, NULL, sum.total, NULL, &work)
    if work.compute != NULL:
        alike = are_parts_alike(work.compute, work.arguments)
        do_together(sum.team, work.compute, work.arguments, most_shares(&work) if alike else 1)


cdef int close_sums(Run run) except -1:
    """Note the gathered rows in the sums, at the end of the run."""
    cdef ProductSum made
    cdef int k
    for k in range(len(run.sums)):
        made = run.sums[k]
        made.rows = (<Sum*><uint64_t>run.sum_states[k]).rows
    return 0


# Runs that are kept


cdef bint may_add_to_others(Run run) except -1:
    """Return True if a run could add to other sums: each is an input, and none gathers rows."""
    cdef const Sum* sum
    cdef int k
    inputs = {run.program.inputs[k] for k in range(run.program.num_inputs)}
    for address in run.sum_states:
        sum = <const Sum*><uint64_t>address
        if sum.total != NULL or sum.register not in inputs:
            return False
    return True


cdef bint fits_sum(Run run, int number, ProductSum given) except -1:
    """Return True if a sum is like the sum of a run in a register."""
    cdef ProductSum own = sum_in(run.registers[number].value)
    cdef ArrayObject* total = <ArrayObject*><void*>given.total
    if own is None or given.rows or not is_plain(total):
        return False
    return own.total.dtype == given.total.dtype and same_shape(total, <ArrayObject*><void*>own.total)


cdef int begin_sum(Run run, int number, ProductSum given) except -1:
    """Copy the total of a given sum to the sum of a run in a register."""
    cdef ProductSum own = sum_in(run.registers[number].value)
    cdef ArrayObject* total = <ArrayObject*><void*>own.total
    memcpy(PyArray_DATA(total), PyArray_DATA(<ArrayObject*><void*>given.total), PyArray_NBYTES(total))
    return 0
