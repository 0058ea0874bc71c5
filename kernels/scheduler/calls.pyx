"""Calls of kernels written in Python: arrays in, arrays out."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from tagflow.kernels.scheduler.convert cimport accept, box
from tagflow.kernels.scheduler.delivery cimport Machine
from tagflow.kernels.scheduler.frames cimport Iteration
from tagflow.kernels.scheduler.instance cimport instance_of
from tagflow.kernels.scheduler.plan cimport CompiledPlan
from tagflow.kernels.scheduler.ready cimport Ready
from tagflow.kernels.scheduler.table cimport STATEFUL, Node, input_type, output_type
from tagflow.kernels.scheduler.values cimport Py_DECREF, Py_INCREF, drop

cdef extern from "Python.h":
    object PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET


cdef object call_kernel(Machine* m, Ready ready, PyObject** scratch, CompiledPlan compiled, object step):
    """Call the kernel of an instance with its inputs as arrays; `scratch` has room for them and two more."""
    cdef const Node* node = &m.table.nodes[ready.node]
    cdef Iteration* it = ready.iteration
    cdef PyObject** arguments = scratch + 1
    cdef size_t count = 0
    try:
        if node.flags & STATEFUL:
            count += _argument(&arguments[count], instance_of(ready, compiled, step))
        for i in range(node.num_inputs):
            value = box(it.slots[node.slot + i], input_type(m.table, node, i))
            count += _argument(&arguments[count], value)
        return PyObject_Vectorcall(<object>node.kernel, arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)
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
