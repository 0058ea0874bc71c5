"""NumPy's inner loops, called without NumPy around them.

A ufunc lists a C loop for each combination of element types that it supports natively. For those the machine
needs neither the ufunc's argument handling nor boxed scalars: it calls the loop. What a loop can not do
(broadcasting, strides, casts, user dtypes) goes through the ufunc itself.
"""

cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject

import numpy as np

from tagflow.kernels.scheduler.table cimport Loop, Node, Table, Type, input_type, output_type
from tagflow.kernels.scheduler.values cimport OBJECT, SCALAR, Counters, Py_INCREF, Value, hold, object_value

cdef extern from "numpy/arrayobject.h":
    PyTypeObject PyArray_Type
    ctypedef struct ArrayObject "PyArrayObject":
        pass
    ctypedef struct DescrObject "PyArray_Descr":
        pass
    object PyArray_NewFromDescr(
        PyTypeObject*, DescrObject* descr, int, const cnp.npy_intp*, const cnp.npy_intp*, void*, int, PyObject*)
    int PyArray_FLAGS(ArrayObject*) nogil
    int PyArray_NDIM(ArrayObject*) nogil
    cnp.npy_intp PyArray_SIZE(ArrayObject*) nogil
    cnp.npy_intp* PyArray_DIMS(ArrayObject*) nogil
    void* PyArray_DATA(ArrayObject*) nogil
    PyObject* PyArray_BASE(ArrayObject*) nogil
    bint PyArray_CheckExact(ArrayObject*) nogil
    bint PyArray_CompareLists(const cnp.npy_intp*, const cnp.npy_intp*, int) nogil
    bint PyArray_ISNOTSWAPPED(ArrayObject*) nogil

cdef extern from "numpy/ufuncobject.h":
    ctypedef struct UfuncObject "PyUFuncObject":
        int nargs
        int ntypes  # number of loops
        void* functions  # one loop each
        void* data  # handed to the loop of the same number
        const char* types  # type numbers, nargs for each loop

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(ArrayObject*) nogil

cnp.import_array()
cnp.import_ufunc()

cdef enum:
    MOST_INPUTS = 3


cdef int find_loop(Node* node, str name, list inputs, list outputs) except -1:
    """Point a node at the inner loop of a ufunc for exactly these dtypes, if it has one of its own."""
    ufunc = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc) or ufunc.signature is not None or ufunc.nout != 1 or ufunc.nin > MOST_INPUTS:
        return 0
    if len(inputs) != ufunc.nin or len(outputs) != 1 or not _are_plain(inputs + outputs):
        return 0
    cdef UfuncObject* found = <UfuncObject*><PyObject*>ufunc
    cdef void** loops = <void**>found.functions
    cdef void** data = <void**>found.data
    numbers = [dtype.num for dtype in inputs + outputs]
    for i in range(found.ntypes):
        if loops[i] != NULL and numbers == [found.types[i * found.nargs + k] for k in range(found.nargs)]:
            node.loop = <Loop>loops[i]
            node.loop_data = data[i] if data != NULL else NULL
            return 1
    return 0


cdef bint _are_plain(list dtypes):
    """Say whether these are native numbers or bools, for which an element needs no care."""
    return all([d is not None and d.kind in "biufc" and d.isnative for d in dtypes])


cdef int run_arrays(const Table* table, const Node* node, Value* inputs, Counters* live, Value* output) except -1:
    """Run the inner loop over equally shaped contiguous arrays and scalars; return 0 if the inputs are not that.

    The result goes into the buffer of an input that nobody else holds, else into a new array.
    """
    cdef ArrayObject* like = _common_shape(node, inputs)
    cdef Type* type = output_type(table, node, 0)
    if like == NULL or (PyArray_NDIM(like) == 0 and type.size != 0):
        return 0
    cdef ArrayObject* reused = _unshared(table, node, inputs, type)
    if reused != NULL:
        hold(live, output, object_value(<PyObject*>reused))
    else:
        array = _new(type, like)
        hold(live, output, object_value(<PyObject*>array))
    _loop(table, node, inputs, <ArrayObject*>output.bits)
    return 1


cdef object _new(const Type* type, ArrayObject* like):
    """Return a new array of the shape of another."""
    cdef DescrObject* descr = <DescrObject*>type.descr
    Py_INCREF(type.descr)  # stolen by the new array
    return PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(like), PyArray_DIMS(like), NULL, NULL, 0, NULL)


cdef inline ArrayObject* _common_shape(const Node* node, const Value* inputs) noexcept nogil:
    """Return an array whose shape all arrays among the inputs have, if all are plain; else NULL."""
    cdef ArrayObject* like = NULL
    cdef ArrayObject* array
    for i in range(node.num_inputs):
        if inputs[i].form != OBJECT:
            continue
        array = <ArrayObject*>inputs[i].bits
        if not _is_plain(array):
            return NULL
        if like == NULL:
            like = array
        elif PyArray_NDIM(array) != PyArray_NDIM(like):
            return NULL
        elif not PyArray_CompareLists(PyArray_DIMS(array), PyArray_DIMS(like), PyArray_NDIM(like)):
            return NULL
    return like


cdef inline bint _is_plain(ArrayObject* array) noexcept nogil:
    """Say whether an inner loop can run straight over an array."""
    cdef int wanted = cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED
    return PyArray_CheckExact(array) and PyArray_FLAGS(array) & wanted == wanted and PyArray_ISNOTSWAPPED(array)


cdef inline ArrayObject* _unshared(
        const Table* table, const Node* node, const Value* inputs, const Type* type) noexcept nogil:
    """Return an input array that only this instance holds and that the result fits into, else NULL (rule 43)."""
    cdef int wanted = cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE
    cdef ArrayObject* array
    for i in range(node.num_inputs):
        array = <ArrayObject*>inputs[i].bits
        if inputs[i].form != OBJECT or input_type(table, node, i).number != type.number:
            continue
        if Py_REFCNT(array) == 1 and PyArray_FLAGS(array) & wanted == wanted and PyArray_BASE(array) == NULL:
            return array
    return NULL


cdef inline void _loop(const Table* table, const Node* node, Value* inputs, ArrayObject* output) noexcept nogil:
    """Run the inner loop over all elements; scalars stand still."""
    cdef char* pointers[MOST_INPUTS + 1]
    cdef cnp.npy_intp strides[MOST_INPUTS + 1]
    cdef cnp.npy_intp count = PyArray_SIZE(output)
    for i in range(node.num_inputs):
        if inputs[i].form == SCALAR:
            pointers[i] = <char*>&inputs[i].bits
            strides[i] = 0
        else:
            pointers[i] = <char*>PyArray_DATA(<ArrayObject*>inputs[i].bits)
            strides[i] = input_type(table, node, i).itemsize
    pointers[node.num_inputs] = <char*>PyArray_DATA(output)
    strides[node.num_inputs] = output_type(table, node, 0).itemsize
    if count > 0:
        node.loop(pointers, &count, strides, node.loop_data)
