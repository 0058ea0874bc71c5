"""A run of a native program: steps over memory at fixed addresses, and their execution."""

from libc.stdint cimport int64_t, uint64_t
from numpy cimport npy_intp

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Compute, Loop, Type
from tagloom.kernels.core.values cimport SCALAR, Counters, Value
from tagloom.kernels.cpu.arrays cimport ArrayObject, PyArray_DATA, array_in
from tagloom.kernels.native.compiled cimport CompiledProgram
from tagloom.kernels.native.team cimport Team
from tagloom.kernels.scheduler.series cimport Block

cdef enum:
    MOST_OPERANDS = 4  # of an inner loop, its result included
    LONG_STEP = 150000  # nanoseconds, too many on an event loop


cdef enum StepCode:  # as in jit/listed.py
    APPLY  # an inner loop over `count` elements
    WORK  # the work left by a kernel
    WORK_TO  # the same; its unboxed result goes to operand 0
    COPY  # `count` bytes from operand 1 to operand 0
    COPY_8
    ADD_ONE  # to the int64 at operand 0
    GO  # on at the target
    GO_BACK  # the same, to an earlier step; `count` is how often
    GO_UNLESS  # the bool at operand 0 is true; `count` is how often
    GO_TO  # the target with the number in the bool or int32 at operand 0
    GUARD_DIVISOR  # give up if any of `count` integers at operand 0, each of `strides[0]` bytes, is zero
    GUARD_EXPONENT  # the same if an integer is negative
    PUSH_ROW  # `count` bytes from operand 1 to the row of the Writer at operand 0; its number is the int64 at operand 2
    READ_ROW  # like CALL: to operand 1, the row of the Reader at operand 0; its number is the integer at operand 2
    ADD_ROWS  # the same: adds `count` rows at operands 1 and 2 to the gathered rows of the Sum at operand 0
    CALL  # `act`, which accesses `strides` bytes at each operand in memory of the run's steps
    END


cdef enum Status:  # as in jit/listed.py
    SUSPENDED
    DONE
    GAVE_UP
    NO_ROOM  # for a row


cdef struct Writer:  # of a series
    Block* blocks  # the series' own
    int num_blocks
    int at  # block of the last write
    int series  # register of the series
    Block block  # a copy of the current block, in a fixed place for compiled code


cdef enum Verdict:  # as in jit/listed.py
    NO  # the program must give up
    YES
    LATER  # once there is room

cdef npy_intp most_value_bytes  # bytes of a value of compiled code; longer rows are accessed in place

cdef struct Step


cdef struct Place:  # a variable for the address of a row, or of a part of the row
    char** at
    npy_intp offset  # in the row, in bytes

ctypedef Verdict (*Act)(const Step*) noexcept nogil


cdef struct Step:
    int code
    int instruction  # of which this step is recorded
    int target
    int num_targets
    int* targets  # GO_TO: steps
    Loop loop
    void* data  # its last argument
    Compute compute
    Act act  # of called steps; in compiled code also of PUSH_ROW and guards
    uint64_t* arguments  # APPLY: the bytes of each operand's element, or NULL where the operation tells them
    npy_intp count
    npy_intp strides[MOST_OPERANDS]
    char* operands[MOST_OPERANDS]
    bint in_place  # PUSH_ROW, READ_ROW, CALL: no copy, the row's address goes to the places; ADD_ROWS: the next row's
    int moving  # a bit for each operand with an address in such a place
    int num_places
    Place* places


cdef struct Execution

# Compiled code for the steps: starts at `at`, runs until it ends or has gone back `left` times, and returns its status.
ctypedef Status (*Code)(Step*, uint64_t* cells, Execution*) noexcept nogil


cdef struct Execution:
    Step* steps
    uint64_t* cells
    int at  # step to go on with
    Status status
    int64_t stride  # jumps back between two looks at the clock
    int64_t left  # of these
    int64_t spent  # nanoseconds
    Code code  # or NULL: the steps are interpreted
    bint is_settled  # no code will come any more


cdef struct Register:
    Value value  # OBJECT: an array; SCALAR: known; EMPTY: nothing yet, or only the cell
    char* cell  # the element of an unknown value without dimensions; else NULL
    bint is_known  # the same at every read
    bint is_home  # memory of its own, to which values are moved
    bint is_row  # of a series or a TensorArray, perhaps in its own memory: no result may lie there


cdef class Run:
    cdef CompiledProgram program  # keeps the kernels alive
    cdef Arena arena  # owns the steps' arguments
    cdef Counters held  # counts of the values in the registers; not counted by a machine
    cdef Execution execution
    cdef Team team  # shares the long works
    cdef bint is_shared  # there are long works for the team
    cdef bint is_long  # a step may keep an event loop waiting
    cdef bint has_homes  # the inputs have memory of their own, to which other inputs can be copied
    cdef int64_t uses  # of a cluster: number of its runs
    cdef double cost  # expected nanoseconds of the works left by kernels, each counted once
    cdef Step* steps
    cdef int num_steps
    cdef int capacity
    cdef Register* registers
    cdef Value cells  # an array of uint64
    cdef int used  # cells
    cdef list opaque  # first and last addresses of memory accessed by works, and their steps
    cdef object compilation  # of its steps, or None
    cdef bint is_listed  # whether compiled code for its steps was looked for
    cdef list written  # Series written by the run
    cdef list writers  # addresses of their Writers
    cdef list shapes  # for each, the register of its values, and the array in it or None
    cdef list read  # Series read by the run
    cdef list readers  # addresses of their Readers
    cdef Arena rows  # owns the addresses of rows that these use
    cdef list nests  # state of series in slots of others
    cdef list sums  # ProductSum that it adds to
    cdef list sum_states  # addresses of their Sums
    cdef dict loops  # by name: the step that ends a loop, and the one that goes back in it
    cdef dict tensor_arrays  # by register: the run's state of an array, a TensorArrayRun
    cdef int64_t trips  # of the outermost loop, about; 0 if that is not known
    cdef list kept  # memory that the steps write and read and no register holds
    cdef list calls  # of kernels in Python
    cdef list traced  # names of operations whose Python kernels became steps
    cdef str reason  # why it could not be recorded, or None


cdef class Refusal(Exception):
    pass


cdef Step* add_step(Run run, int code) except NULL
cdef int hide(Run run, ArrayObject* array) except -1
cdef size_t checked(size_t size) except? 0
cdef void go(Execution* x, int64_t time) noexcept nogil
cdef void go_through(Execution* x) noexcept nogil
cdef Verdict push_row(const Step* step) noexcept nogil
cdef Verdict pass_guard(const Step* step) noexcept nogil
cdef bint are_straight(Run run, int first, int last) noexcept


cdef inline void point_to(const Step* step, char* row) noexcept nogil:
    """Set the address of a row in the steps with access to the row."""
    cdef int k
    for k in range(step.num_places):
        step.places[k].at[0] = row + step.places[k].offset


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
    """Return True if a register holds an unboxed element."""
    return register.cell != NULL or register.value.form == SCALAR


cdef inline char* new_cell(Run run) noexcept:
    """Return room for an element; called at most once for each register, and once for each boxed input of a kernel."""
    run.used += 1
    return <char*>PyArray_DATA(array_in(run.cells)) + 8 * (run.used - 1)
