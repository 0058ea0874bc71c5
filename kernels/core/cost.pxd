"""The cost of an instance: decides when the drain looks at the clock and which work goes to other threads.

See docs/design/0006-cores.md.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from numpy cimport PyArray_CheckExact, PyArray_NBYTES, ndarray

from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.core.table cimport DECLINED, LOST, QUEUE, RESULT, UNFINISHED, Compute, Node, Table, Work
from tagloom.kernels.core.values cimport OBJECT, SCALAR, Py_INCREF, Value, pointer

cdef extern from "Python.h":
    object PyByteArray_FromStringAndSize(const char*, Py_ssize_t)
    char* PyByteArray_AS_STRING(object)

cdef extern from "Python.h" nogil:  # callers hold the GIL
    void Py_CLEAR(PyObject*)

cdef enum:
    CACHE_LINE = 64  # bytes; a vector of AVX-512 that crosses the end of one is read and written twice
    SLICE = 64  # instances between two looks at the clock
    LOOP_COST = 8  # a C kernel over arrays; one over large arrays, or in Python, counts for a whole slice
    LARGE = 1 << 14  # bytes of an array


cdef inline size_t aligned(size_t size) noexcept nogil:
    """Return the next multiple of CACHE_LINE."""
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


cdef inline bint is_large(Value value) noexcept:
    """Return True if a value is a large array."""
    if value.form != OBJECT or not PyArray_CheckExact(<object>pointer(value)):
        return False
    return PyArray_NBYTES(<ndarray>pointer(value)) >= LARGE


cdef inline int array_cost(const Node* node, const Value* inputs, const Value* outputs) noexcept:
    """Return the cost of a finished C kernel, by the size of its arrays, in units of the drain's budget."""
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
    LONG = 50000  # nanoseconds from which on a kernel leaves its work instead of doing it, at most
    SHORTEST = 75000  # nanoseconds of a part, so that handing it over costs little in comparison
    LONGEST = 70000000  # nanoseconds of a part, so that orphaned work of a step ends soon and others get their turn


cdef inline void leave(Work* work, Compute compute, double cost, int most_parts) noexcept nogil:
    """Describe the work left and the number of its parts; the arguments are there already."""
    work.compute, work.cost, work.parts = compute, cost, most_parts
    work.arguments[LOST] = work.arguments[QUEUE] = work.arguments[UNFINISHED] = 0
    work.arguments[DECLINED] = work.arguments[RESULT] = 0


cdef inline void keep(Work* work, PyObject* memory) noexcept:
    """Keep an object alive until the work is done."""
    Py_INCREF(memory)  # released then
    Py_CLEAR(work.kept)  # of a kernel that failed
    work.kept = memory


cdef inline char* take_memory(Work* work, size_t size) except NULL:
    """Return memory, at a multiple of CACHE_LINE, which lives until the work is done."""
    memory = PyByteArray_FromStringAndSize(NULL, size + CACHE_LINE - 1)
    keep(work, <PyObject*>memory)
    return <char*>aligned(<size_t>PyByteArray_AS_STRING(memory))


cdef inline int do_or_leave(
        const Table* table, Work* work, Compute compute, double cost, int most_parts, Value* output) noexcept nogil:
    """Do the work of the arguments, or leave long work to the caller.

    An unboxed `output` is a result for which the work finds a place by `place_of`.

    Returns
    -------
    int
        1; 0 if the work was done, and the inputs turned out to need the Python kernel.
    """
    leave(work, compute, cost, most_parts)
    if cost >= table.at_once:
        return 1
    work.compute = NULL
    compute(work.arguments, 0, 1)
    Py_CLEAR(work.kept)
    return take_result(work, output)


cdef inline int take_result(const Work* work, Value* output) noexcept nogil:
    """Take the result of finished work, if unboxed; return 0 if the inputs want the Python kernel."""
    if output.form == SCALAR:
        output.bits = work.arguments[RESULT]
    return work.arguments[DECLINED] == 0


cdef inline char* place_of(const void* arguments, char* array) noexcept nogil:
    """Return where a result goes: into an array, or unboxed into the arguments if the array is NULL."""
    return array if array != NULL else <char*>(<uint64_t*>arguments + RESULT)


cdef inline void decline(const void* arguments) noexcept nogil:
    """Record, while computing, the need of the inputs for the Python kernel."""
    (<uint64_t*>arguments)[DECLINED] = 1


cdef inline void cut(Work* work, int threads) noexcept nogil:
    """Choose the number of parts: as many as threads, fewer if they would be short, several times as many if they would
    be long.
    """
    cdef double parts = min(work.cost / SHORTEST, threads * (1 + work.cost // (<double>LONGEST * threads)))
    work.parts = <int>max(1, min(parts, <double>work.parts))


cdef inline void do_work(Work* work, Node* node) noexcept:
    """Do the work left by a kernel, part after part, while other Python threads may run."""
    cdef int64_t begin = nanoseconds()
    cdef int part
    with nogil:
        for part in range(work.parts):
            work.compute(work.arguments, part, work.parts)
    correct(node, work, nanoseconds() - begin)
    work.compute = NULL
    Py_CLEAR(work.kept)


cdef inline void correct(Node* node, const Work* work, int64_t spent) noexcept:
    """Correct a node's pace by the measured time of its work."""
    node.pace = max(0.1, min(10, 0.75 * node.pace + 0.25 * <double>spent / max(work.cost, 1)))
