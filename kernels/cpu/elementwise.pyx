"""Elementwise kernels without a single NumPy loop for the operation.

Their results are those of the Python kernels, bit for bit where these round in the same order: sigmoid calls NumPy's
loop for exp or our own, AddN adds from left to right.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from tagloom.kernels.core.convert cimport as_integer
from tagloom.kernels.core.cost cimport do_or_leave, take_memory
from tagloom.kernels.core.table cimport Loop, Native, Node, Table, Type, Work, input_type, output_type
from tagloom.kernels.core.values cimport SCALAR, Counters, Value, hold, object_value, scalar
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_DATA, PyArray_DIMS, PyArray_NDIM, PyArray_SIZE, new_array, plain_in, same_shape,
    unshared,
)
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.ufuncs cimport find_native_loop, run_arrays
from tagloom.kernels.elementary.functions import OWN

cnp.import_array()


cdef extern from "cpu/short_loops.h" nogil:
    enum:
        SHORT_ADD, SHORT_DIVIDE, SHORT_NEGATIVE
    void short_loop_float(
        int operation, const float* x, cnp.npy_intp x_step, const float* y, cnp.npy_intp y_step, float* z,
        cnp.npy_intp count)
    void short_loop_double(
        int operation, const double* x, cnp.npy_intp x_step, const double* y, cnp.npy_intp y_step, double* z,
        cnp.npy_intp count)


cdef struct Exp:  # an inner loop for one element type
    Loop loop
    void* data


cdef Exp _exp_float, _exp_double

cdef double LOGISTIC_PACE = 0.4 if "exp" in OWN else 1  # nanoseconds that a byte takes, about
cdef double SUM_PACE = 0.3  # the same for each term of a sum

cdef enum:
    MOST_PARTS = 64
    MOST_TERMS = 16  # of a sum that needs no memory of its own to name them

cdef fused real:
    float
    double


cdef struct Logistic:  # of all elements of an array
    char* source
    char* target
    cnp.npy_intp count
    size_t size  # bytes of an element


cdef struct Sum:  # of arrays of one shape
    char* total
    cnp.npy_intp count
    int num_terms
    bint is_double
    char* terms[MOST_TERMS]
    char** more  # if there are more terms: all of them


_exp_float.loop = find_native_loop("exp", [cnp.NPY_FLOAT32] * 2, &_exp_float.data)
_exp_double.loop = find_native_loop("exp", [cnp.NPY_FLOAT64] * 2, &_exp_double.data)


cdef inline void _run_exp(const Exp* exp, char* elements, cnp.npy_intp count, cnp.npy_intp size) noexcept nogil:
    """Replace elements by their exponentials."""
    cdef char* pointers[2]
    cdef cnp.npy_intp strides[2]
    pointers[0] = pointers[1] = elements
    strides[0] = strides[1] = size
    exp.loop(pointers, &count, strides, exp.data)


cdef void logistic(char* source, char* target, cnp.npy_intp count, size_t size) noexcept nogil:
    """Compute 1 / (1 + exp(-x)) of elements of 4 or 8 bytes."""
    cdef float one = 1
    cdef double one_double = 1
    cdef float* y = <float*>target
    cdef double* z = <double*>target
    if size == sizeof(float):
        short_loop_float(SHORT_NEGATIVE, <float*>source, 1, <float*>source, 1, y, count)
        _run_exp(&_exp_float, target, count, size)
        short_loop_float(SHORT_ADD, &one, 0, y, 1, y, count)
        short_loop_float(SHORT_DIVIDE, &one, 0, y, 1, y, count)
    else:
        short_loop_double(SHORT_NEGATIVE, <double*>source, 1, <double*>source, 1, z, count)
        _run_exp(&_exp_double, target, count, size)
        short_loop_double(SHORT_ADD, &one_double, 0, z, 1, z, count)
        short_loop_double(SHORT_DIVIDE, &one_double, 0, z, 1, z, count)


cdef inline int _sigmoid(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work, real* _) except -1:
    cdef ArrayObject* x = plain_in(inputs[0])
    cdef ArrayObject* y
    cdef Logistic* left = <Logistic*>work.arguments
    if inputs[0].form == SCALAR:
        outputs[0] = scalar(0)
        logistic(<char*>&inputs[0].bits, <char*>&outputs[0].bits, 1, sizeof(real))
        return 1
    if x == NULL:
        return 0
    y = unshared(table, node, inputs, output_type(table, node, 0))
    if y != NULL:
        hold(live, outputs, object_value(<PyObject*>y))
    else:
        y = new_array(live, output_type(table, node, 0), PyArray_NDIM(x), PyArray_DIMS(x), outputs)
    if PyArray_SIZE(y) == 0:
        return 1
    left.source, left.target = <char*>PyArray_DATA(x), <char*>PyArray_DATA(y)
    left.count, left.size = PyArray_SIZE(y), sizeof(real)
    return do_or_leave(table, work, _logistic_part, left.count * sizeof(real) * LOGISTIC_PACE, MOST_PARTS, outputs)


cdef void _logistic_part(const void* arguments, int part, int parts) noexcept nogil:
    cdef const Logistic* left = <const Logistic*>arguments
    cdef cnp.npy_intp start = left.count * part // parts
    cdef cnp.npy_intp count = left.count * (part + 1) // parts - start
    logistic(left.source + start * left.size, left.target + start * left.size, count, left.size)


cdef int _sigmoid_float(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _sigmoid(table, node, inputs, live, outputs, work, <float*>NULL)


cdef int _sigmoid_double(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _sigmoid(table, node, inputs, live, outputs, work, <double*>NULL)


cdef inline int _add_n(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work, real* _) except -1:
    """Add plain arrays of one shape, or scalars."""
    cdef ArrayObject* first = plain_in(inputs[0])
    cdef ArrayObject* each
    cdef Sum* sum = <Sum*>work.arguments
    if node.num_inputs == 1:
        hold(live, outputs, inputs[0])
        return 1
    if inputs[0].form == SCALAR:
        return _add_scalars(node, inputs, outputs, _)
    if first == NULL:
        return 0
    for i in range(node.num_inputs):
        each = plain_in(inputs[i])
        if each == NULL or not same_shape(first, each):
            return 0
    _name_terms(sum, node, inputs, work)
    each = new_array(live, output_type(table, node, 0), PyArray_NDIM(first), PyArray_DIMS(first), outputs)
    sum.total, sum.count, sum.num_terms = <char*>PyArray_DATA(each), PyArray_SIZE(each), node.num_inputs
    sum.is_double = real is double
    return do_or_leave(table, work, _add_part, sum.count * sum.num_terms * SUM_PACE, MOST_PARTS, outputs)


cdef int _name_terms(Sum* sum, const Node* node, const Value* inputs, Work* work) except -1:
    """Note where the terms are, in memory of their own if there are many."""
    cdef char** terms = sum.terms
    sum.more = NULL
    if node.num_inputs > MOST_TERMS:
        sum.more = terms = <char**>take_memory(work, node.num_inputs * sizeof(char*))
    for i in range(node.num_inputs):
        terms[i] = <char*>PyArray_DATA(plain_in(inputs[i]))
    return 0


cdef void _add_part(const void* arguments, int part, int parts) noexcept nogil:
    """Add up some of the elements."""
    cdef const Sum* sum = <const Sum*>arguments
    if sum.is_double:
        _add_arrays(sum, part, parts, <double*>NULL)
    else:
        _add_arrays(sum, part, parts, <float*>NULL)


cdef inline void _add_arrays(const Sum* sum, int part, int parts, real* _) noexcept nogil:
    cdef cnp.npy_intp start = sum.count * part // parts
    cdef cnp.npy_intp count = sum.count * (part + 1) // parts - start
    cdef char* const* terms = &sum.terms[0] if sum.more == NULL else sum.more
    cdef real* total = <real*>sum.total + start
    cdef int i
    _add_pair(<real*>terms[0] + start, <real*>terms[1] + start, total, count)
    for i in range(2, sum.num_terms):
        _add_pair(total, <real*>terms[i] + start, total, count)


cdef inline int _add_scalars(const Node* node, Value* inputs, Value* outputs, real* _) noexcept nogil:
    cdef real total
    cdef real term
    memcpy(&total, &inputs[0].bits, sizeof(real))
    for i in range(1, node.num_inputs):
        if inputs[i].form != SCALAR:
            return 0
        memcpy(&term, &inputs[i].bits, sizeof(real))
        total += term
    outputs[0] = scalar(0)
    memcpy(&outputs[0].bits, &total, sizeof(real))
    return 1


cdef inline void _add_pair(real* a, real* b, real* sum, cnp.npy_intp count) noexcept nogil:
    cdef cnp.npy_intp i
    for i in range(count):
        sum[i] = a[i] + b[i]


cdef int _add_n_float(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _add_n(table, node, inputs, live, outputs, work, <float*>NULL)


cdef int _add_n_double(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _add_n(table, node, inputs, live, outputs, work, <double*>NULL)


cdef int _cast_integer(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Cast an integer to an integer, cutting off high bits as NumPy does. Arrays are cast by an inner loop."""
    cdef const Type* target = output_type(table, node, 0)
    cdef int64_t number
    if inputs[0].form != SCALAR:
        return 0 if node.loop == NULL else run_arrays(table, node, inputs, live, outputs, work)
    number = as_integer(inputs[0], input_type(table, node, 0))
    outputs[0] = scalar(0)
    memcpy(&outputs[0].bits, &number, target.size)
    return 1


cdef Native _find_cast(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Cast, if it is from integer to integer."""
    if inputs[0].kind in "iu" and outputs[0].kind in "iu":
        return _cast_integer
    return NULL


cdef inline Native _for(object dtype, Native floats, Native doubles):
    if dtype == np.float32:
        return floats
    if dtype == np.float64:
        return doubles
    return NULL


cdef Native _find_add_n(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of AddN."""
    return _for(outputs[0], _add_n_float, _add_n_double)


cdef Native _find_sigmoid(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Sigmoid."""
    if _exp_float.loop == NULL or _exp_double.loop == NULL:
        return NULL
    return _for(outputs[0], _sigmoid_float, _sigmoid_double)


register("Cast", _find_cast, ())
register("AddN", _find_add_n, ())
register("Sigmoid", _find_sigmoid, ())
