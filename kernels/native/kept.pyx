"""Runs kept for other inputs of the same shapes: runs of clusters, which have no loops, and of small loops.

To record a run costs more than to run the operations of a cluster on the step machine, or a few thousand iterations of
a small loop. So inputs are copied to memory of the run, and results from there to arrays of their own: no other code
sees the memory of a run. Series are new in each run, and a kept run refers to none; a sum of products is
copied as arrays are. A run under way is not in the list of kept runs; other calls meanwhile record another run.

See docs/design/0029-clusters.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.string cimport memcmp, memcpy

from tagloom.kernels.core.table cimport Node, Table, Work, output_type
from tagloom.kernels.core.values cimport (
    EMPTY, OBJECT, SCALAR, Counters, Value, drop, hold, object_value, pointer, scalar,
)
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_CheckExact, PyArray_DATA, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM, array_in, is_plain,
    new_array, same_shape,
)
from tagloom.kernels.cpu.product_sum cimport ProductSum, sum_in
from tagloom.kernels.native.compiled cimport CompiledProgram
from tagloom.kernels.native.compiling cimport use_code
from tagloom.kernels.native.giving_up cimport give_up
from tagloom.kernels.native.moving cimport is_unboxed
from tagloom.kernels.native.recording cimport is_series_or_sum, record, trips_of
from tagloom.kernels.native.run cimport COPY, DONE, LONG_STEP, Refusal, Register, Run, go, go_through, most_value_bytes
from tagloom.kernels.native.saving cimport forget_series, may_see_others, see_series
from tagloom.kernels.native.sums cimport begin_sum, copy_of_sum, fits_sum, may_add_to_others

cnp.import_array()

cdef enum:
    COST = 16  # runs after which recording one has paid
    FIRST_CREDIT = 4 * COST
    MOST_CREDIT = 16 * COST
    TIMED = 16  # of so many runs one is timed
    MOST_KEPT = 8  # runs of a cluster, so many shapes at most
    MOST_LOOPS = 32  # runs of a loop, which hold little memory
    SMALL = 1024  # bytes of all values of a loop; up to these recording takes longer than to copy inputs and results


cdef class KeptRuns:
    """The runs of a program, except runs under way.

    Its program does not know of them, since each of them knows the program.
    """

    def __cinit__(self):
        self.idle, self.credit = [], FIRST_CREDIT


cdef int run_cluster(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Run a cluster at once; output true and the results, or false if the cluster does not fit the inputs, or gave up.
    """
    cdef CompiledProgram program = <CompiledProgram><void*>node.params[0]
    cdef KeptRuns kept = <KeptRuns><void*>node.params[1]
    cdef Run run = _take(kept, program, inputs)
    if run is None:
        if not _may_record(kept, program):
            return _refuse(node, outputs)
        run = _record_cluster(program, inputs)
        if run.reason is not None:
            give_up(program, node, run.reason)
            return _refuse(node, outputs)
    _copy_in(run, inputs)
    _go(run)
    if run.execution.status != DONE:
        give_up(program, node, "an operation wants to raise an error, or its Python kernel")
        return _refuse(node, outputs)
    program.misses, program.reason, program.runs = 0, None, program.runs + 1
    outputs[0] = scalar(1)
    copy_out(run, table, node, live, outputs)
    put_back(kept, run)
    kept.credit = min(kept.credit + 1, MOST_CREDIT)
    return 1


cdef int _refuse(const Node* node, Value* outputs) noexcept:
    """Set the first output to false, so that the operations run, and the results to placeholders."""
    cdef int i
    for i in range(node.num_outputs):
        outputs[i] = scalar(0)
    return 1


cdef int _go(Run run) except -1:
    """Run the steps, and measure the time of some runs, so that a long program is compiled."""
    if run.uses % TIMED:
        go_through(&run.execution)
    else:
        use_code(run)
        run.execution.at = 0
        go(&run.execution, LONG_STEP)
        run.execution.spent *= TIMED
    run.uses += 1
    return 0


cdef bint _may_record(KeptRuns kept, CompiledProgram program) except -1:
    """Return True if a run should be recorded: not after recent failures, nor where shapes change each time."""
    if program.skips:
        program.skips -= 1
        return False
    if kept.credit < COST:
        kept.credit += 1
        program.reason = "its inputs have other shapes almost each time"
        return False
    kept.credit -= COST
    return True


