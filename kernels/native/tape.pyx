"""Kernels in Python as steps of a run: inner loops over arrays of any strides, copies, and moves of elements."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.string cimport memcpy, memset
from numpy cimport npy_intp

import numpy as np

from tagloom.kernels.native.traced import Untraceable, trace_kernel

from tagloom.kernels.core.convert cimport box
from tagloom.kernels.core.cost cimport Py_CLEAR
from tagloom.kernels.core.table cimport Loop, Node, Table, Type, Work, describe_type
from tagloom.kernels.core.values cimport OBJECT, Value, drop, empty, hold, object_value, pointer
from tagloom.kernels.cpu.arrays cimport ArrayObject, PyArray_DATA
from tagloom.kernels.cpu.registry cimport find_native, find_own_loop
from tagloom.kernels.cpu.ufuncs cimport find_loop_of
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport APPLY, LONG_STEP, MOST_OPERANDS, WORK, WORK_TO, Run, Step, add_step, hide, type_of

cnp.import_array()

cdef enum:
    MOST_DIMS = 16
    MOST_ARRAYS = 8  # of a loop
    FUNCTION = 8  # nanoseconds that an element of a loop takes, at most
    MOVE = 1  # nanoseconds of an element that is copied


# Loops over integers that raise an error, or warn, for some of them.
_RAISING = frozenset(("power", "floor_divide", "remainder", "fmod", "divmod"))


cdef struct Walk:  # an inner loop over arrays of one shape and any strides
    Loop loop
    void* data
    int arrays
    int rank
    npy_intp dims[MOST_DIMS]
    npy_intp strides[MOST_ARRAYS][MOST_DIMS]
    char* pointers[MOST_ARRAYS]


cdef struct Gather:  # elements at places of an array, counted from 1; 0 stands for zero
    const char* source
    char* target
    const int64_t* places
    npy_intp count
    npy_intp size  # bytes of an element


cdef class RunTape:
    """The end of a run's steps, for the steps of a kernel; see `Tape` in traced.py."""

    cdef Run run

    def __init__(self, Run run):
        self.run = run

    def apply_ufunc(self, ufunc, list inputs, list outputs):
        """Append the inner loop of a ufunc for the dtypes of arrays that all have one shape."""
        cdef void* data = NULL
        cdef Loop loop = find_loop_of(ufunc, [a.dtype.num for a in inputs + outputs], &data)
        if ufunc.__name__ in _RAISING and inputs[0].dtype.kind in "iu":
            raise Untraceable
        if loop == NULL or not all([a.dtype.kind in "biufc" and a.dtype.isnative for a in inputs + outputs]):
            raise Untraceable
        _append(self.run, loop, data, inputs, outputs, FUNCTION, keeps_pointers=getattr(np, ufunc.__name__, None) is ufunc)

    def choose_elements(self, condition, x, y, output):
        """Append an elementwise choice."""
        self._own("Where", [condition, x, y], output)

    def cast_elements(self, source, target):
        """Append a copy of elements to another dtype."""
        self._own("Cast", [source], target)

    def copy_elements(self, source, target):
        """Append a copy of elements of one dtype and shape."""
        _append(self.run, _copy_elements, <void*><npy_intp>target.dtype.itemsize, [source], [target], MOVE)

    def gather_elements(self, source, places, target):
        """Append a copy of the elements at places of an array in order, counted from 1; 0 stands for zero."""
        cdef Gather* gather = <Gather*>self.run.arena.take(1, sizeof(Gather))
        cdef cnp.ndarray own = np.asarray(places, np.int64)
        gather.source, gather.target = _data(source), _data(target)
        gather.places, gather.count, gather.size = <const int64_t*>_data(own), target.size, target.dtype.itemsize
        self.run.kept.append(own)
        if gather.count:
            _append_work(self.run, _gather, gather, [source], [target], gather.count * MOVE)

    def operate(self, str type, dict attrs, list inputs, dtype):
        """Append the work of the C kernel of an operation with one output; return the output."""
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
        """Append the work of a kernel, and return the array of its result: an unboxed one gets memory."""
        cdef Step* step
        cdef uint64_t* arguments = <uint64_t*>self.run.arena.take(1, sizeof(work.arguments))
        memcpy(arguments, work.arguments, sizeof(work.arguments))
        if value.form == OBJECT:
            made = <object>pointer(value)
            step = add_step(self.run, WORK)
        else:
            made = np.zeros(1, np.uint64).view(dtype)[:1].reshape(())
            step = add_step(self.run, WORK_TO)
            step.operands[0] = _data(made)
        step.compute, step.arguments = work.compute, arguments
        if work.kept != NULL:
            self.run.kept.append(<object>work.kept)
        self.run.kept += [*inputs, made]
        for array in (*inputs, made):
            hide(self.run, <ArrayObject*><PyObject*>array)
        _count(self.run, work.cost)
        return made

    cdef int _own(self, str type, list inputs, output) except -1:
        """Append one of our own loops."""
        cdef void* data = NULL
        cdef Loop loop = find_own_loop(type, [a.dtype for a in inputs], [output.dtype], &data, self.run.arena)
        if loop == NULL:
            raise Untraceable
        _append(self.run, loop, data, inputs, [output], FUNCTION)
        return 0


