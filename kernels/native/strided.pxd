"""Steps over arrays of any strides."""

from cpython.object cimport PyObject
from numpy cimport npy_intp

from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.cpu.arrays cimport ArrayObject, PyArray_DATA
from tagloom.kernels.native.run cimport Run

cdef enum:
    MOST_DIMS = 16
    MOST_ARRAYS = 8  # of a loop
    FUNCTION = 8  # nanoseconds that an element of a loop takes, at most
    MOVE = 1  # nanoseconds of an element that is copied


cdef struct Walk:  # places of arrays of one shape and any strides, for all but some last dimensions of them
    Loop loop
    void* data
    int arrays
    int rank
    npy_intp dims[MOST_DIMS]
    npy_intp strides[MOST_ARRAYS][MOST_DIMS]
    char* pointers[MOST_ARRAYS]


cdef int append_loop(
    Run run, Loop loop, void* data, list inputs, list outputs, int pace, bint keeps_pointers=*) except -1
cdef int append_copy(Run run, source, target) except -1
cdef int append_gather(Run run, source, places, target) except -1
cdef int append_scan(Run run, Loop loop, void* data, source, target) except -1
cdef int append_work(
    Run run, void (*compute)(const void*, int, int) noexcept nogil, void* state, list inputs, list outputs,
    double cost) except -1
cdef int count_cost(Run run, double cost) noexcept
cdef int set_dimensions(Walk* walk, list arrays, bint keeps_last=*) except -1
cdef bint advance(Walk* walk, npy_intp* place, int rank) noexcept nogil


cdef inline char* data_in(array):
    return <char*>PyArray_DATA(<ArrayObject*><PyObject*>array)
