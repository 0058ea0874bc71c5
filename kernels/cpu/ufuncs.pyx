"""NumPy's inner loops, and our own in their place, called without NumPy around them.

A ufunc lists a C loop for each natively supported combination of element types. For these the machine calls the loop,
without the ufunc's argument handling and without boxed scalars. Cases beyond a loop (broadcasting, strides, casts, user
dtypes) go through the ufunc itself.

See docs/design/0007-a-counter-iteration.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

import numpy as np

from tagloom.kernels.core.cost cimport do_or_leave, leave
from tagloom.kernels.core.table cimport Compute, Loop, Node, Table, Type, Work, input_type, output_type
from tagloom.kernels.core.values cimport OBJECT, SCALAR, Counters, Value, hold, object_value
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_DATA, PyArray_DIM, PyArray_DIMS, PyArray_NDIM, PyArray_SIZE, PyArray_STRIDES, is_plain,
    is_usable, new_array, product, same_shape, unshared,
)
from tagloom.kernels.elementary.functions import OWN

cdef extern from "numpy/ufuncobject.h":
    ctypedef struct UfuncObject "PyUFuncObject":
        int nargs
        int ntypes  # number of loops
        void* functions  # one loop each
        void* data  # handed to the loop of the same number
        const char* types  # type numbers, nargs for each loop

cnp.import_array()
cnp.import_ufunc()

cdef double OWN_PACE = 0.25  # nanoseconds that our own loops take for a byte, about
cdef double CALL = 10  # nanoseconds that calling an inner loop takes, about

# Inner loops that take about half a nanosecond for a number or a bool; others are functions, or divide integers.
_QUICK = frozenset((
    "absolute", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "conjugate", "divide", "equal", "floor",
    "greater", "greater_equal", "invert", "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "not_equal", "reciprocal", "right_shift", "rint", "sign", "sqrt", "square", "subtract",
    "Cast", "DivOrZero", "MulNoNan", "Relu", "SquaredDifference", "Where",
))

cdef enum:
    MOST_PARTS = 64
    MOST_INPUTS = 3
    MOST_DIMS = 8  # of arrays that are broadcast here


cdef int find_loop(Node* node, str name, list inputs, list outputs) except -1:
    """Point a node at a ufunc's inner loop for exactly these dtypes, if there is one."""
    ufunc = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc) or ufunc.signature is not None or ufunc.nout != 1 or ufunc.nin > MOST_INPUTS:
        return 0
    if len(inputs) != ufunc.nin or len(outputs) != 1 or not _are_plain(inputs + outputs):
        return 0
    node.loop = find_native_loop(name, [dtype.num for dtype in inputs + outputs], &node.loop_data)
    return node.loop != NULL


cdef Loop find_native_loop(str name, list numbers, void** data) except *:
    """Return the inner loop of a ufunc, or our own, for exactly these type numbers and store its data, or return NULL."""
    cdef Loop found = NULL
    if name in OWN:
        found = find_loop_of(OWN[name], numbers, data)
    return found if found != NULL else find_loop_of(getattr(np, name), numbers, data)


cdef Loop find_loop_of(object ufunc, list numbers, void** data) except *:
    """Return the inner loop of a ufunc for exactly these type numbers and store its data, or return NULL."""
    cdef UfuncObject* found = <UfuncObject*><PyObject*>ufunc
    cdef void** loops = <void**>found.functions
    cdef void** all_data = <void**>found.data
    for i in range(found.ntypes):
        if loops[i] != NULL and numbers == [found.types[i * found.nargs + k] for k in range(found.nargs)]:
            data[0] = all_data[i] if all_data != NULL else NULL
            return <Loop>loops[i]
    return NULL


cdef int describe_loop(Node* node, str name, list inputs) except -1:
    """Set the cost of an inner loop per element, and whether it may raise; `name` is a ufunc or an operation."""
    wide = any([dtype.kind == "c" or dtype.num == cnp.NPY_FLOAT16 for dtype in inputs])
    integers = inputs[0].kind in "iu"
    if name in _QUICK:
        node.loop_cost = 5 if wide else 0.5
    elif name in OWN and inputs[0].char in "fd":
        node.loop_cost = OWN_PACE * inputs[0].itemsize
    else:
        node.loop_cost = 30 if wide else 8
    node.loop_raises = integers and name in ("power", "FloorDiv", "FloorMod")
    return 0


cdef bint _are_plain(list dtypes):
    """Return True if dtypes are native numbers or bools, whose elements need no care."""
    return all([d is not None and d.kind in "biufc" and d.isnative for d in dtypes])