cdef Run _record_cluster(CompiledProgram program, const Value* inputs):
    """Return a run for inputs of the same shapes; its `reason` is set if the run must not be used."""
    cdef Run run = record(program, inputs, True)
    if run.reason is None and (run.is_long or run.cost >= LONG_STEP):
        run.reason = f"it takes {1e-3 * run.cost:.0f} us, so that others should have their turn meanwhile"
    return run


cdef Run run_of_loop(KeptRuns kept, CompiledProgram program, const Value* inputs):
    """Return a run of a loop for its inputs, at its beginning; its `reason` is set if the run must not be used."""
    cdef Run run
    if not program.keeps_runs or not _are_small(program, inputs):
        return record(program, inputs, False)
    run = _take(kept, program, inputs)
    if run is not None:
        if _begin(run, inputs):
            return run
        put_back(kept, run)
    run = record(program, inputs, True)
    if run.reason is None and _may_be_kept(run):
        _copy_in(run, inputs)
        return run
    run = None  # its memory goes first
    run = record(program, inputs, False)
    # A reason that holds for other recordings as well, such as a series without values, need not hold the next time.
    program.keeps_runs = run.reason is not None
    return run


cdef bint _begin(Run run, const Value* inputs) except -1:
    """Start a kept run with its inputs; return False if the run does not fit the values in their series."""
    _copy_in(run, inputs)
    run.execution.at = 0
    run.trips = trips_of(run)
    try:
        see_series(run)
    except Refusal:
        return False
    return True


cdef bint _may_be_kept(Run run) except -1:
    """Return True if a run of a loop can be used for other inputs too, and saves time compared to recording.

    A run with calls of kernels is not kept: a run recorded for known inputs may not need these calls.
    """
    return not run.calls and not run.is_long and not run.is_shared and may_see_others(run) and may_add_to_others(run) and _is_small(run)


cdef bint _are_small(CompiledProgram program, const Value* inputs) except -1:
    """Return True if inputs are elements, small arrays in order, series, or sums of products."""
    cdef Py_ssize_t left = SMALL
    cdef ArrayObject* array
    cdef int i
    for i in range(program.num_inputs):
        if is_series_or_sum(inputs[i]):
            continue
        array = array_in(inputs[i])
        if array == NULL:
            if inputs[i].form != SCALAR:
                return False
            continue
        left -= PyArray_NBYTES(array) if is_plain(array) else SMALL
        if left < 0:
            return False
    return True


cdef bint _is_small(Run run) except -1:
    """Return True if a run holds little memory, and copies no values which another run would exchange."""
    cdef Py_ssize_t size = sum([each.nbytes for each in run.kept if isinstance(each, cnp.ndarray)])
    cdef ProductSum each_sum
    cdef ArrayObject* array
    cdef int i
    for i in range(run.program.num_registers):
        array = array_in(run.registers[i].value)
        if array != NULL and PyArray_CheckExact(array):
            size += PyArray_NBYTES(array)
    for each_sum in run.sums:
        size += each_sum.total.nbytes
    for i in range(run.num_steps):
        if run.steps[i].in_place or run.steps[i].code == COPY and run.steps[i].count > most_value_bytes:
            return False
    return size <= SMALL


cdef Run _take(KeptRuns kept, CompiledProgram program, const Value* inputs):
    """Take the most recently used of the kept runs for such inputs, or return None."""
    cdef Py_ssize_t i
    for i in range(len(kept.idle) - 1, -1, -1):
        if _fits(<Run>kept.idle[i], program, inputs):
            return kept.idle.pop(i)
    return None


cdef int put_back(KeptRuns kept, Run run) except -1:
    """Keep a run, without its series; beyond the limit the least recently used run is dropped."""
    cdef Register* register
    cdef int i
    forget_series(run)
    for i in range(run.program.num_inputs):
        register = &run.registers[run.program.inputs[i]]
        if not register.is_home and not register.is_known and sum_in(register.value) is None:
            drop(&run.held, &register.value)
    kept.idle.append(run)
    if len(kept.idle) > (MOST_KEPT if run.program.is_cluster else MOST_LOOPS):
        del kept.idle[0]
    return 0


