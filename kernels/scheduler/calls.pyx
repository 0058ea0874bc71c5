"""Calls of kernels written in Python: arrays in, arrays out."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from numpy cimport PyArray_CheckExact, PyArray_NBYTES, import_array, ndarray

from functools import partial

from tagflow.kernels.core.clock cimport nanoseconds
from tagflow.kernels.core.convert cimport accept, box
from tagflow.kernels.core.cost cimport LARGE
from tagflow.kernels.core.frames cimport Iteration
from tagflow.kernels.core.table cimport STATEFUL, Node, input_type, output_type
from tagflow.kernels.core.values cimport OBJECT, Py_DECREF, Py_INCREF, Value, drop, pointer
from tagflow.kernels.scheduler.delivery cimport Machine
from tagflow.kernels.scheduler.instance cimport instance_of
from tagflow.kernels.scheduler.plan cimport CompiledPlan
from tagflow.kernels.scheduler.ready cimport Ready

cdef extern from "Python.h":
    object PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET

import_array()


class Continuation:
    """What an asynchronous instance gives that has waited for its inputs: what is left, to be called like a kernel.

    Parameters
    ----------
    call : callable
        Without arguments. If it is refused memory it is called again later.
    """

    __slots__ = ("call",)

    def __init__(self, call):
        self.call = call


cdef enum:
    LONG_CALL = 1000000  # nanoseconds from which on a call is worth a thread


cdef object call_kernel(
        Machine* m, Ready ready, PyObject** scratch, CompiledPlan compiled, object step, bint may_leave):
    """Call the kernel of an instance with its inputs as arrays, or have it called in a thread.

    A kernel without effects that has taken long for its bytes goes to the step's threads: what NumPy does to large
    arrays it does without the interpreter lock. `scratch` has room for the inputs and two more.

    Returns
    -------
    object
        What the kernel returns, or what is to be awaited for it.
    """
    cdef Node* node = &m.table.nodes[ready.node]
    cdef int64_t size = _input_bytes(node, &ready.iteration.slots[node.slot])
    cdef int64_t begin
    if size < LARGE or node.flags & STATEFUL:
        return _call(m, node, ready, scratch, compiled, step, <object>node.kernel)
    if may_leave and <double>size * node.python_pace > LONG_CALL:
        return _call(m, node, ready, scratch, compiled, step, partial(step.threads, <object>node.kernel))
    begin = nanoseconds()
    result = _call(m, node, ready, scratch, compiled, step, <object>node.kernel)
    node.python_pace = max(0.5 * node.python_pace, <double>(nanoseconds() - begin) / <double>size)
    return result


cdef inline int64_t _input_bytes(const Node* node, const Value* inputs) noexcept:
    cdef int64_t total = 0
    cdef uint32_t i
    for i in range(node.num_inputs):
        if inputs[i].form == OBJECT and PyArray_CheckExact(<object>pointer(inputs[i])):
            total += PyArray_NBYTES(<ndarray>pointer(inputs[i]))
    return total


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
    """Put an argument of a call in its place, with a reference; return how many that is."""
    place[0] = <PyObject*>argument
    Py_INCREF(place[0])  # given back after the call
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
