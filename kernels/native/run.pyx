"""Runs of native programs."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from numpy cimport import_array

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.core.table cimport DECLINED, RESULT
from tagloom.kernels.core.values cimport drop
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_DATA, PyArray_DIM, PyArray_ITEMSIZE, PyArray_NDIM, PyArray_SIZE, PyArray_STRIDES,
)
from tagloom.kernels.native.compiled cimport CompiledProgram

import_array()

cdef enum:
    MOST_BYTES = 1 << 22  # that a step copies
    MOST_SLOTS = 0x7FFFFFFF  # of a series
    LOOK = 20000  # nanoseconds between two looks at the clock, about

most_value_bytes = 256


def limit_values(npy_intp size):
    """See rows of more bytes than this where they lie, and keep no more in a value of compiled code; for tests."""
    global most_value_bytes
    most_value_bytes = max(size, <npy_intp>sizeof(uint64_t))


cdef class Refusal(Exception):
    """Reason why a program cannot be recorded for the arrays of a run."""


cdef class Run:
    """The steps of a run and their memory."""

    def __cinit__(self, CompiledProgram program):
        self.program, self.arena, self.kept, self.opaque, self.calls, self.traced = program, Arena(), [], [], [], []
        self.written, self.writers, self.shapes, self.read, self.readers = [], [], [], [], []
        self.sums, self.sum_states, self.tensor_arrays, self.loops, self.nests = [], [], {}, {}, []
        self.rows = Arena()
        self.registers = <Register*>self.arena.take(program.num_registers, sizeof(Register))

    def __dealloc__(self):
        cdef int i
        free(self.steps)
        for i in range(self.program.num_registers if self.registers != NULL else 0):
            drop(&self.held, &self.registers[i].value)
        drop(&self.held, &self.cells)


cdef Step* add_step(Run run, int code) except NULL:
    """Add a step."""
    cdef int capacity = max(2 * run.capacity, 16)
    cdef Step* grown
    if run.num_steps == run.capacity:
        grown = <Step*>realloc(run.steps, capacity * sizeof(Step))
        if grown == NULL:
            raise MemoryError()
        run.steps, run.capacity = grown, capacity
    run.num_steps += 1
    memset(&run.steps[run.num_steps - 1], 0, sizeof(Step))
    run.steps[run.num_steps - 1].code = code
    return &run.steps[run.num_steps - 1]


cdef int hide(Run run, ArrayObject* array) except -1:
    """Note the access of the last step's work to the memory of an array."""
    cdef char* low
    cdef char* high
    cdef npy_intp reach
    cdef int d
    if array == NULL or PyArray_SIZE(array) == 0:
        return 0
    low, high = <char*>PyArray_DATA(array), <char*>PyArray_DATA(array) + PyArray_ITEMSIZE(array)
    for d in range(PyArray_NDIM(array)):
        reach = (PyArray_DIM(array, d) - 1) * PyArray_STRIDES(array)[d]
        low, high = low + min(reach, 0), high + max(reach, 0)
    run.opaque.append((<uint64_t>low, <uint64_t>high, run.num_steps - 1))
    return 0


cdef size_t checked(size_t size) except? 0:
    """Return the bytes copied by a step; refuse many, because without copies the step machine is faster."""
    if size > MOST_BYTES:
        raise Refusal("large arrays are copied in each iteration")
    return size


