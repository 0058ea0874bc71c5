"""Shapes: reading them, giving an array another, filling one.

The same elements under another shape are a view, which no kernel writes into.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy

from tagloom.kernels.core.cost cimport do_or_leave
from tagloom.kernels.core.table cimport Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport OBJECT, SCALAR, Counters, Value, scalar
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, Operand, PyArray_CheckExact, PyArray_DIMS, PyArray_NDIM, are_copyable, array_in,
    new_result, new_view, open_plain, product, read_sizes, repeat,
)
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.windows cimport copy_element_to

cnp.import_array()

cdef double FILL = 0.15  # nanoseconds that writing a byte takes, about

cdef enum:
    MOST_PARTS = 64


cdef inline int _give(
        const Table* table, const Node* node, Value* inputs, const Operand* x, int rank, const cnp.npy_intp* dims,
        Counters* live, Value* outputs, Work* work) except -1:
    """Output the elements of the first input in another shape, of as many elements."""
    cdef size_t size = input_type(table, node, 0).itemsize
    if x.rank and rank:
        new_view(live, output_type(table, node, 0), array_in(inputs[0]), x.data, rank, dims, outputs)
    else:
        new_result(live, output_type(table, node, 0), rank, dims, outputs)
        return copy_element_to(table, x.data, size, outputs, work)
    return 1


cdef int _reshape(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Reshape a plain array to the sizes in the second input, one of which may be -1."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef cnp.npy_intp known = 1
    cdef int inferred = -1
    cdef int d
    cdef Operand x
    cdef int rank = read_sizes(&inputs[1], input_type(table, node, 1), dims)
    if rank < 0 or not open_plain(&inputs[0], &x):
        return 0
    for d in range(rank):
        if dims[d] >= 0:
            known *= dims[d]
        elif dims[d] == -1 and inferred < 0:
            inferred = d
        else:
            return 0
    if inferred >= 0:
        if known == 0:
            return 0
        dims[inferred] = x.size // known
        known *= dims[inferred]
    if known != x.size:
        return 0
    return _give(table, node, inputs, &x, rank, dims, live, outputs, work)


cdef int _expand(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Insert a dimension of size 1."""
    cdef cnp.npy_intp dims[MOST_DIMS + 1]
    cdef Operand x
    cdef int axis
    if not open_plain(&inputs[0], &x):
        return 0
    axis = <int>node.params[0] + (x.rank + 1 if node.params[0] < 0 else 0)
    if not 0 <= axis <= x.rank:
        return 0
    if x.rank:
        memcpy(dims, x.dims, axis * sizeof(cnp.npy_intp))
        memcpy(dims + axis + 1, x.dims + axis, (x.rank - axis) * sizeof(cnp.npy_intp))
    dims[axis] = 1
    return _give(table, node, inputs, &x, x.rank + 1, dims, live, outputs, work)


