"""Series written by a run of a native program to the slots of other series: values saved by a loop in a loop.

All values saved by an inner loop in a run go to a single series, in the order of the runs of the loop. The slots of
each run are noted on the way; each of these parts is a series of its own when the run is over.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc

from tagloom.kernels.core.values cimport hold, object_value, pointer
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport CALL, NO, YES, Run, Step, Verdict, Writer, add_step, data_of
from tagloom.kernels.scheduler.series cimport Block, Series, part_of


cdef struct Part:
    int64_t slot  # of the outer series
    int64_t first  # slot of the inner one
    int64_t end


cdef struct Parts:
    Part* parts
    int64_t count
    int64_t capacity
    Writer* writer  # of the inner series, or NULL: its slots are written one after the other


@cython.no_gc
cdef class Nest:
    """The parts of a series in slots of another series."""
    cdef Parts parts
    cdef Series inner
    cdef Series outer

    def __dealloc__(self):
        free(self.parts.parts)


cdef int record_nest(Run run, const Instruction* each) except -1:
    """Record the slots written since some number as a series of their own."""
    cdef Nest nest = Nest()
    cdef Step* step = add_step(run, CALL)
    cdef int k
    nest.inner, nest.outer = <Series><object>pointer(run.registers[each.inputs[3]].value), Series()
    hold(&run.held, &run.registers[each.outputs[0]].value, object_value(<PyObject*>nest.outer))
    run.nests.append(nest)
    if each.is_maybe:
        nest.parts.writer = <Writer*><uint64_t>run.writers[_place_of(run.written, nest.inner)]
    step.act, step.operands[0] = _note, <char*>&nest.parts
    for k in range(3):
        step.operands[k + 1], step.strides[k + 1] = data_of(&run.registers[each.inputs[k]]), sizeof(int64_t)
    return 0


cdef Verdict _note(const Step* step) noexcept nogil:
    """Note which slots a run of the inner loop has written."""
    cdef Parts* parts = <Parts*>step.operands[0]
    cdef int64_t capacity = max(2 * parts.capacity, 64)
    cdef Part* grown
    if parts.writer != NULL and not _are_written(
            parts.writer, (<const int64_t*>step.operands[1])[0], (<const int64_t*>step.operands[2])[0]):
        return NO  # slots were left out, so there may be others behind the last one
    if parts.count == parts.capacity:
        grown = <Part*>realloc(parts.parts, capacity * sizeof(Part))
        if grown == NULL:
            return NO
        parts.parts, parts.capacity = grown, capacity
    parts.parts[parts.count].first = (<const int64_t*>step.operands[1])[0]
    parts.parts[parts.count].end = (<const int64_t*>step.operands[2])[0]
    parts.parts[parts.count].slot = (<const int64_t*>step.operands[3])[0]
    parts.count += 1
    return YES


cdef int _place_of(list all, Series series) except -1:
    """Return the place of a series in a list."""
    cdef int i
    for i in range(len(all)):
        if all[i] is series:
            return i
    raise AssertionError("an inner series is written by no step")


cdef bint _are_written(const Writer* writer, int64_t first, int64_t end) noexcept nogil:
    """Return True if all slots of a range are written."""
    cdef const Block* block
    cdef int64_t i
    cdef int k
    for k in range(writer.num_blocks):
        block = &writer.blocks[k]
        for i in range(max(first, block.first), min(end, block.first + block.rows)):
            if not block.is_written[i - block.first]:
                return False
    return True


cdef int close_nests(Run run) except -1:
    """Make the series of the parts."""
    cdef Nest nest
    cdef Part* part
    cdef int64_t i
    for nest in run.nests:
        for i in range(nest.parts.count):
            part = &nest.parts.parts[i]
            made = part_of(nest.inner, part.first, part.end - part.first)
            nest.outer.store(part.slot, object_value(<PyObject*>made), NULL)
    return 0