cdef Table* _new_table(Run run, str type, dict attrs, list inputs, dtype) except NULL:
    """Return a table with a single node, of an operation with one output."""
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


cdef inline char* _data(array):
    return <char*>PyArray_DATA(<ArrayObject*><PyObject*>array)


cdef int _append(
        Run run, Loop loop, void* data, list inputs, list outputs, int pace, bint keeps_pointers=True) except -1:
    """Append an inner loop: one call for arrays whose elements lie in order, else a walk over the dimensions.

    A walk copies the pointers, which loops of other packages than NumPy change.
    """
    cdef list arrays = inputs + outputs
    cdef Walk* walk
    cdef Step* step
    cdef int k
    if not outputs[0].size:
        return 0
    if len(arrays) > MOST_ARRAYS or outputs[0].ndim > MOST_DIMS:
        raise Untraceable
    run.kept += arrays
    if keeps_pointers and len(arrays) <= MOST_OPERANDS and len(outputs) == 1 and _are_flat(arrays):
        step = add_step(run, APPLY)
        step.loop, step.data, step.count = loop, data, outputs[0].size
        step.arguments = <uint64_t*>run.arena.take(MOST_OPERANDS, sizeof(uint64_t))
        for k in range(len(arrays)):
            step.operands[k], step.arguments[k] = _data(arrays[k]), arrays[k].dtype.itemsize
            step.strides[k] = arrays[k].dtype.itemsize if step.count == 1 or any(arrays[k].strides) else 0
        _count(run, step.count * pace)
        return 0
    walk = <Walk*>run.arena.take(1, sizeof(Walk))
    walk.loop, walk.data, walk.arrays = loop, data, len(arrays)
    _set_dimensions(walk, arrays)
    _append_work(run, _walk, walk, inputs, outputs, outputs[0].size * pace)
    return 0


cdef bint _are_flat(list arrays):
    """Return True if the elements of all arrays lie in order, or are one element."""
    return all([a.flags.c_contiguous or not any(a.strides) for a in arrays])


cdef int _set_dimensions(Walk* walk, list arrays) except -1:
    """Set the dimensions and strides; dimensions along which all arrays go on in the same way become one."""
    cdef npy_intp dim
    cdef int d, k
    walk.rank = 0
    for k in range(walk.arrays):
        walk.pointers[k] = _data(arrays[k])
    for d in range(arrays[0].ndim):
        dim = arrays[0].shape[d]
        if dim == 1:
            continue
        if walk.rank and all([walk.strides[k][walk.rank - 1] == arrays[k].strides[d] * dim for k in range(walk.arrays)]):
            walk.rank -= 1
            dim *= walk.dims[walk.rank]
        walk.dims[walk.rank] = dim
        for k in range(walk.arrays):
            walk.strides[k][walk.rank] = arrays[k].strides[d]
        walk.rank += 1
    if walk.rank == 0:
        walk.rank, walk.dims[0] = 1, 1
    return 0


cdef int _append_work(
        Run run, void (*compute)(const void*, int, int) noexcept nogil, void* state, list inputs, list outputs,
        double cost) except -1:
    """Append a step that computes by a function of its state."""
    cdef Work work
    cdef Step* step = add_step(run, WORK)
    cdef uint64_t* arguments = <uint64_t*>run.arena.take(1, sizeof(work.arguments))
    arguments[0] = <uint64_t>state
    step.compute, step.arguments = compute, arguments
    run.kept += inputs + outputs
    for array in (*inputs, *outputs):
        hide(run, <ArrayObject*><PyObject*>array)
    _count(run, cost)
    return 0