cdef int _squeeze(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Drop dimensions of size 1: the dimensions of the mask params[0] (counted from the end: params[1]), or all of
    them.
    """
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef int rank = 0
    cdef Operand x
    cdef int64_t gone
    cdef int d
    if not open_plain(&inputs[0], &x):
        return 0
    gone = node.params[0]
    for d in range(MOST_DIMS):
        if node.params[1] >> d & 1:
            if d >= x.rank:
                return 0
            gone |= 1 << (x.rank - 1 - d)
    if gone >> x.rank:
        return 0
    for d in range(x.rank):
        if x.dims[d] == 1 and (node.params[2] or gone >> d & 1):
            continue
        if gone >> d & 1:
            return 0
        dims[rank] = x.dims[d]
        rank += 1
    return _give(table, node, inputs, &x, rank, dims, live, outputs, work)


cdef inline bint _find_dims(Value* value, int* rank, cnp.npy_intp** dims) noexcept nogil:
    """Find the dimensions of a value; return False for an array of a type other than NumPy's own."""
    cdef ArrayObject* array = array_in(value[0])
    rank[0], dims[0] = 0, NULL
    if array == NULL:
        return value.form == SCALAR
    if not PyArray_CheckExact(array):
        return False
    rank[0], dims[0] = PyArray_NDIM(array), PyArray_DIMS(array)
    return True


cdef int _shape(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Output the dimensions as a vector of int32."""
    cdef cnp.npy_intp* dims
    cdef cnp.npy_intp length
    cdef int32_t* sizes
    cdef int rank, d
    if not _find_dims(&inputs[0], &rank, &dims):
        return 0
    length = rank
    sizes = <int32_t*>new_result(live, output_type(table, node, 0), 1, &length, outputs)
    for d in range(rank):
        sizes[d] = <int32_t>dims[d]
    return 1


cdef int _count(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Output the number of elements (params[0] = 0) or of dimensions (1) as int32."""
    cdef cnp.npy_intp* dims
    cdef int rank
    if not _find_dims(&inputs[0], &rank, &dims):
        return 0
    outputs[0] = scalar(<uint32_t>(rank if node.params[0] else product(dims, 0, rank)))
    return 1


cdef struct Filling:  # of an array with one value
    char* target
    size_t size  # bytes of an element
    cnp.npy_intp count
    const char* source  # the value, where it lies in an array; else NULL
    char element[16]


cdef int _fill(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Make an array with a single value."""
    cdef size_t size = input_type(table, node, 1).itemsize
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef Filling* filling = <Filling*>work.arguments
    cdef int d
    cdef Operand value
    cdef char* made
    cdef int rank = read_sizes(&inputs[0], input_type(table, node, 0), dims)
    if rank < 0 or not open_plain(&inputs[1], &value) or value.rank:
        return 0
    for d in range(rank):
        if dims[d] < 0:
            return 0
    if size > sizeof(filling.element):
        return 0
    made = new_result(live, output_type(table, node, 0), rank, dims, outputs)
    if rank == 0:
        return copy_element_to(table, value.data, size, outputs, work)
    filling.target, filling.size, filling.count = made, size, product(dims, 0, rank)
    filling.source = value.data if inputs[1].form == OBJECT else NULL
    memcpy(filling.element, value.data, size)
    return do_or_leave(table, work, _fill_part, filling.count * size * FILL, MOST_PARTS, outputs)


cdef void _fill_part(const void* arguments, int part, int parts) noexcept nogil:
    """Write some of the elements."""
    cdef const Filling* filling = <const Filling*>arguments
    cdef cnp.npy_intp start = filling.count * part // parts
    cdef cnp.npy_intp count = filling.count * (part + 1) // parts - start
    cdef const char* element = filling.source if filling.source != NULL else filling.element
    repeat(filling.target + start * filling.size, element, filling.size, count)


cdef Native _find_reshape(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Reshape, ExpandDims, Squeeze, Shape, Size, Rank or Fill, or NULL."""
    if not are_copyable(outputs):
        return NULL
    if type == "Reshape":
        return _reshape
    if type == "ExpandDims":
        params[0] = attrs["axis"]
        return _expand
    if type == "Squeeze":
        axes = attrs["axis"]
        if any([not -MOST_DIMS <= axis < MOST_DIMS for axis in axes or ()]):
            return NULL
        params[0] = sum({1 << axis for axis in axes or () if axis >= 0})
        params[1] = sum({1 << (-1 - axis) for axis in axes or () if axis < 0})
        params[2] = axes is None
        return _squeeze
    if type == "Shape":
        return _shape
    if type == "Size" or type == "Rank":
        params[0] = type == "Rank"
        return _count
    return _fill


for _type in ("ExpandDims", "Fill", "Rank", "Reshape", "Shape", "Size", "Squeeze"):
    register(_type, _find_reshape, {"Reshape": (1,), "Fill": (0,)}.get(_type, ()))