cdef bint _fits(Run run, CompiledProgram program, const Value* inputs) except -1:
    """Return True if a run has memory for such values."""
    cdef Register* register
    cdef ArrayObject* array
    cdef int i
    for i in range(program.num_inputs):
        register = &run.registers[program.inputs[i]]
        if not register.is_home:
            if not (_is_same_size(register, inputs[i]) if register.is_known else
                    _may_see(run, program.inputs[i], inputs[i])):
                return False
            continue
        if is_unboxed(run, program.inputs[i], inputs[i]) != (register.cell != NULL):
            return False
        if register.cell != NULL:
            continue
        array = array_in(inputs[i])
        if array == NULL or not is_plain(array) or not same_shape(array, array_in(register.value)):
            return False
    return True


cdef bint _is_same_size(const Register* register, Value value) except -1:
    """Return True if a value that determines shapes is the one for which a run was recorded."""
    cdef ArrayObject* array = array_in(value)
    cdef ArrayObject* known = array_in(register.value)
    if array == NULL or known == NULL:
        return value.form == SCALAR and register.value.form == SCALAR and value.bits == register.value.bits
    return is_plain(array) and same_shape(array, known) and memcmp(
        PyArray_DATA(array), PyArray_DATA(known), PyArray_NBYTES(known)) == 0


cdef bint _may_see(Run run, int number, Value value) except -1:
    """Return True if a run can use a value, a series or a sum of products, in a register without memory of its own."""
    cdef ProductSum given = sum_in(value)
    if given is not None:
        return fits_sum(run, number, given)
    return is_series_or_sum(value) and run.registers[number].value.form == EMPTY


cdef int _copy_in(Run run, const Value* inputs) except -1:
    """Copy the inputs to a run's memory; series are seen as they are."""
    cdef Register* register
    cdef ArrayObject* array
    cdef int i
    for i in range(run.program.num_inputs):
        register = &run.registers[run.program.inputs[i]]
        array = array_in(inputs[i])
        if register.is_known:
            continue  # a size: see `_is_same_size`
        if not register.is_home:
            _see(run, run.program.inputs[i], inputs[i])
        elif array == NULL:
            memcpy(register.cell, &inputs[i].bits, sizeof(inputs[i].bits))
        elif register.cell != NULL:
            memcpy(register.cell, PyArray_DATA(array), PyArray_NBYTES(array))
        else:
            memcpy(PyArray_DATA(array_in(register.value)), PyArray_DATA(array), PyArray_NBYTES(array))
    return 0


cdef int _see(Run run, int number, Value value) except -1:
    """Bring in a series, or the value of a sum of products."""
    cdef Register* register = &run.registers[number]
    if sum_in(value) is not None:
        return begin_sum(run, number, sum_in(value))
    drop(&run.held, &register.value)
    hold(&run.held, &register.value, value)
    return 0


cdef int copy_out(Run run, const Table* table, const Node* node, Counters* live, Value* outputs) except -1:
    """Output the results as arrays of their own."""
    cdef Register* register
    cdef int i
    for i in range(run.program.num_outputs):
        register = &run.registers[run.program.outputs[i]]
        if register.cell != NULL:
            outputs[i + 1] = scalar(0)
            memcpy(&outputs[i + 1].bits, register.cell, output_type(table, node, i + 1).size)
        elif register.value.form == SCALAR:
            outputs[i + 1] = register.value
        elif sum_in(register.value) is not None:
            result = copy_of_sum(sum_in(register.value))
            hold(live, &outputs[i + 1], object_value(<PyObject*>result))
        elif is_series_or_sum(register.value):
            hold(live, &outputs[i + 1], register.value)
        else:
            _copy_array(array_in(register.value), table, node, live, outputs, i + 1)
    return 0


cdef int _copy_array(
        ArrayObject* array, const Table* table, const Node* node, Counters* live, Value* outputs, int k) except -1:
    cdef ArrayObject* made
    if is_plain(array):
        made = new_array(live, output_type(table, node, k), PyArray_NDIM(array), PyArray_DIMS(array), &outputs[k])
        memcpy(PyArray_DATA(made), PyArray_DATA(array), PyArray_NBYTES(array))
    else:
        copy = cnp.PyArray_NewCopy(<cnp.ndarray><PyObject*>array, cnp.NPY_CORDER)
        hold(live, &outputs[k], object_value(<PyObject*>copy))
    return 0
