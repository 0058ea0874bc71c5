"""NumPy's inner loops, called without NumPy around them."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from numpy cimport npy_intp

from tagloom.kernels.core.table cimport Compute, Loop, Node, Table, Work
from tagloom.kernels.core.values cimport SCALAR, Counters, Value, drop, scalar

cdef extern from "Python.h":
    PyObject* PyErr_Occurred()

cdef Loop find_native_loop(str name, list numbers, void** data) except *
cdef Loop find_loop_of(object ufunc, list numbers, void** data) except *
cdef int find_loop(Node* node, str name, list inputs, list outputs) except -1
cdef bint loop_in(
        Compute compute, uint64_t* arguments, Loop* loop, void** data, npy_intp* count, char** pointers,
        npy_intp* strides) noexcept nogil
cdef int describe_loop(Node* node, str name, list inputs) except -1
cdef int run_arrays(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* output, Work* work) except -1


cdef inline bint all_scalars(const Node* node, const Value* inputs) noexcept nogil:
    """Return True if every input of a node is unboxed."""
    for i in range(node.num_inputs):
        if inputs[i].form != SCALAR:
            return False
    return True


cdef inline void run_scalars(const Node* node, Value* inputs, Value* output) noexcept nogil:
    """Run the inner loop of a node once, on unboxed inputs (three at most)."""
    cdef char* pointers[4]
    cdef npy_intp strides[4]
    cdef npy_intp count = 1
    for i in range(node.num_inputs):
        pointers[i] = <char*>&inputs[i].bits
        strides[i] = 8
    output[0] = scalar(0)
    pointers[node.num_inputs] = <char*>&output.bits
    strides[node.num_inputs] = 8
    node.loop(pointers, &count, strides, node.loop_data)


cdef inline int run_loop(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* output, Work* work) except -1:
    """Run the inner loop of a node, or leave the run as work; return 0, with nothing done, if the loop does not fit the
    inputs.
    """
    cdef int prepared = 1
    if all_scalars(node, inputs):
        run_scalars(node, inputs, output)
    else:
        prepared = run_arrays(table, node, inputs, live, output, work)
    if PyErr_Occurred() != NULL:
        drop(live, output)
        return -1  # with the loop's exception set
    return prepared
