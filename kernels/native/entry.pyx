"""The kernel of Native: records a run of its program, and runs it slice after slice."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from tagloom.kernels.native.program import NativeProgram

from tagloom.kernels.core.cost cimport Py_CLEAR, keep, leave
from tagloom.kernels.core.table cimport LOST, QUEUE, UNFINISHED, Native, Node, Table, Work, output_type
from tagloom.kernels.core.values cimport Counters, Value, hold, scalar
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.native.calls cimport reason_of_calls
from tagloom.kernels.native.compiled cimport CompiledProgram
from tagloom.kernels.native.compiling cimport use_code
from tagloom.kernels.native.exchanging cimport put_variables_back
from tagloom.kernels.native.giving_up cimport give_up
from tagloom.kernels.native.kept cimport KeptRuns, copy_out, put_back, run_cluster, run_of_loop
from tagloom.kernels.native.nesting cimport close_nests
from tagloom.kernels.native.run cimport DONE, GAVE_UP, NO_ROOM, SUSPENDED, Execution, Register, Run, go
from tagloom.kernels.native.saving cimport close_series, make_room, release_rows
from tagloom.kernels.native.sums cimport close_sums
from tagloom.kernels.native.team cimport SHORTEST_SHARE, Team, close_team, help_team, is_set, open_team
from tagloom.kernels.native.tensor_arrays cimport are_as_found, close_tensor_arrays, grow_tensor_arrays

cdef int64_t FIRST = 1000000  # nanoseconds of the first slice, which runs where the step does, as long as a drain may
cdef int64_t FIRST_OF_SHARED = 150000  # of one whose works threads share in each iteration
cdef int64_t SLICE = 5000000  # nanoseconds of the others, on a thread of a pool
cdef int64_t LONGEST = 50000000  # nanoseconds of a thread's turn if no other work waits for it
cdef int64_t SHORT = 500000  # nanoseconds where there is none

cdef enum:
    MOST_THREADS = 16  # that a run shares its works among

cdef struct Slice:
    Execution* execution
    Team* team
    bint calls  # kernels in Python


cdef int _run(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Run a program from its beginning, or from the suspended step; leave the next slice as work.

    Outputs true and the results; returns 0, with nothing done, if the program does not fit the inputs, or gave up.
    """
    cdef Run run
    cdef Slice* slice = <Slice*>work.arguments
    cdef CompiledProgram program = <CompiledProgram><void*>node.params[0]
    # Any other object there was kept by a kernel that then declined.
    if work.kept == NULL or not isinstance(<object>work.kept, Run):
        if program.skips:
            program.skips -= 1
            return 0
        run = run_of_loop(<KeptRuns><void*>node.params[1], program, inputs)
        if run.reason is not None:
            return give_up(program, node, run.reason)
        use_code(run)
        _go_first(run)
    else:
        run = <Run><object>work.kept
        Py_CLEAR(work.kept)
    use_code(run)
    while run.execution.status == NO_ROOM:
        make_room(run)
        grow_tensor_arrays(run)
        run.execution.status = SUSPENDED
        _go_first(run)
    if run.execution.status == GAVE_UP:
        return give_up(program, node, reason_of_calls(run) or "an operation wants to raise an error, or its Python kernel")
    if run.execution.status == DONE and not are_as_found(run):
        return give_up(program, node, "a TensorArray has changed meanwhile")
    if run.execution.status == DONE:
        return _finish(run, table, node, live, outputs)
    keep(work, <PyObject*>run)
    slice.execution, slice.team, run.team.over = &run.execution, &run.team, 0
    slice.calls = bool(run.calls)
    leave(work, _run_slice, SLICE, MOST_THREADS if run.is_shared else 1)
    work.arguments[UNFINISHED] = <uint64_t><PyObject*>run
    return 1


cdef int _go_first(Run run) noexcept:
    """Run the first slice, unless a step of the run takes long."""
    cdef bint is_shared = run.is_shared and run.cost >= 2 * SHORTEST_SHARE
    if not run.is_long:
        go(&run.execution, FIRST_OF_SHARED if is_shared else FIRST)
    return 0


cdef void _run_slice(const void* arguments, int part, int parts) noexcept nogil:
    """Go through the steps, or help the thread doing so.

    On a thread of a pool slices follow one another, unless other work waits for a thread, the run was lost, a helper
    has left, or the event loop is to look whether there is code for the run.
    """
    cdef const Slice* slice = <const Slice*>arguments
    if part > 0:
        help_team(slice.team, <void**>(<const uint64_t*>arguments)[QUEUE])
        return
    open_team(slice.team, parts)
    if slice.calls:
        with gil, nogil:  # so that the thread has a state of the interpreter, which each call would make
            _run_slices(slice, <const uint64_t*>arguments)
    else:
        _run_slices(slice, <const uint64_t*>arguments)
    close_team(slice.team)


cdef void _run_slices(const Slice* slice, const uint64_t* words) noexcept nogil:
    cdef void** queue = <void**>words[QUEUE]
    cdef int64_t slices = LONGEST // SLICE if queue != NULL and slice.execution.is_settled else 1
    while slices > 0:
        slices -= 1
        go(slice.execution, SLICE if queue != NULL else SHORT)
        if slice.execution.status != SUSPENDED or is_set(<void**>&words[LOST]) or is_set(<void**>&slice.team.left):
            break
        if queue != NULL and is_set(queue):
            break


cdef int _finish(Run run, const Table* table, const Node* node, Counters* live, Value* outputs) except -1:
    """Output the results of a finished run."""
    cdef Register* register
    cdef int i
    run.program.misses, run.program.reason = 0, None
    put_variables_back(run)
    close_series(run)
    close_nests(run)
    close_sums(run)
    close_tensor_arrays(run)
    release_rows(run)
    _count(run)
    outputs[0] = scalar(1)
    if run.has_homes:
        copy_out(run, table, node, live, outputs)
        return put_back(<KeptRuns><void*>node.params[1], run) + 1
    for i in range(run.program.num_outputs):
        register = &run.registers[run.program.outputs[i]]
        if register.cell != NULL:
            outputs[i + 1] = scalar(0)
            memcpy(&outputs[i + 1].bits, register.cell, output_type(table, node, i + 1).size)
        else:
            hold(live, &outputs[i + 1], register.value)
    return 1


cdef int _count(Run run) except -1:
    """Add the counts of a run's loops to the counters of the program."""
    cdef int end, back
    for name, (end, back) in run.loops.items():
        runs, iterations = run.program.counted.get(name, (0, 0))
        ended = run.steps[end].count
        run.program.counted[name] = runs + ended, iterations + ended + run.steps[back].count
        run.steps[end].count = run.steps[back].count = 0
    return 0


cdef Native _find_native_program(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Compile the program of a Native, which is kept alive."""
    program = CompiledProgram(NativeProgram.from_attribute(attrs["program"]))
    kept.append(program)
    params[0] = <int64_t><void*>program
    runs = KeptRuns()
    kept.append(runs)
    params[1] = <int64_t><void*>runs
    return run_cluster if program.is_cluster else _run


register("Native", _find_native_program)
