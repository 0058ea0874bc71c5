"""Several elementwise operations as a single kernel: NumPy's inner loops, run over blocks of rows in the cache.

Steps and registers are defined in `kernels/steps.py`, a table used when a program is compiled, not when run. The steps
run the same loops as the separate operations, with the same results bit for bit.

See docs/design/0005-loops-made-fast.md.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.cost cimport CACHE_LINE, aligned, leave, take_memory
from tagloom.kernels.core.table cimport Compute, Native, Node, Table, Work, output_type
from tagloom.kernels.core.values cimport SCALAR, Counters, Value, drop
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_DATA, PyArray_DIM, PyArray_DIMS, PyArray_NDIM, new_array, plain_in, product,
)
from tagloom.kernels.cpu.loops cimport find_choice
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.steps cimport (
    APPLY, BROADCAST, CONCAT, EXTREME, MEAN, MOST_OPERANDS, NO_SHORT_LOOP, SHORT_ADD, SHORT_DIVIDE, SHORT_MULTIPLY,
    SHORT_NEGATIVE, SHORT_SQUARE, SHORT_SUBTRACT, SIGMOID, SLICE, SUM, Register, Step, find_width, is_elementwise, run_step,
)
from tagloom.kernels.cpu.ufuncs cimport find_native_loop

from tagloom.kernels.steps import STEPS, StepCode, StepKind

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)

cnp.import_array()

cdef double PACE = 0.8  # nanoseconds that an element takes in each step, about
cdef double SHORT_PACE = 0.2  # in one with a short loop

cdef enum:
    MOST_PARTS = 16
    BLOCK = 2048  # elements of the widest register that one round works on
    WIDEST = 1 << 16  # elements of a row from which on the scratch would be too large
    NEAREST = 1 << 15  # bytes of scratch that the nearest cache keeps, about


cdef class Program:
    """A compiled program, with the memory used in turns by its short runs."""
    cdef Arena arena
    cdef Step* steps
    cdef Register* registers
    cdef int num_inputs, num_registers, num_steps, num_results, rank
    cdef double pace  # nanoseconds that all steps take for an element, about
    cdef bint moves  # whether a step is not elementwise
    cdef bint* has_rows  # which inputs have all rows
    cdef bint any_has_rows
    cdef cnp.npy_intp rows
    cdef cnp.npy_intp batch_dims[MOST_DIMS]  # the dimensions before the last, rank - 1 of them; found anew in each run
    cdef int* results
    cdef size_t itemsize
    cdef char* scratch
    cdef size_t size  # of scratch, in bytes
    cdef tuple constants  # arrays of no dimensions

    def __cinit__(self, dict attrs, int num_inputs, dtype):
        cdef int at
        self.arena = Arena()
        self.constants = attrs["constants"]
        self.num_inputs = num_inputs
        self.num_steps = len(attrs["steps"])
        self.num_results = len(attrs["results"])
        self.num_registers = num_inputs + len(self.constants) + self.num_steps
        self.itemsize = dtype.itemsize
        self.steps = <Step*>self.arena.take(self.num_steps, sizeof(Step))
        self.registers = <Register*>self.arena.take(self.num_registers, sizeof(Register))
        self.results = <int*>self.arena.take(self.num_results, sizeof(int))
        self.has_rows = <bint*>self.arena.take(num_inputs, sizeof(bint))
        for i, has_rows in enumerate(attrs["has_rows"]):
            self.has_rows[i] = has_rows
            self.any_has_rows = self.any_has_rows or self.has_rows[i]
        self.rows, self.rank = 1, len(attrs["batch_dims"]) + 1
        for i, dim in enumerate(attrs["batch_dims"]):
            self.batch_dims[i] = dim or 0  # unknown dimensions come with the inputs that have all rows
            self.rows *= self.batch_dims[i]
        for at in range(self.num_registers):
            self.registers[at].result, self.registers[at].size = -1, self.itemsize
            self.registers[at].last_reader = self.num_registers
        for i, result in enumerate(attrs["results"]):
            self.results[i] = at = result
            self.registers[at].result = i
        for i, constant in enumerate(self.constants):
            at = num_inputs + i
            self.registers[at].data = <char*>cnp.PyArray_DATA(constant)

    def __dealloc__(self):
        free(self.scratch)


cdef dict _CODES = {
    StepCode.APPLY: APPLY,
    StepCode.SIGMOID: SIGMOID,
    StepCode.SUM: SUM,
    StepCode.MEAN: MEAN,
    StepCode.EXTREME: EXTREME,
    StepCode.SLICE: SLICE,
    StepCode.CONCAT: CONCAT,
    StepCode.BROADCAST: BROADCAST,
}


cdef dict _SHORT_LOOPS = {
    "add": SHORT_ADD,
    "subtract": SHORT_SUBTRACT,
    "multiply": SHORT_MULTIPLY,
    "divide": SHORT_DIVIDE,
    "negative": SHORT_NEGATIVE,
    "square": SHORT_SQUARE,
}


cdef bint _compile(Program program, tuple steps, dtype) except *:
    """Translate the steps; return False if a step has no inner loop for the element type."""
    cdef int first = program.num_registers - program.num_steps
    cdef Step* step
    for i, (name, operands, columns) in enumerate(steps):
        row = STEPS[name]
        step = &program.steps[i]
        step.code = _CODES[row.code]
        step.count = len(operands)
        step.operands = <int*>program.arena.take(step.count, sizeof(int))
        for k, operand in enumerate(operands):
            step.operands[k] = operand
            if operand >= first:
                program.registers[operand].last_reader = first + <int>i
        program.moves = program.moves or not is_elementwise(step)
        if columns:
            step.start, step.stop = columns
        if row.kind is StepKind.COMPARE:
            program.registers[first + <int>i].size = 1
        if step.code == SIGMOID:
            step.loop = find_native_loop("exp", [dtype.num] * 2, &step.data)  # for code that does the rest in line
        if step.code in (APPLY, SUM, MEAN, EXTREME) and not _find_loop(step, row, dtype):
            return False
        program.pace += PACE if step.short_loop == NO_SHORT_LOOP else SHORT_PACE
    return True


cdef bint _find_loop(Step* step, row, dtype) except *:
    """Find the inner loop of a step; return False if there is none."""
    cdef int number = dtype.num
    if row.ufunc is None:  # `where`, for which NumPy has no ufunc
        step.loop = find_choice(dtype.itemsize)
    elif row.kind is StepKind.REDUCE:
        step.loop = find_native_loop(row.ufunc, [number] * 3, &step.data)
    else:
        result = cnp.NPY_BOOL if row.kind is StepKind.COMPARE else number
        if number == cnp.NPY_FLOAT32 or number == cnp.NPY_FLOAT64:
            step.short_loop = _SHORT_LOOPS.get(row.ufunc, NO_SHORT_LOOP)
        step.loop = find_native_loop(row.ufunc, [number] * step.count + [result], &step.data)
    return step.loop != NULL and step.count <= MOST_OPERANDS


cdef bint _bind(Program program, Value* inputs) noexcept:
    """Point the first registers at the inputs; return False unless all are plain arrays of fitting shapes."""
    cdef Register* register
    cdef ArrayObject* array
    if not _find_rows(program, inputs):
        return False
    for i in range(program.num_inputs):
        register = &program.registers[i]
        register.width = register.advance = register.repeated = 0
        array = plain_in(inputs[i])
        if inputs[i].form == SCALAR and not program.has_rows[i]:
            register.data = <char*>&inputs[i].bits
            continue
        if array == NULL:
            return False
        register.data = <char*>PyArray_DATA(array)
        if PyArray_NDIM(array) == 0:
            continue
        register.width = PyArray_DIM(array, PyArray_NDIM(array) - 1)
        register.repeated = not program.has_rows[i]
        register.advance = register.width * program.itemsize if program.has_rows[i] else 0
        if register.width == 0 or not _fits(program, array, program.has_rows[i]):
            return False
    return True


cdef bint _find_rows(Program program, Value* inputs) noexcept:
    """Find the dimensions before the last from the first input with all of them."""
    cdef ArrayObject* array
    cdef int d, i
    for i in range(program.num_inputs if program.any_has_rows else 0):
        if not program.has_rows[i]:
            continue
        array = plain_in(inputs[i])
        if array == NULL or PyArray_NDIM(array) != program.rank:
            return False
        memcpy(program.batch_dims, PyArray_DIMS(array), (program.rank - 1) * sizeof(cnp.npy_intp))
        program.rows = product(program.batch_dims, 0, program.rank - 1)
        return True
    return True


cdef bint _fits(Program program, ArrayObject* array, bint has_rows) noexcept:
    """Return True if an array has the rows of the program (`has_rows`), or a single row for all of them."""
    cdef int rank = PyArray_NDIM(array)
    cdef int d
    if rank > program.rank or (has_rows and rank < program.rank):
        return False
    for d in range(rank - 1):
        if PyArray_DIM(array, d) != (program.batch_dims[d] if has_rows else 1):
            return False
    return True


cdef cnp.npy_intp _measure(Program program) noexcept:
    """Find the width of each step; return the largest of all, or 0 if the operands of a step do not fit."""
    cdef int first = program.num_registers - program.num_steps
    cdef cnp.npy_intp widest = 0
    cdef int i
    for i in range(program.num_inputs):
        widest = max(widest, program.registers[i].width)
    for i in range(program.num_steps):
        if not find_width(&program.steps[i], program.registers, &program.registers[first + i]):
            return 0
        widest = max(widest, program.registers[first + i].width)
    return widest


cdef bint _is_flat(Program program, cnp.npy_intp width) noexcept:
    """Return True if rows do not matter: every step takes elements at the same places of registers of equal width."""
    cdef Register* register
    cdef int i
    for i in range(program.num_registers):
        register = &program.registers[i]
        if i < program.num_inputs and register.repeated or register.width != 0 and register.width != width:
            return False
    return not program.moves


cdef void _flatten(Program program) noexcept:
    """Make every element a row."""
    cdef Register* register
    cdef int i
    for i in range(program.num_registers):
        register = &program.registers[i]
        if register.width:
            register.width = 1
            if register.advance:
                register.advance = register.size


cdef void _place(const Run* run, char* scratch) noexcept nogil:
    """Place the registers other than inputs and outputs in the scratch, and repeat rows there."""
    cdef int first = run.num_registers - run.num_steps
    cdef Register* register
    cdef int i
    for i in range(run.num_registers):
        register = &run.registers[i]
        if room_of(run, i) == 0:
            continue
        if i < first:
            _repeat(run, register, scratch + register.room)
        register.data = scratch + register.room
        register.advance = 0


cdef inline void _repeat(const Run* run, const Register* register, char* target) noexcept nogil:
    cdef size_t size = register.width * register.size
    cdef cnp.npy_intp r
    for r in range(run.block):
        memcpy(target + r * size, register.data, size)


cdef int _make_results(Program program, const Table* table, const Node* node, Counters* live, Value* outputs) except -1:
    """Make the output arrays."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef Register* register
    cdef int i
    memcpy(dims, program.batch_dims, (program.rank - 1) * sizeof(cnp.npy_intp))
    for i in range(program.num_results):
        register = &program.registers[program.results[i]]
        dims[program.rank - 1] = register.width
        try:
            register.data = <char*>PyArray_DATA(
                new_array(live, output_type(table, node, i), program.rank, dims, &outputs[i]))
        except BaseException:
            for made in range(i):
                drop(live, &outputs[made])
            raise
        register.advance = register.width * program.itemsize
    return 0


