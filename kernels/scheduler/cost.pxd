"""What an instance counts for between two looks at the clock."""

from libc.stdint cimport uint32_t
from numpy cimport PyArray_CheckExact, PyArray_NBYTES, ndarray

from tagflow.kernels.scheduler.table cimport Node
from tagflow.kernels.scheduler.values cimport OBJECT, Value, pointer

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
    for i in range(node.num_inputs):
        if is_large(inputs[i]):
            return SLICE
    for i in range(node.num_outputs):
        if is_large(outputs[i]):
            return SLICE
    return LOOP_COST
