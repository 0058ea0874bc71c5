"""What an instance costs: how often the clock is looked at, and what is worth a thread of its own.

See docs/design/0006-cores.md.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from numpy cimport PyArray_CheckExact, PyArray_NBYTES, ndarray

from tagflow.kernels.core.clock cimport nanoseconds
from tagflow.kernels.core.table cimport Compute, Node, Work
from tagflow.kernels.core.values cimport OBJECT, SCALAR, Value, pointer

cdef extern from "Python.h":
    void Py_CLEAR(PyObject*)

cdef enum:
    SLICE = 64  # instances between two looks at the clock
    LOOP_COST = 8  # a C kernel over arrays; one over large arrays, or in Python, counts for a whole slice
    LARGE = 1 << 14  # bytes of an array


cdef inline bint is_large(Value value) noexcept:
    """Say whether a value is a large array."""
    if value.form != OBJECT or not PyArray_CheckExact(<object>pointer(value)):
        return False
    return PyArray_NBYTES(<ndarray>pointer(value)) >= LARGE


cdef inline int array_cost(const Node* node, const Value* inputs, const Value* outputs) noexcept:
    """Return what a C kernel counts for that has run, by the size of its arrays."""
    cdef uint32_t i
    if node.num_outputs == 1 and outputs[0].form == SCALAR and node.loop != NULL:
        return 1
    for i in range(node.num_inputs):
        if is_large(inputs[i]):
            return SLICE
    for i in range(node.num_outputs):
        if is_large(outputs[i]):
            return SLICE
    return LOOP_COST


cdef enum:
    LONG = 50000  # nanoseconds from which on a kernel leaves its work instead of doing it
    SHORTEST = 75000  # nanoseconds of a part, so that handing it over does not matter
    LONGEST = 70000000  # nanoseconds of a part, so that what a step leaves behind ends soon and others get their turn


cdef inline void leave(Work* work, Compute compute, double cost, int most_parts) noexcept nogil:
    """Say what is left to be done and into how many parts it can be cut; the arguments are there already."""
    work.compute, work.cost, work.parts = compute, cost, most_parts


cdef inline void cut(Work* work, int threads) noexcept nogil:
    """Choose the number of parts: one for each thread, fewer if they would be short, several if they would be long."""
    cdef double parts = min(work.cost / SHORTEST, threads * (1 + work.cost // (<double>LONGEST * threads)))
    work.parts = <int>max(1, min(parts, <double>work.parts))


cdef inline void do_work(Work* work, Node* node) noexcept:
    """Do what a kernel left, part after part, while other Python threads may run."""
    cdef int64_t begin = nanoseconds()
    cdef int part
    with nogil:
        for part in range(work.parts):
            work.compute(work.arguments, part, work.parts)
    correct(node, work, nanoseconds() - begin)
    work.compute = NULL
    Py_CLEAR(work.kept)


cdef inline void correct(Node* node, const Work* work, int64_t spent) noexcept:
    """Take into account what an estimate was worth."""
    node.pace = max(0.1, min(10, 0.75 * node.pace + 0.25 * <double>spent / work.cost))
