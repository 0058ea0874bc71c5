"""Calls of kernels written in Python: arrays in, arrays out."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from numpy cimport (
    PyArray_CheckExact, PyArray_DIM, PyArray_NBYTES, PyArray_NDIM, import_array, ndarray, npy_intp,
)

from functools import partial
from time import thread_time_ns

from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.core.convert cimport accept, box
from tagloom.kernels.core.cost cimport LARGE
from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.core.table cimport DETACHED, STATEFUL, Node, Table, input_type, output_type
from tagloom.kernels.core.values cimport OBJECT, Py_DECREF, Py_INCREF, Value, drop, pointer
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.instance cimport instance_of
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.series cimport Series

cdef extern from "Python.h":
    object PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET

import_array()

cdef int64_t MOST_ELEMENTS = 1 << 48  # of an estimate


cdef enum:
    LEAVING = 6  # how many times as long as work that is left a call takes at least that is worth a thread
    MOST_DIMS = 64  # of an array


cdef object call_kernel(
        Machine* m, Ready ready, PyObject** scratch, CompiledPlan compiled, object step, double nanoseconds_left):
    """Call the kernel of an instance with its inputs as arrays, or start its call in a thread.

    A kernel which only computes goes to the step's threads where the call may take long: NumPy computes on
    large arrays without the interpreter lock. The expected time is the time per byte of earlier calls, times the bytes
    of the inputs and the result; for the first call it is a guess, rather too long than too short.

    Parameters
    ----------
    scratch : PyObject**
        Has room for the inputs and two more.
    nanoseconds_left : double
        Least expected time of a call in a thread; negative to call all kernels here.

    Returns
    -------
    object
        The kernel's result, or an awaitable for the result.
    """
    cdef Node* node = &m.table.nodes[ready.node]
    cdef int64_t size, begin
    if nanoseconds_left < 0 or not node.flags & DETACHED:
        return _call(m, node, ready, scratch, compiled, step, <object>node.kernel)
    size = _touched_bytes(m.table, node, &ready.iteration.slots[node.slot])
    if size >= 0 and size * node.python_pace >= LEAVING * nanoseconds_left:
        call = _long_call(node, size, compiled)
        future = _call(m, node, ready, scratch, compiled, step, partial(step.call_long, call))
        future.add_done_callback(call.note)
        return future
    if size < LARGE:
        return _call(m, node, ready, scratch, compiled, step, <object>node.kernel)
    begin = nanoseconds()
    result = _call(m, node, ready, scratch, compiled, step, <object>node.kernel)
    _note_pace(node, nanoseconds() - begin, size)
    return result


cdef inline void _note_pace(Node* node, int64_t spent, int64_t size) noexcept:
    """Record the pace of a kernel's call; an interrupted call measures too slow, and its share halves with each later
    call.
    """
    node.python_pace = max(0.5 * node.python_pace, <double>spent / <double>max(size, 1))


cdef class LongCall:
    """A kernel called by another thread, and the CPU time of the call."""

    cdef object kernel
    cdef CompiledPlan compiled  # has the node
    cdef Node* node
    cdef int64_t size  # bytes, by which its pace is measured
    cdef int64_t spent  # nanoseconds that the call kept a core, -1 before its end

    def __call__(self, *arguments):
        begin = thread_time_ns()
        try:
            return self.kernel(*arguments)
        finally:
            self.spent = thread_time_ns() - begin

    def note(self, future):
        """Record the pace of the call; runs on the thread of the event loop."""
        if self.spent >= 0:
            _note_pace(self.node, self.spent, self.size)


cdef LongCall _long_call(Node* node, int64_t size, CompiledPlan compiled):
    cdef LongCall call = LongCall.__new__(LongCall)
    call.kernel, call.compiled, call.node, call.size, call.spent = <object>node.kernel, compiled, node, size, -1
    return call


cdef int64_t _touched_bytes(const Table* table, const Node* node, const Value* inputs) except? -1:
    """Return the bytes of a node's inputs and outputs, as far as these are known before the call.

    Returns -1 where only the thread of the loop can find the inputs.
    """
    cdef int64_t total = _input_bytes(node, inputs)
    if total < 0:
        return total
    if node.elements != NULL:
        values = [box(inputs[i], input_type(table, node, i)) for i in range(node.num_inputs)]
        try:
            return total + 8 * <int64_t>(<object>node.elements)(*values)
        except Exception:
            return total  # the kernel itself raises an error about wrong inputs
    if node.made_bytes >= 0:
        return total + node.made_bytes
    return total + _broadcast_bytes(table, node, inputs)


cdef inline int64_t _input_bytes(const Node* node, const Value* inputs) noexcept:
    cdef int64_t size, total = 0
    cdef uint32_t i
    for i in range(node.num_inputs):
        if inputs[i].form != OBJECT:
            continue
        if PyArray_CheckExact(<object>pointer(inputs[i])):
            total += PyArray_NBYTES(<ndarray>pointer(inputs[i]))
        elif isinstance(<object>pointer(inputs[i]), Series):
            if (<Series>pointer(inputs[i])).swaps:
                return -1
            size = 0 if node.elements != NULL else (<Series>pointer(inputs[i])).array_bytes()
            if size < 0:
                return -1
            total += size
    return total


cdef inline int64_t _broadcast_bytes(const Table* table, const Node* node, const Value* inputs) noexcept:
    """Return the bytes of a result with the broadcast shape of the inputs, or with the shape of rows by columns."""
    cdef npy_intp dims[MOST_DIMS]
    cdef int rank = 0
    cdef int64_t count = 1
    cdef int d
    cdef uint32_t i
    for i in range(node.num_inputs if node.num_outputs else 0):
        if inputs[i].form != OBJECT or not PyArray_CheckExact(<object>pointer(inputs[i])):
            continue
        for d in range(PyArray_NDIM(<ndarray>pointer(inputs[i]))):  # from the last dimension
            size = PyArray_DIM(<ndarray>pointer(inputs[i]), PyArray_NDIM(<ndarray>pointer(inputs[i])) - 1 - d)
            dims[d] = size if d >= rank else max(dims[d], size)
        rank = max(rank, PyArray_NDIM(<ndarray>pointer(inputs[i])))
    for d in range(rank):
        count = min(count * max(dims[d], <npy_intp>1), MOST_ELEMENTS)
    return count * output_type(table, node, 0).itemsize if node.num_outputs else 0


cdef object _call(
        Machine* m, const Node* node, Ready ready, PyObject** scratch, CompiledPlan compiled, object step, object kernel):
    cdef Iteration* it = ready.iteration
    cdef PyObject** arguments = scratch + 1
    cdef size_t count = 0
    try:
        if node.flags & STATEFUL:
            count += _argument(&arguments[count], instance_of(ready, compiled, step))
        for i in range(node.num_inputs):
            value = box(it.slots[node.slot + i], input_type(m.table, node, i))
            count += _argument(&arguments[count], value)
        return PyObject_Vectorcall(kernel, arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)
    finally:
        while count:
            count -= 1
            Py_DECREF(arguments[count])  # of _argument


cdef inline size_t _argument(PyObject** place, object argument) noexcept:
    """Put an argument of a call in its place, with a reference; return the number of arguments put."""
    place[0] = <PyObject*>argument
    Py_INCREF(place[0])  # released after the call
    return 1


cdef int accept_outputs(Machine* m, const Node* node, object result) except -1:
    """Store a result in the machine's outputs; on a TypeError they are left empty."""
    cdef uint32_t o
    if node.num_outputs == 1:
        return accept(m.live, result, output_type(m.table, node, 0), m.outputs)
    results = () if result is None else result if isinstance(result, (tuple, list)) else (result,)
    if len(results) != node.num_outputs:
        raise TypeError(f"wanted {node.num_outputs} outputs, got {len(results)}")
    try:
        for o in range(node.num_outputs):
            accept(m.live, results[o], output_type(m.table, node, o), &m.outputs[o])
    except BaseException:
        for o in range(node.num_outputs):
            drop(m.live, &m.outputs[o])
        raise
    return 0