cdef int run_arrays(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* output, Work* work) except -1:
    """Run the inner loop over scalars and broadcast arrays; return 0 for other inputs.

    With contiguous arrays of equal shape the result goes into the buffer of one without another owner, if there is one.
    """
    cdef ArrayObject* like = _common_shape(node, inputs)
    cdef Type* type = output_type(table, node, 0)
    if like == NULL:
        return _run_strided(table, node, inputs, live, output, work)
    if PyArray_NDIM(like) == 0 and type.size != 0:
        return 0
    if node.loop_raises and PyArray_SIZE(like) * node.loop_cost >= table.at_once:
        return 0  # the workers, which do long work, have no interpreter to raise in
    cdef ArrayObject* reused = unshared(table, node, inputs, type)
    if reused != NULL:
        hold(live, output, object_value(<PyObject*>reused))
    else:
        new_array(live, type, PyArray_NDIM(like), PyArray_DIMS(like), output)
    _loop(table, node, inputs, <ArrayObject*>output.bits, work)
    return 1


cdef struct Broadcast:  # operands as an inner loop walks over them, the output last
    Loop loop
    void* data
    int operands
    int rank
    cnp.npy_intp dims[MOST_DIMS]
    cnp.npy_intp strides[MOST_INPUTS + 1][MOST_DIMS]  # bytes; 0 along broadcast dimensions
    char* pointers[MOST_INPUTS + 1]  # NULL for a scalar
    uint64_t scalars[MOST_INPUTS]


cdef int _run_strided(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* output, Work* work) except -1:
    """Run the inner loop over broadcast arrays of any strides, or leave the work; return 0 if they do not broadcast."""
    cdef Broadcast* walk = <Broadcast*>work.arguments
    cdef ArrayObject* made
    cdef double cost
    if not _broadcast(table, node, inputs, walk) or walk.rank == 0:
        return 0
    cost = product(walk.dims, 0, walk.rank) * node.loop_cost + product(walk.dims, 0, walk.rank - 1) * CALL
    if node.loop_raises and cost >= table.at_once:
        return 0
    made = new_array(live, output_type(table, node, 0), walk.rank, walk.dims, output)
    walk.pointers[node.num_inputs] = <char*>PyArray_DATA(made)
    for d in range(walk.rank):
        walk.strides[node.num_inputs][d] = PyArray_STRIDES(made)[d]
    walk.loop, walk.data, walk.operands = node.loop, node.loop_data, node.num_inputs + 1
    if PyArray_SIZE(made) == 0:
        return 1
    return do_or_leave(table, work, _walk_part, cost, <int>min(MOST_PARTS, walk.dims[0]), output)


cdef inline bint _broadcast(const Table* table, const Node* node, Value* inputs, Broadcast* walk) noexcept nogil:
    """Find the common shape and the strides of the inputs; return False if there is none, or an array is odd."""
    cdef ArrayObject* array
    cdef cnp.npy_intp dim
    cdef int lead, d, k
    cdef uint32_t i
    walk.rank = 0
    for i in range(node.num_inputs):
        array = <ArrayObject*>inputs[i].bits
        if inputs[i].form == OBJECT:
            if not is_usable(array) or PyArray_NDIM(array) > MOST_DIMS:
                return False
            walk.rank = max(walk.rank, PyArray_NDIM(array))
    for d in range(walk.rank):
        walk.dims[d] = 1
    for i in range(node.num_inputs):
        walk.pointers[i] = NULL
        for d in range(walk.rank):
            walk.strides[i][d] = 0
        if inputs[i].form != OBJECT:
            walk.scalars[i] = inputs[i].bits
            continue
        array = <ArrayObject*>inputs[i].bits
        walk.pointers[i] = <char*>PyArray_DATA(array)
        lead = walk.rank - PyArray_NDIM(array)
        for k in range(PyArray_NDIM(array)):
            dim = PyArray_DIM(array, k)
            if dim == 1:
                continue  # its stride stays 0: the same element for all
            walk.strides[i][lead + k] = PyArray_STRIDES(array)[k]
            if walk.dims[lead + k] == 1:
                walk.dims[lead + k] = dim
            elif walk.dims[lead + k] != dim:
                return False
    return True


cdef void _walk_part(const void* arguments, int part, int parts) noexcept nogil:
    """Run an inner loop over some places of the first dimension."""
    cdef Broadcast walk = (<const Broadcast*>arguments)[0]
    cdef cnp.npy_intp start = walk.dims[0] * part // parts
    cdef int i
    walk.dims[0] = walk.dims[0] * (part + 1) // parts - start
    for i in range(walk.operands):
        if walk.pointers[i] == NULL:
            walk.pointers[i] = <char*>&walk.scalars[i]
        walk.pointers[i] += start * walk.strides[i][0]
    _walk(&walk)


