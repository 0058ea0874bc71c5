"""One run of a native program: steps over memory that stays where it is, and what goes through them."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy
from numpy cimport npy_intp

from tagflow.kernels.core.arena cimport Arena
from tagflow.kernels.core.clock cimport nanoseconds
from tagflow.kernels.core.table cimport DECLINED, RESULT, Compute, Loop, Type
from tagflow.kernels.core.values cimport SCALAR, Counters, Value
from tagflow.kernels.cpu.arrays cimport PyArray_DATA, array_in
from tagflow.kernels.native.compiled cimport CompiledProgram
from tagflow.kernels.scheduler.series cimport Block

cdef enum:
    MOST_OPERANDS = 4  # of an inner loop, its result included
    MOST_SLOTS = 0x7FFFFFFF  # of a series
    LOOK = 20000  # nanoseconds between two looks at the clock, about


cdef enum StepCode:
    APPLY  # an inner loop over `count` elements
    WORK  # what a kernel left
    WORK_TO  # the same; its unboxed result goes to operand 0
    COPY  # `count` bytes from operand 1 to operand 0
    COPY_8
    ADD_ONE  # to the int64 at operand 0
    GO  # on at the target
    GO_BACK  # the same, to an earlier step; `count` is how often
    GO_UNLESS  # the bool at operand 0 is true; `count` is how often
    GO_TO  # the target that the bool or int32 at operand 0 numbers
    GUARD_DIVISOR  # give up if one of `count` integers at operand 0 is zero
    GUARD_EXPONENT  # give up if one of them is negative
    PUSH_ROW  # `count` bytes from operand 1 to the row of the Writer at operand 0 that the int64 at operand 2 numbers
    CALL  # `act`
    END


cdef enum Status:
    SUSPENDED
    DONE
    GAVE_UP
    NO_ROOM  # for a row


cdef struct Writer:  # of a series
    Block* blocks  # the series' own
    int num_blocks
    int at  # block that was written to last


cdef enum Verdict:
    NO  # the program is to give up
    YES
    LATER  # once there is room

cdef struct Step

ctypedef Verdict (*Act)(const Step*) noexcept nogil


cdef struct Step:
    int code
    int target
    int num_targets
    int* targets  # GO_TO: steps
    Loop loop
    void* data  # its last argument
    Compute compute
    Act act  # CALL
    uint64_t* arguments
    npy_intp count
    npy_intp strides[MOST_OPERANDS]
    char* operands[MOST_OPERANDS]


cdef struct Execution:
    Step* steps
    int at  # step to go on with
    Status status
    int64_t stride  # times it goes back between two looks at the clock


cdef struct Register:
    Value value  # OBJECT: an array; SCALAR: known; EMPTY: nothing yet, or only the cell
    char* cell  # where the element lies of one without dimensions that is not known; else NULL
    bint is_known  # the same whenever it is read
    bint is_home  # memory of its own, to which values are moved


cdef class Run:
    cdef CompiledProgram program  # keeps the kernels alive
    cdef Arena arena  # owns the steps' arguments
    cdef Counters held  # what its registers hold; they are not a machine's
    cdef Execution execution
    cdef Step* steps
    cdef int num_steps
    cdef int capacity
    cdef Register* registers
    cdef Value cells  # an array of uint64
    cdef int used  # cells
    cdef list written  # Series that it writes
    cdef list writers  # addresses of their Writers
    cdef list shapes  # for each, the register of what it holds, and the array in it or None
    cdef list read  # Series that it reads
    cdef list readers  # addresses of their Readers
    cdef list nests  # what it knows of series in slots of others
    cdef list sums  # ProductSum that it adds to
    cdef list sum_states  # addresses of their Sums
    cdef dict loops  # by name: the step that ends a loop, and the one that goes back in it
    cdef dict tensor_arrays  # by register: what the run knows of an array, a TensorArrayRun
    cdef int64_t trips  # of the outermost loop, about; 0 if that is not known
    cdef list kept  # what the steps write and read that no register holds
    cdef str reason  # why it could not be recorded, or None


cdef class Refusal(Exception):
    pass


cdef Step* add_step(Run run, int code) except NULL
cdef size_t checked(size_t size) except? 0


cdef inline char* data_of(Register* register) noexcept:
    """Return where the elements of a register lie."""
    if register.cell != NULL:
        return register.cell
    if register.value.form == SCALAR:
        return <char*>&register.value.bits
    return <char*>PyArray_DATA(array_in(register.value))


cdef inline const Type* type_of(Run run, int register) noexcept:
    return &run.program.table.types[run.program.register_types[register]]


cdef inline bint is_element(const Register* register) noexcept:
    """Say whether a register holds one element that travels unboxed."""
    return register.cell != NULL or register.value.form == SCALAR


cdef inline char* new_cell(Run run) noexcept:
    """Return room for an element: one for a register at most, and one where a kernel wants an array."""
    run.used += 1
    return <char*>PyArray_DATA(array_in(run.cells)) + 8 * (run.used - 1)


cdef inline void go(Execution* x, int64_t time) noexcept nogil:
    """Run for some nanoseconds, about, or to the end."""
    cdef int64_t now = nanoseconds()
    cdef int64_t end = now + time
    cdef int64_t left = x.stride
    cdef int64_t before
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
            if left > 0:
                continue
            before, now = now, nanoseconds()
            x.stride = max(1, min(2 * x.stride, x.stride * LOOK // max(now - before, 1)))
            left = x.stride
            if now >= end:
                x.at, x.status = <int>(step - x.steps), SUSPENDED
                return
        elif step.code == PUSH_ROW:
            verdict = _push(step)
            if verdict != YES:
                x.at, x.status = <int>(step - x.steps), GAVE_UP if verdict == NO else NO_ROOM
                return
            step += 1
        elif step.code == CALL:
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
        elif _is_met(step):
            x.status = GAVE_UP
            return
        else:
            step += 1


cdef inline Verdict _push(const Step* step) noexcept nogil:
    """Write a row, once there is room for it; say no if no series has such a slot."""
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
            memcpy(block.data + (index - block.first) * step.count, step.operands[1], step.count)
            block.is_written[index - block.first] = True
            return YES
        writer.at += 1
    return LATER


cdef inline int _chosen(const Step* step) noexcept nogil:
    """Return the number of the target that a bool (count = 1) or an int32 chooses; the last where there is none."""
    cdef int64_t chosen = step.operands[0][0] if step.count == 1 else (<const int32_t*>step.operands[0])[0]
    return <int>chosen if 0 <= chosen < step.num_targets else step.num_targets - 1


cdef inline bint _is_met(const Step* step) noexcept nogil:
    """Say whether one of the integers of a guard is zero, or negative."""
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
            return True
    return False
