"""Kernels in Python as steps of a run."""

from cpython.object cimport PyObject
from libc.stdint cimport uint16_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from tagloom.kernels.native.tracing.interface import Untraceable
from tagloom.kernels.native.tracing.kernel import describe_failure, trace_kernel

from tagloom.kernels.core.convert cimport box
from tagloom.kernels.core.cost cimport Py_CLEAR
from tagloom.kernels.core.table cimport Loop, Node, Table, Type, Work, describe_type
from tagloom.kernels.core.values cimport OBJECT, Value, drop, empty, hold, object_value, pointer
from tagloom.kernels.cpu.arrays cimport ArrayObject
from tagloom.kernels.cpu.registry cimport find_native, find_own_loop
from tagloom.kernels.cpu.ufuncs cimport find_loop_of
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport WORK, WORK_TO, Run, Step, add_step, hide, type_of
from tagloom.kernels.native.draws cimport Philox, append_draw, append_start
from tagloom.kernels.native.rows cimport append_assumption, append_check, append_put, append_take
from tagloom.kernels.native.sorts cimport append_order, append_sort
from tagloom.kernels.native.stacks cimport append_stack
from tagloom.kernels.native.strided cimport (
    FUNCTION, append_copy, append_gather, append_loop, append_scan, count_cost, data_in,
)

cdef class RunTape:
    """The end of a run's steps, for the steps of a kernel; see `Tape` in tracing/interface.py.

    Attributes
    ----------
    answers : Answers
    """

    cdef Run run
    cdef public object answers
    cdef tuple start  # as the run was before the kernel

    def __init__(self, Run run):
        self.run = run
        self.start = run.num_steps, len(run.opaque), len(run.kept), run.cost, run.is_long

    def restart(self):
        """Drop the steps of the kernel."""
        self.run.num_steps, opaque, kept, self.run.cost, self.run.is_long = self.start
        del self.run.opaque[opaque:], self.run.kept[kept:]

    def assume(self, condition, bint value):
        """Append a check of a bool; the program gives up where the bool differs from `value`."""
        append_assumption(self.run, condition, value)

    def start_draws(self, key, counter):
        """Append the start of a Philox generator; return the address of its state."""
        return <size_t>append_start(self.run, key, counter)

    def draw(self, size_t state, str kind, list parameters, output):
        """Append draws to fill an array."""
        append_draw(self.run, <Philox*>state, kind, parameters, output)

    def sort_rows(self, array, bint is_stable):
        """Append a sort of elements along the last axis, in place, of an array in order."""
        append_sort(self.run, array, is_stable)

    def order_rows(self, source, places, bint is_stable):
        """Append an argsort of elements along the last axis; both arrays are in order."""
        append_order(self.run, source, places, is_stable)

    def apply_ufunc(self, ufunc, list inputs, list outputs):
        """Append the inner loop of a ufunc for the dtypes of arrays of equal shapes."""
        cdef void* data = NULL
        cdef Loop loop = _find_loop(ufunc, inputs + outputs, &data)
        append_loop(
            self.run, loop, data, inputs, outputs, FUNCTION, keeps_pointers=getattr(np, ufunc.__name__, None) is ufunc)

    def choose_elements(self, condition, x, y, output):
        """Append an elementwise choice."""
        self._own("Where", [condition, x, y], output)

    def cast_elements(self, source, target):
        """Append a copy of elements to another dtype."""
        self._own("Cast", [source], target)

    def copy_elements(self, source, target):
        """Append a copy of elements, of the same dtype and shape."""
        append_copy(self.run, source, target)

    def gather_elements(self, source, places, target):
        """Append a copy of the elements at places of an array in order, counted from 1; 0 stands for zero."""
        append_gather(self.run, source, places, target)

    def take_rows(self, table, list numbers, target):
        """Append a copy of rows of an array, by changing numbers; the program gives up where a number is out of range.
        """
        append_take(self.run, table, numbers, target)

    def put_rows(self, table, list numbers, source, ufunc=None):
        """Append a copy to rows of an array, or an update of these rows by a ufunc, row after row."""
        cdef void* data = NULL
        cdef Loop loop = NULL if ufunc is None else _find_loop(ufunc, 3 * [table], &data)
        append_put(self.run, table, numbers, source, loop, data)

    def check_rows(self, numbers, count):
        """Append a check of numbers to be in [0, count); the program gives up where a number is not."""
        append_check(self.run, numbers, count)

    def apply_gufunc(self, ufunc, list ranks, list sizes, list arrays, bint checks):
        """Append a generalised ufunc; with `checks` the program gives up where the ufunc reports an error."""
        cdef void* data = NULL
        cdef Loop loop = _find_loop(ufunc, arrays, &data)
        append_stack(self.run, loop, data, ranks, sizes, arrays[:ufunc.nin], arrays[ufunc.nin:], checks)

    def accumulate(self, ufunc, source, target):
        """Append a running sum, or product, along the last axis."""
        cdef void* data = NULL
        cdef Loop loop = _find_loop(ufunc, 3 * [source], &data)
        append_scan(self.run, loop, data, source, target)

    def operate(self, str type, dict attrs, list inputs, dtype):
        """Append the work of the C kernel of an operation with a single output; return the output."""
        cdef Work work
        cdef Value value
        cdef Value* given = <Value*>self.run.arena.take(len(inputs), sizeof(Value))
        cdef const Table* table = _new_table(self.run, type, attrs, inputs, dtype)
        cdef int k
        memset(&work, 0, sizeof(Work))
        value = empty()
        for k, array in enumerate(inputs):
            given[k] = object_value(<PyObject*>array)
        try:
            if not table.nodes.native(table, table.nodes, given, &self.run.held, &value, &work) or work.compute == NULL:
                raise Untraceable
            return self._keep(&work, inputs, value, dtype)
        finally:
            Py_CLEAR(work.kept)
            drop(&self.run.held, &value)

    cdef object _keep(self, Work* work, list inputs, Value value, dtype):
        """Append the work of a kernel, and return the array of its result: an unboxed result gets memory."""
        cdef Step* step
        cdef uint64_t* arguments = <uint64_t*>self.run.arena.take(1, sizeof(work.arguments))
        memcpy(arguments, work.arguments, sizeof(work.arguments))
        if value.form == OBJECT:
            made = <object>pointer(value)
            step = add_step(self.run, WORK)
        else:
            made = np.zeros(1, np.uint64).view(dtype)[:1].reshape(())
            step = add_step(self.run, WORK_TO)
            step.operands[0] = data_in(made)
        step.compute, step.arguments = work.compute, arguments
        if work.kept != NULL:
            self.run.kept.append(<object>work.kept)
        self.run.kept += [*inputs, made]
        for array in (*inputs, made):
            hide(self.run, <ArrayObject*><PyObject*>array)
        count_cost(self.run, work.cost)
        return made

    cdef int _own(self, str type, list inputs, output) except -1:
        """Append a loop of our own."""
        cdef void* data = NULL
        cdef Loop loop = find_own_loop(type, [a.dtype for a in inputs], [output.dtype], &data, self.run.arena)
        if loop == NULL:
            raise Untraceable
        append_loop(self.run, loop, data, inputs, [output], FUNCTION)
        return 0