cdef void go(Execution* x, int64_t time) noexcept nogil:
    """Run for some nanoseconds, about, or to the end."""
    cdef int64_t now = nanoseconds()
    cdef int64_t end = now + time
    cdef int64_t before
    cdef int64_t begun = now
    x.status = SUSPENDED
    while x.status == SUSPENDED and now < end:
        x.left = x.stride
        if x.code != NULL:
            x.status = x.code(x.steps, x.cells, x)
        else:
            _walk(x)
        before, now = now, nanoseconds()
        x.stride = max(1, min(2 * x.stride, x.stride * LOOK // max(now - before, 1)))
    x.spent += now - begun


cdef void go_through(Execution* x) noexcept nogil:
    """Run steps of which none goes back, from the beginning to the end."""
    x.at, x.left, x.status = 0, 1, SUSPENDED
    if x.code != NULL:
        x.status = x.code(x.steps, x.cells, x)
    else:
        _walk(x)


cdef inline void _walk(Execution* x) noexcept nogil:
    """Walk over the steps until they end, or have gone back often enough."""
    cdef int64_t left = x.left
    cdef Verdict verdict
    cdef Step* step = &x.steps[x.at]
    while True:
        if step.code == APPLY:
            step.loop(step.operands, &step.count, step.strides, step.data)
            step += 1
        elif step.code == WORK or step.code == WORK_TO:
            step.compute(step.arguments, 0, 1)
            if step.arguments[DECLINED]:
                x.status = GAVE_UP
                return
            if step.code == WORK_TO:
                (<uint64_t*>step.operands[0])[0] = step.arguments[RESULT]
            step += 1
        elif step.code == COPY_8:
            (<uint64_t*>step.operands[0])[0] = (<const uint64_t*>step.operands[1])[0]
            step += 1
        elif step.code == COPY:
            memcpy(step.operands[0], step.operands[1], step.count)
            step += 1
        elif step.code == GO_UNLESS:
            if step.operands[0][0]:
                step += 1
            else:
                step.count += 1
                step = &x.steps[step.target]
        elif step.code == GO_BACK:
            step.count += 1
            step = &x.steps[step.target]
            left -= 1
            if left == 0:
                x.at, x.status = <int>(step - x.steps), SUSPENDED
                return
        elif step.code == PUSH_ROW:
            verdict = push_row(step)
            if verdict != YES:
                x.at, x.status = <int>(step - x.steps), GAVE_UP if verdict == NO else NO_ROOM
                return
            step += 1
        elif READ_ROW <= step.code <= CALL:
            verdict = step.act(step)
            if verdict != YES:
                x.at, x.status = <int>(step - x.steps), GAVE_UP if verdict == NO else NO_ROOM
                return
            step += 1
        elif step.code == ADD_ONE:
            (<int64_t*>step.operands[0])[0] += 1
            step += 1
        elif step.code == GO:
            step = &x.steps[step.target]
        elif step.code == GO_TO:
            step = &x.steps[step.targets[_chosen(step)]]
        elif step.code == END:
            x.status = DONE
            return
        elif pass_guard(step) == NO:
            x.status = GAVE_UP
            return
        else:
            step += 1


cdef Verdict push_row(const Step* step) noexcept nogil:
    """Write a row, or set the address for its later write, once there is room; return NO for an invalid slot.
    """
    cdef Writer* writer = <Writer*>step.operands[0]
    cdef int64_t index = (<const int64_t*>step.operands[2])[0]
    cdef Block* block
    if not 0 <= index < MOST_SLOTS:
        return NO
    while 0 < writer.at and index < writer.blocks[writer.at - 1].first + writer.blocks[writer.at - 1].rows:
        writer.at -= 1
    while writer.at < writer.num_blocks:
        block = &writer.blocks[writer.at]
        if index < block.first + block.rows:
            if step.in_place:
                point_to(step, block.data + (index - block.first) * step.count)
            else:
                memcpy(block.data + (index - block.first) * step.count, step.operands[1], step.count)
            block.is_written[index - block.first] = True
            writer.block = block[0]
            return YES
        writer.at += 1
    return LATER


cdef inline int _chosen(const Step* step) noexcept nogil:
    """Return the number of the target chosen by a bool (count = 1) or an int32; the last for a choice out of range."""
    cdef int64_t chosen = step.operands[0][0] if step.count == 1 else (<const int32_t*>step.operands[0])[0]
    return <int>chosen if 0 <= chosen < step.num_targets else step.num_targets - 1


cdef Verdict pass_guard(const Step* step) noexcept nogil:
    """Return NO if any divisor of a guard is zero, or any exponent negative."""
    cdef npy_intp i
    cdef bint divisor = step.code == GUARD_DIVISOR
    cdef npy_intp size = step.strides[0]
    cdef int64_t value = 0
    for i in range(step.count):
        if size == 8:
            value = (<const int64_t*>step.operands[0])[i]
        elif size == 4:
            value = (<const int32_t*>step.operands[0])[i]
        elif size == 2:
            value = (<const short*>step.operands[0])[i]
        else:
            value = (<const signed char*>step.operands[0])[i]
        if value == 0 if divisor else value < 0:
            return NO
    return YES


cdef bint are_straight(Run run, int first, int last) noexcept:
    """Return True if steps always run one after the other, from the first to the last."""
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
