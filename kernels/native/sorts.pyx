"""Sorts along the last axis, by NumPy's own functions, as steps of a run."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from numpy cimport npy_intp

from tagloom.kernels.native.tracing.interface import Untraceable

from tagloom.kernels.core.cost cimport decline
from tagloom.kernels.native.run cimport Run
from tagloom.kernels.native.strided cimport append_work, data_in

ctypedef int (*SortFunction)(void*, npy_intp, void*) noexcept nogil
ctypedef int (*OrderFunction)(void*, npy_intp*, npy_intp, void*) noexcept nogil

cdef extern from "numpy/arrayobject.h":
    ctypedef struct ArrayFunctions "PyArray_ArrFuncs":
        void* sort[3]  # by NPY_QUICKSORT, NPY_HEAPSORT, NPY_STABLESORT
        void* argsort[3]
    ArrayFunctions* get_functions "PyDataType_GetArrFuncs"(const cnp.PyArray_Descr*)

cnp.import_array()

cdef enum:
    QUICK = 0
    STABLE = 2
    COMPARE = 4  # nanoseconds


cdef struct Sort:  # of rows, one after the other
    char* data
    int64_t* places  # of sorted elements, or NULL
    npy_intp rows
    npy_intp width  # elements of a row
    npy_intp size  # bytes of an element
    SortFunction sort
    OrderFunction order
    void* array  # of the dtype


cdef int append_sort(Run run, array, bint is_stable) except -1:
    """Append a sort of elements along the last axis, in place, of an array in order."""
    cdef Sort* sort = _describe(run, array, is_stable)
    return _append(run, sort, [array], [array]) if sort.width > 1 else 0


cdef int append_order(Run run, source, places, bint is_stable) except -1:
    """Append the positions that sort elements along the last axis; both arrays are in order."""
    cdef Sort* sort = _describe(run, source, is_stable)
    sort.places = <int64_t*>data_in(places)
    return _append(run, sort, [source], [places])


cdef Sort* _describe(Run run, array, bint is_stable) except NULL:
    cdef Sort* sort = <Sort*>run.arena.take(1, sizeof(Sort))
    cdef ArrayFunctions* functions = get_functions(<const cnp.PyArray_Descr*><PyObject*>array.dtype)
    cdef int kind = STABLE if is_stable else QUICK
    sort.data, sort.width, sort.size = data_in(array), array.shape[array.ndim - 1], array.dtype.itemsize
    sort.rows = array.size // max(sort.width, 1)
    sort.sort, sort.order = <SortFunction>functions.sort[kind], <OrderFunction>functions.argsort[kind]
    sort.array = <PyObject*>array
    if sort.sort == NULL or sort.order == NULL or array.dtype.kind not in "biufc" or not array.dtype.isnative:
        raise Untraceable
    return sort


cdef int _append(Run run, Sort* sort, list inputs, list outputs) except -1:
    cdef double depth = len(bin(sort.width))
    if sort.rows:
        append_work(run, _sort, sort, inputs, outputs, sort.rows * sort.width * depth * COMPARE)
    return 0


cdef void _sort(const void* arguments, int part, int parts) noexcept nogil:
    """Sort rows, or find their order; a lack of memory declines."""
    cdef const Sort* sort = <const Sort*>(<const uint64_t*>arguments)[0]
    cdef int64_t* places
    cdef char* row
    cdef npy_intp i, k
    for i in range(sort.rows):
        row = sort.data + i * sort.width * sort.size
        if sort.places == NULL:
            k = sort.sort(row, sort.width, sort.array)
        else:
            places = sort.places + i * sort.width
            for k in range(sort.width):
                places[k] = k
            k = sort.order(row, <npy_intp*>places, sort.width, sort.array)
        if k < 0:
            decline(arguments)
            return