cdef Table* _new_table(Run run, str type, dict attrs, list inputs, dtype) except NULL:
    """Return a table with a single node, of an operation with a single output."""
    cdef Table* table = <Table*>run.arena.take(1, sizeof(Table))
    cdef Node* node = <Node*>run.arena.take(1, sizeof(Node))
    cdef int count = len(inputs)
    cdef int k
    given = [array.dtype for array in inputs]
    made = [dtype]
    table.nodes, node.num_inputs, node.num_outputs = node, count, 1
    table.types = <Type*>run.arena.take(count + 1, sizeof(Type))
    table.input_types = <uint16_t*>run.arena.take(count, sizeof(uint16_t))
    table.output_types = <uint16_t*>run.arena.take(1, sizeof(uint16_t))
    for k, each in enumerate(given + made):
        describe_type(&table.types[k], each)
    for k in range(count):
        table.input_types[k] = k
    table.output_types[0] = count
    run.kept.append(given + made)
    node.native = find_native(type, attrs, given, made, node.params, run.kept)
    if node.native == NULL:
        raise Untraceable
    return table


cdef Loop _find_loop(ufunc, list arrays, void** data) except NULL:
    """Return the inner loop of a ufunc for the dtypes of arrays, and store its data."""
    cdef Loop loop = find_loop_of(ufunc, [a.dtype.num for a in arrays], data)
    if loop == NULL or not all([a.dtype.kind in "biufc" and a.dtype.isnative for a in arrays]):
        raise Untraceable
    return loop


cdef bint record_trace(Run run, const Instruction* each, const Value* inputs, Value* outputs) except -1:
    """Record the Python kernel of an operation as steps; return False, with nothing recorded, if some part has no step.
    """
    cdef object computation = run.program.source_of(each).computation
    cdef object kernel = computation.kernel
    cdef RunTape tape
    cdef int k
    if kernel is None:
        return False
    if not kernel.is_traceable:
        run.program.untraced[computation.name] = "its kernel is of an outside package"
        return False
    given = [box(inputs[k], type_of(run, each.inputs[k])) for k in range(each.num_inputs)]
    changing = [not run.registers[each.inputs[k]].is_known for k in range(each.num_inputs)]
    tape = RunTape(run)
    try:
        results = trace_kernel(tape, kernel.bound_to, given, changing)
        is_as_declared = len(results) == each.num_outputs and all([
            a.dtype == run.program.dtypes[run.program.register_types[each.outputs[k]]] for k, a in enumerate(results)])
    except MemoryError:  # the instance waits for room, and records anew
        raise
    except Exception as error:  # an Untraceable, or an error that the step machine will raise from the kernel
        is_as_declared = False
        if computation.name not in run.program.untraced:
            run.program.untraced[computation.name] = describe_failure(error)
    if not is_as_declared:
        tape.restart()
        return False
    if any(changing):
        run.traced.append(computation.name)
    run.kept += [*given, *results]  # a result that is a constant is not written again, so no step may take its memory
    for k in range(each.num_outputs):
        hold(&run.held, &outputs[k], object_value(<PyObject*>results[k]))
    return True