cdef inline void _round(const Run* run, cnp.npy_intp rows) noexcept nogil:
    """Run all steps over a block."""
    cdef int first = run.num_registers - run.num_steps
    cdef int i
    for i in range(run.num_steps):
        run_step(&run.steps[i], run.registers, &run.registers[first + i], rows)


cdef inline void _all_rounds(const Run* run, cnp.npy_intp rows) noexcept nogil:
    """Run all steps over some rows, block after block."""
    cdef int i
    while rows > run.block:
        _round(run, run.block)
        rows -= run.block
        for i in range(run.num_registers):
            run.registers[i].data += run.block * run.registers[i].advance
    if rows > 0:
        _round(run, rows)


cdef int _run(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Run the program of a node; return 0, with nothing done, if the program was not made for such inputs."""
    cdef Program program = <Program><void*>node.params[0]
    cdef cnp.npy_intp widest
    cdef double cost
    cdef Run run
    if not _bind(program, inputs):
        return 0
    widest = _measure(program)
    if widest == 0 or program.rows == 0 or (widest > WIDEST and not _is_flat(program, widest)):
        return 0
    cost = program.rows * widest * program.pace
    _make_results(program, table, node, live, outputs)
    _lay_out(program, widest, &run)
    try:
        if cost < table.at_once:
            _run_now(program, &run)
        else:
            _leave(&run, inputs, program.num_inputs, cost, work)
    except BaseException:
        for made in range(program.num_results):
            drop(live, &outputs[made])
        raise
    return 1


cdef void _lay_out(Program program, cnp.npy_intp widest, Run* run) noexcept:
    """Choose the loop over rows, or over elements if rows do not matter."""
    cdef bint flat = _is_flat(program, widest)
    cdef int i
    if flat:
        _flatten(program)
    run.steps, run.registers = program.steps, program.registers
    run.num_steps, run.num_registers = program.num_steps, program.num_registers
    run.rows = program.rows * widest if flat else program.rows
    run.block = min(BLOCK if flat else max(1, BLOCK // widest), run.rows)
    _find_room(run)


cdef void _find_room(Run* run) noexcept:
    """Find room in the scratch for the registers in need of some.

    Registers take turns where the scratch would be too large, but not in a single block: such a block may be done in
    line, in another order.
    """
    cdef Register* register
    cdef size_t size = 0
    cdef int i
    for i in range(run.num_registers):
        size += room_of(run, i)
    cdef bint take_turns = size > NEAREST and run.block < run.rows
    run.scratch = 0
    for i in range(run.num_registers):
        size = room_of(run, i)
        if size == 0:
            continue
        register = &run.registers[i]
        register.passed_on = False
        if not (take_turns and _take_over(run, i, size)):
            register.room = run.scratch
            run.scratch += size


cdef bint _take_over(const Run* run, int number, size_t size) noexcept:
    """Place a register in the room of another register of its size without later reads; return False if there is none.
    """
    cdef Register* other
    cdef int i
    for i in range(run.num_registers - run.num_steps, number):
        other = &run.registers[i]
        if other.last_reader < number and room_of(run, i) == size and not other.passed_on:
            other.passed_on = True
            run.registers[number].room = other.room
            return True
    return False


cdef int _run_now(Program program, const Run* run) except -1:
    """Run in the program's own memory."""
    cdef char* larger
    if run.scratch > program.size:
        larger = <char*>aligned_alloc(CACHE_LINE, run.scratch)
        if larger == NULL:
            raise MemoryError()
        free(program.scratch)
        program.scratch, program.size = larger, run.scratch
    _place(run, program.scratch)
    _all_rounds(run, run.rows)
    return 0


cdef int _leave(const Run* run, const Value* inputs, int num_inputs, double cost, Work* work) except -1:
    """Leave a run to be done, in memory of its own: the registers, the scalars, and room for each part."""
    cdef int parts = <int>max(1, min(MOST_PARTS, run.rows // run.block))
    cdef size_t head = aligned(run.num_registers * sizeof(Register))
    cdef size_t body = aligned(num_inputs * sizeof(uint64_t))
    cdef char* start = take_memory(work, head + body + parts * part_size(run))
    cdef uint64_t* scalars = <uint64_t*>(start + head)
    cdef Run* left = <Run*>work.arguments
    left[0] = run[0]
    left.registers, left.memory = <Register*>start, start + head + body
    memcpy(start, run.registers, run.num_registers * sizeof(Register))
    for i in range(num_inputs):
        scalars[i] = inputs[i].bits
        if inputs[i].form == SCALAR:
            left.registers[i].data = <char*>&scalars[i]
    leave(work, _run_part, cost, parts)
    return 0


cdef void _run_part(const void* arguments, int part, int parts) noexcept nogil:
    """Run over some of the rows."""
    cdef Run run = (<const Run*>arguments)[0]
    cdef const Register* shared = run.registers
    cdef cnp.npy_intp first = run.rows * part // parts
    cdef cnp.npy_intp count = run.rows * (part + 1) // parts - first
    cdef int i
    run.registers = <Register*>(run.memory + part * part_size(&run))
    run.block = min(run.block, count)
    for i in range(run.num_registers):
        run.registers[i] = shared[i]
        run.registers[i].data += first * shared[i].advance
    _place(&run, <char*>run.registers + aligned(run.num_registers * sizeof(Register)))
    _all_rounds(&run, count)


cdef bint is_fused(Compute compute) noexcept nogil:
    """Return True if a work was left by a fused operation."""
    return compute == _run_part


cdef Native _find_fused(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Fused and keep its program alive in `kept`, or return NULL."""
    if len(attrs["batch_dims"]) >= MOST_DIMS or (None in attrs["batch_dims"] and not any(attrs["has_rows"])):
        return NULL
    program = Program(attrs, len(inputs), outputs[0])
    if not _compile(program, attrs["steps"], outputs[0]):
        return NULL
    kept.append(program)
    params[0] = <int64_t><void*>program
    return _run


register("Fused", _find_fused, ())