cdef inline void _walk(Broadcast* walk) noexcept nogil:
    """Run the inner loop along the last dimension, for every place in the others."""
    cdef cnp.npy_intp place[MOST_DIMS]
    cdef cnp.npy_intp inner[MOST_INPUTS + 1]
    cdef char* pointers[MOST_INPUTS + 1]
    cdef int operands = walk.operands
    cdef int last = walk.rank - 1
    cdef int d = last
    cdef int i, k
    for i in range(operands):
        inner[i] = walk.strides[i][last]
    for k in range(walk.rank):
        place[k] = 0
    while d >= 0:
        for i in range(operands):
            pointers[i] = walk.pointers[i]
        walk.loop(pointers, &walk.dims[last], inner, walk.data)
        d = last - 1
        while d >= 0:
            place[d] += 1
            for i in range(operands):
                walk.pointers[i] += walk.strides[i][d]
            if place[d] < walk.dims[d]:
                break
            for i in range(operands):
                walk.pointers[i] -= walk.strides[i][d] * walk.dims[d]
            place[d] = 0
            d -= 1


cdef inline ArrayObject* _common_shape(const Node* node, const Value* inputs) noexcept nogil:
    """Return an array whose shape all arrays among the inputs have, if all are plain; else NULL."""
    cdef ArrayObject* like = NULL
    cdef ArrayObject* array
    for i in range(node.num_inputs):
        if inputs[i].form != OBJECT:
            continue
        array = <ArrayObject*>inputs[i].bits
        if not is_plain(array):
            return NULL
        if like == NULL:
            like = array
        elif not same_shape(array, like):
            return NULL
    return like


cdef struct Run:  # of an inner loop over all elements
    Loop loop
    void* data
    cnp.npy_intp count
    int operands
    char* pointers[MOST_INPUTS + 1]
    cnp.npy_intp strides[MOST_INPUTS + 1]
    uint64_t scalars[MOST_INPUTS]  # elements to which the pointers of scalars point


cdef inline void _loop(
        const Table* table, const Node* node, Value* inputs, ArrayObject* array, Work* work) noexcept nogil:
    """Run the inner loop over all elements, or leave it if there are many; scalars stand still."""
    cdef Run* run = <Run*>work.arguments
    run.loop, run.data, run.count = node.loop, node.loop_data, PyArray_SIZE(array)
    run.operands = node.num_inputs + 1
    for i in range(node.num_inputs):
        if inputs[i].form == SCALAR:
            run.scalars[i] = inputs[i].bits
            run.pointers[i] = NULL
            run.strides[i] = 0
        else:
            run.pointers[i] = <char*>PyArray_DATA(<ArrayObject*>inputs[i].bits)
            run.strides[i] = input_type(table, node, i).itemsize
    run.pointers[node.num_inputs] = <char*>PyArray_DATA(array)
    run.strides[node.num_inputs] = output_type(table, node, 0).itemsize
    cdef double cost = run.count * node.loop_cost
    if run.count == 0:
        return
    if cost >= table.at_once:
        leave(work, _run_part, cost, MOST_PARTS)
    else:
        _run_part(run, 0, 1)  # called by name, so that its divisions by the number of parts fold away


cdef void _run_part(const void* arguments, int part, int parts) noexcept nogil:
    """Run an inner loop over some of its elements."""
    cdef const Run* run = <const Run*>arguments
    cdef char* pointers[MOST_INPUTS + 1]
    cdef cnp.npy_intp start = run.count * part // parts
    cdef cnp.npy_intp count = run.count * (part + 1) // parts - start
    for i in range(run.operands):
        pointers[i] = run.pointers[i] + start * run.strides[i]
        if run.pointers[i] == NULL:
            pointers[i] = <char*>&run.scalars[i]
    run.loop(pointers, &count, run.strides, run.data)


cdef bint loop_in(
        Compute compute, uint64_t* arguments, Loop* loop, void** data, cnp.npy_intp* count, char** pointers,
        cnp.npy_intp* strides) noexcept nogil:
    """Return True if a work is one call of an inner loop, and describe the call; scalars lie in the arguments."""
    cdef Run* run = <Run*>arguments
    if compute != _run_part:
        return False
    loop[0], data[0], count[0] = run.loop, run.data, run.count
    for i in range(run.operands):
        pointers[i], strides[i] = run.pointers[i], run.strides[i]
        if pointers[i] == NULL:
            pointers[i] = <char*>&run.scalars[i]
    return True
