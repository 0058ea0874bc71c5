"""Parts of arrays, read by index in a run of a native program.

Rows of an array without writes can be read in place; other parts are copied.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from numpy cimport import_array

from tagloom.kernels.core.table cimport Work
from tagloom.kernels.core.values cimport OBJECT
from tagloom.kernels.cpu.arrays cimport PyArray_NBYTES, array_in
from tagloom.kernels.cpu.gather_slice cimport INDICES, indices_of_part, part_at
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport (
    CALL, LONG_STEP, NO, YES, Register, Run, Step, Verdict, add_step, checked, data_of, most_value_bytes, point_to,
)

import_array()


cdef bint record_part(Run run, const Instruction* each, const Work* work) except -1:
    """Record the read of a long contiguous part; return False if the work does something else."""
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef char* indices[INDICES]
    cdef size_t sizes[INDICES]
    cdef int count = indices_of_part(work.compute, work.arguments, indices, sizes)
    cdef Step* step
    cdef int k
    if count < 0 or not run.registers[each.inputs[0]].is_known or made.value.form != OBJECT:
        return False
    if PyArray_NBYTES(array_in(made.value)) <= most_value_bytes:
        return False
    made.is_row = True
    run.cost += work.cost
    run.is_long = run.is_long or work.cost >= LONG_STEP
    step = add_step(run, CALL)
    step.act, step.compute = _take, work.compute
    step.arguments = <uint64_t*>run.arena.take(1, sizeof(work.arguments))
    memcpy(step.arguments, work.arguments, sizeof(work.arguments))
    step.operands[1], step.count = data_of(made), checked(PyArray_NBYTES(array_in(made.value)))
    step.strides[1] = step.count
    for k in range(count):
        step.operands[2 + k], step.strides[2 + k] = indices[k], sizes[k]
    return True


cdef Verdict _take(const Step* step) noexcept nogil:
    """Read a part; return NO if an index is out of range."""
    cdef char* part = part_at(step.compute, step.arguments, <char**>&step.operands[2])
    if part == NULL:
        return NO
    if step.in_place:
        point_to(step, part)
    else:
        memcpy(step.operands[1], part, step.count)
    return YES


cdef bint is_part(const Step* step) noexcept nogil:
    """Return True if a step reads a part of an array."""
    return step.act == _take
