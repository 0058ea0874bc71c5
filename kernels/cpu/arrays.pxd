"""NumPy arrays as C kernels see them. A module that uses this calls ``numpy.import_array`` itself."""

cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject

from tagflow.kernels.scheduler.table cimport Table, Node, Type, input_type, output_type
from tagflow.kernels.scheduler.values cimport OBJECT, Counters, Py_INCREF, Value, hold, object_value

cdef extern from "numpy/arrayobject.h" nogil:
    PyTypeObject PyArray_Type
    ctypedef struct ArrayObject "PyArrayObject":
        pass
    ctypedef struct DescrObject "PyArray_Descr":
        pass
    int PyArray_FLAGS(ArrayObject*)
    int PyArray_NDIM(ArrayObject*)
    cnp.npy_intp PyArray_SIZE(ArrayObject*)
    cnp.npy_intp PyArray_NBYTES(ArrayObject*)
    cnp.npy_intp PyArray_DIM(ArrayObject*, int)
    cnp.npy_intp* PyArray_DIMS(ArrayObject*)
    void* PyArray_DATA(ArrayObject*)
    PyObject* PyArray_BASE(ArrayObject*)
    bint PyArray_CheckExact(ArrayObject*)
    bint PyArray_CompareLists(const cnp.npy_intp*, const cnp.npy_intp*, int)
    bint PyArray_ISNOTSWAPPED(ArrayObject*)

cdef extern from "numpy/arrayobject.h":
    # Steals the reference to the descr.
    object PyArray_NewFromDescr(
        PyTypeObject*, DescrObject* descr, int, const cnp.npy_intp*, const cnp.npy_intp*, void*, int, PyObject*)

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(ArrayObject*) nogil


cdef inline ArrayObject* array_in(Value value) noexcept nogil:
    """Return the array that a value holds, borrowed, or NULL if it is a scalar."""
    return <ArrayObject*>value.bits if value.form == OBJECT else NULL


cdef inline bint is_usable(ArrayObject* array) noexcept nogil:
    """Say whether C code may read an array's elements where they lie."""
    return PyArray_CheckExact(array) and PyArray_FLAGS(array) & cnp.NPY_ARRAY_ALIGNED and PyArray_ISNOTSWAPPED(array)


cdef inline bint is_plain(ArrayObject* array) noexcept nogil:
    """Say whether a loop can run straight over an array."""
    return is_usable(array) and PyArray_FLAGS(array) & cnp.NPY_ARRAY_C_CONTIGUOUS


cdef inline ArrayObject* plain_in(Value value) noexcept nogil:
    """Return the plain array that a value holds, borrowed, or NULL."""
    cdef ArrayObject* array = array_in(value)
    return array if array != NULL and is_plain(array) else NULL


cdef inline bint same_shape(ArrayObject* a, ArrayObject* b) noexcept nogil:
    """Say whether two arrays have the same shape."""
    return PyArray_NDIM(a) == PyArray_NDIM(b) and PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a))


cdef inline ArrayObject* new_array(
        Counters* live, const Type* type, int rank, const cnp.npy_intp* dims, Value* place) except NULL:
    """Put a new array into an EMPTY place, which owns it, and return it."""
    Py_INCREF(type.descr)  # stolen by the new array
    array = PyArray_NewFromDescr(&PyArray_Type, <DescrObject*>type.descr, rank, dims, NULL, NULL, 0, NULL)
    hold(live, place, object_value(<PyObject*>array))
    return <ArrayObject*>place.bits


cdef inline ArrayObject* unshared(const Table* table, const Node* node, const Value* inputs, const Type* type) noexcept nogil:
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
