"""Between Python objects and values: kernels see arrays, edges carry bits where they can."""

cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from libc.string cimport memcpy

import numpy as np

from tagloom.kernels.core.table cimport Type
from tagloom.kernels.core.values cimport EMPTY, OBJECT, Counters, Py_INCREF, Value, hold, object_value, scalar

cdef extern from "numpy/arrayobject.h":
    PyTypeObject PyArray_Type
    PyTypeObject PyGenericArrType_Type
    ctypedef struct ArrayObject "PyArrayObject":
        pass
    ctypedef struct DescrObject "PyArray_Descr":
        pass
    DescrObject* PyArray_DESCR(ArrayObject*)
    # Steals the reference to the descr.
    object PyArray_NewFromDescr(
        PyTypeObject*, DescrObject* descr, int, const cnp.npy_intp*, const cnp.npy_intp*, void*, int, PyObject*)

cdef extern from "Python.h":
    bint PyObject_TypeCheck(object, PyTypeObject*)

cnp.import_array()


cdef object box(Value value, const Type* type):
    """Return a live value as an object: the held object, or a new array of no dimensions.

    Returns None for EMPTY.
    """
    if value.form == OBJECT:
        return <object><PyObject*>value.bits
    if value.form == EMPTY:
        return None
    Py_INCREF(type.descr)  # stolen by the new array
    array = PyArray_NewFromDescr(&PyArray_Type, <DescrObject*>type.descr, 0, NULL, NULL, NULL, 0, NULL)
    memcpy(cnp.PyArray_DATA(array), &value.bits, type.size)
    return array


cdef int accept(Counters* live, object result, const Type* type, Value* place) except -1:
    """Store the result of a kernel in an EMPTY place.

    Raises
    ------
    TypeError
        If it is not an array (or NumPy scalar) of the declared dtype; nothing is ever cast.
    """
    if type.descr != NULL:
        if not cnp.PyArray_CheckExact(result):
            if type.any_library and _is_foreign(result, <object>type.descr):
                hold(live, place, object_value(<PyObject*>result))
                return 0
            result = _as_array(result, <object>type.descr)
        if <PyObject*>PyArray_DESCR(<ArrayObject*><PyObject*>result) != type.descr:
            result = _with_dtype(result, <object>type.descr)
        if type.size != 0 and cnp.PyArray_NDIM(result) == 0:
            place[0] = scalar(0)
            memcpy(&place.bits, cnp.PyArray_DATA(result), type.size)
            return 0
    hold(live, place, object_value(<PyObject*>result))
    return 0


cdef bint _is_foreign(object result, object dtype) except -1:
    """Return True if a result is an array of another library than NumPy, of the declared dtype."""
    if PyObject_TypeCheck(result, &PyArray_Type) or PyObject_TypeCheck(result, &PyGenericArrType_Type):
        return False
    return getattr(result, "dtype", None) == dtype


cdef object _as_array(object result, object dtype):
    """Return an array for an array of a subclass or a NumPy scalar; a str too where strings are declared."""
    if PyObject_TypeCheck(result, &PyArray_Type):
        return np.asarray(result)
    if PyObject_TypeCheck(result, &PyGenericArrType_Type) and dtype.kind != "T":
        return np.asarray(result)
    if dtype.kind == "T" and isinstance(result, str):
        return np.array(result, dtype)
    raise TypeError(f"wanted an array of {dtype}, got {_describe(result)}")


cdef object _with_dtype(object array, object dtype):
    """Return the array if its dtype is the declared one; in native byte order."""
    if array.dtype == dtype:
        return array
    if array.dtype.newbyteorder("=") == dtype:
        return array.astype(dtype)
    raise TypeError(f"wanted an array of {dtype}, got one of {array.dtype}")


cdef str _describe(object result):
    """Describe the type of a kernel's result."""
    return "None" if result is None else f"a {type(result).__qualname__}"