cdef int _count(Run run, double cost) noexcept:
    """Add the expected nanoseconds of a step."""
    run.cost += cost
    run.is_long = run.is_long or cost >= LONG_STEP
    return 0


cdef void _walk(const void* arguments, int part, int parts) noexcept nogil:
    """Run an inner loop along the last dimension, for every place in the others."""
    cdef Walk walk = (<const Walk*>(<const uint64_t*>arguments)[0])[0]
    cdef npy_intp place[MOST_DIMS]
    cdef npy_intp inner[MOST_ARRAYS]
    cdef char* pointers[MOST_ARRAYS]
    cdef int last = walk.rank - 1
    cdef int d = last
    cdef int i
    memset(place, 0, sizeof(place))
    for i in range(walk.arrays):
        inner[i] = walk.strides[i][last]
    while d >= 0:
        for i in range(walk.arrays):
            pointers[i] = walk.pointers[i]
        walk.loop(pointers, &walk.dims[last], inner, walk.data)
        d = last - 1
        while d >= 0:
            place[d] += 1
            for i in range(walk.arrays):
                walk.pointers[i] += walk.strides[i][d]
            if place[d] < walk.dims[d]:
                break
            for i in range(walk.arrays):
                walk.pointers[i] -= walk.strides[i][d] * walk.dims[d]
            place[d] = 0
            d -= 1


cdef void _copy_elements(char** pointers, const npy_intp* count, const npy_intp* strides, void* data) noexcept nogil:
    """Copy elements of `data` bytes: an inner loop of one operand."""
    cdef npy_intp size = <npy_intp>data
    cdef const char* source = pointers[0]
    cdef char* target = pointers[1]
    cdef npy_intp i
    if strides[0] == size and strides[1] == size:
        memcpy(target, source, count[0] * size)
    elif size == 8:
        for i in range(count[0]):
            (<uint64_t*>(target + i * strides[1]))[0] = (<const uint64_t*>(source + i * strides[0]))[0]
    elif size == 4:
        for i in range(count[0]):
            (<unsigned int*>(target + i * strides[1]))[0] = (<const unsigned int*>(source + i * strides[0]))[0]
    else:
        for i in range(count[0]):
            memcpy(target + i * strides[1], source + i * strides[0], size)


cdef void _gather(const void* arguments, int part, int parts) noexcept nogil:
    """Copy the elements at places of an array, or zeros."""
    cdef const Gather* gather = <const Gather*>(<const uint64_t*>arguments)[0]
    cdef npy_intp i
    cdef npy_intp size = gather.size
    for i in range(gather.count):
        if gather.places[i] == 0:
            memset(gather.target + i * size, 0, size)
        elif size == 8:
            (<uint64_t*>gather.target)[i] = (<const uint64_t*>gather.source)[gather.places[i] - 1]
        elif size == 4:
            (<unsigned int*>gather.target)[i] = (<const unsigned int*>gather.source)[gather.places[i] - 1]
        else:
            memcpy(gather.target + i * size, gather.source + (gather.places[i] - 1) * size, size)


cdef bint record_trace(Run run, const Instruction* each, const Value* inputs, Value* outputs) except -1:
    """Record the Python kernel of an operation as steps; return False, with nothing recorded, if some of it is no step.
    """
    cdef object kernel = run.program.source_of(each).computation.kernel
    cdef int first = run.num_steps
    cdef int k
    if kernel is None or not kernel.is_traceable:
        return False
    given = [box(inputs[k], type_of(run, each.inputs[k])) for k in range(each.num_inputs)]
    changing = [not run.registers[each.inputs[k]].is_known for k in range(each.num_inputs)]
    opaque, kept, cost, is_long = len(run.opaque), len(run.kept), run.cost, run.is_long
    try:
        results = trace_kernel(RunTape(run), kernel.bound_to, given, changing)
        is_as_declared = len(results) == each.num_outputs and all([
            a.dtype == run.program.dtypes[run.program.register_types[each.outputs[k]]] for k, a in enumerate(results)])
    except MemoryError:  # the instance waits for room, and records anew
        raise
    except Exception:  # an Untraceable, or an error that the step machine will raise from the kernel
        is_as_declared = False
    if not is_as_declared:
        run.num_steps, run.cost, run.is_long = first, cost, is_long
        del run.opaque[opaque:], run.kept[kept:]
        return False
    run.kept += [*given, *results]  # a result that is a constant is not written again, so no step may take its memory
    for k in range(each.num_outputs):
        hold(&run.held, &outputs[k], object_value(<PyObject*>results[k]))
    return True
