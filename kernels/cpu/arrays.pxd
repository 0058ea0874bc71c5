"""NumPy arrays as C kernels see them. Modules with these functions call ``numpy.import_array`` themselves."""

cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from tagloom.kernels.core.table cimport Node, Table, Type, input_type
from tagloom.kernels.core.values cimport OBJECT, SCALAR, Counters, Py_INCREF, Value, hold, object_value, scalar

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
    int PyArray_ITEMSIZE(ArrayObject*)
    void* PyArray_DATA(ArrayObject*)
    PyObject* PyArray_BASE(ArrayObject*)
    bint PyArray_CheckExact(ArrayObject*)
    bint PyArray_CompareLists(const cnp.npy_intp*, const cnp.npy_intp*, int)
    bint PyArray_ISNOTSWAPPED(ArrayObject*)
    cnp.npy_intp* PyArray_STRIDES(ArrayObject*)

cdef extern from "numpy/arrayobject.h":
    # Steals the reference to the descr.
    object PyArray_NewFromDescr(
        PyTypeObject*, DescrObject* descr, int, const cnp.npy_intp*, const cnp.npy_intp*, void*, int, PyObject*)
    # Steals the reference to the base.
    int PyArray_SetBaseObject(ArrayObject*, PyObject* base) except -1

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(ArrayObject*) nogil


cdef enum:
    MOST_DIMS = 16  # of arrays whose dimensions a kernel goes through


cdef inline ArrayObject* array_in(Value value) noexcept nogil:
    """Return the array held by a value, borrowed, or NULL for a scalar."""
    return <ArrayObject*>value.bits if value.form == OBJECT else NULL


cdef inline bint is_usable(ArrayObject* array) noexcept nogil:
    """Return True if C code may read an array's elements in place."""
    return PyArray_CheckExact(array) and PyArray_FLAGS(array) & cnp.NPY_ARRAY_ALIGNED and PyArray_ISNOTSWAPPED(array)


cdef inline bint is_plain(ArrayObject* array) noexcept nogil:
    """Return True if a loop can run straight over an array."""
    return is_usable(array) and PyArray_FLAGS(array) & cnp.NPY_ARRAY_C_CONTIGUOUS


cdef inline ArrayObject* plain_in(Value value) noexcept nogil:
    """Return the plain array in a value, borrowed, or NULL."""
    cdef ArrayObject* array = array_in(value)
    return array if array != NULL and is_plain(array) else NULL


cdef inline bint same_shape(ArrayObject* a, ArrayObject* b) noexcept nogil:
    """Return True if two arrays have the same shape."""
    return PyArray_NDIM(a) == PyArray_NDIM(b) and PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a))


cdef inline ArrayObject* new_array(
        Counters* live, const Type* type, int rank, const cnp.npy_intp* dims, Value* place) except NULL:
    """Put a new array into an EMPTY place as its owner, and return the array."""
    Py_INCREF(type.descr)  # stolen by the new array
    array = PyArray_NewFromDescr(&PyArray_Type, <DescrObject*>type.descr, rank, dims, NULL, NULL, 0, NULL)
    hold(live, place, object_value(<PyObject*>array))
    return <ArrayObject*>place.bits


cdef inline bint is_unshared(const Table* table, ArrayObject* array) noexcept nogil:
    """Return True if an array has a single reference, the caller's token, and its memory may be written to."""
    cdef int wanted = cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE
    if not table.reuse or Py_REFCNT(array) != 1 or PyArray_BASE(array) != NULL:
        return False
    return PyArray_FLAGS(array) & wanted == wanted


cdef inline ArrayObject* unshared(const Table* table, const Node* node, const Value* inputs, const Type* type) noexcept nogil:
    """Return an input array held only by this instance and with room for the result, else NULL (rule 43)."""
    cdef ArrayObject* array
    for i in range(node.num_inputs):
        array = <ArrayObject*>inputs[i].bits
        if inputs[i].form != OBJECT or input_type(table, node, i).number != type.number:
            continue
        if is_unshared(table, array):
            return array
    return NULL


cdef struct Operand:  # an input of a kernel: a plain array, or an unboxed element
    char* data
    cnp.npy_intp* dims
    int rank  # at most MOST_DIMS
    cnp.npy_intp size  # number of elements


cdef inline bint open_plain(Value* value, Operand* found) noexcept nogil:
    """Describe the elements of a value, which stays in place; return False if they do not lie in order."""
    cdef ArrayObject* array = array_in(value[0])
    found.data, found.dims, found.rank, found.size = <char*>&value.bits, NULL, 0, 1
    if array == NULL:
        return value.form == SCALAR
    if not is_plain(array) or PyArray_NDIM(array) > MOST_DIMS:
        return False
    found.data, found.dims = <char*>PyArray_DATA(array), PyArray_DIMS(array)
    found.rank, found.size = PyArray_NDIM(array), PyArray_SIZE(array)
    return True


cdef inline char* new_result(
        Counters* live, const Type* type, int rank, const cnp.npy_intp* dims, Value* place) except NULL:
    """Put a new array, or an unboxed element, into an EMPTY place; return where its elements go."""
    if rank == 0 and type.size != 0:
        place[0] = scalar(0)
        return <char*>&place.bits
    return <char*>PyArray_DATA(new_array(live, type, rank, dims, place))


cdef inline int new_view(
        Counters* live, const Type* type, ArrayObject* base, char* data, int rank, const cnp.npy_intp* dims,
        Value* place) except -1:
    """Put a plain view of elements of an aligned array into an EMPTY place; the view keeps its base alive, and
    unchanged.
    """
    cdef int flags = PyArray_FLAGS(base) & cnp.NPY_ARRAY_WRITEABLE | cnp.NPY_ARRAY_ALIGNED
    Py_INCREF(type.descr)  # stolen by the view
    view = PyArray_NewFromDescr(&PyArray_Type, <DescrObject*>type.descr, rank, dims, NULL, data, flags, NULL)
    Py_INCREF(<PyObject*>base)  # stolen by the next call
    PyArray_SetBaseObject(<ArrayObject*><PyObject*>view, <PyObject*>base)
    hold(live, place, object_value(<PyObject*>view))
    return 0


cdef inline cnp.npy_intp product(const cnp.npy_intp* dims, int start, int stop) noexcept nogil:
    """Multiply the dimensions from `start` to before `stop`."""
    cdef cnp.npy_intp total = 1
    cdef int i
    for i in range(start, stop):
        total *= dims[i]
    return total


cdef inline int64_t integer_at(const char* data, size_t itemsize, cnp.npy_intp i) noexcept nogil:
    """Return an element of a plain array of int32 or int64."""
    return (<const int32_t*>data)[i] if itemsize == 4 else (<const int64_t*>data)[i]


cdef inline int read_sizes(Value* value, const Type* type, cnp.npy_intp* sizes) noexcept nogil:
    """Read a shape (MOST_DIMS at most) from a vector of int32 or int64; return its rank, -1 for anything else."""
    cdef Operand vector
    if not open_plain(value, &vector) or vector.rank != 1 or vector.size > MOST_DIMS:
        return -1
    for i in range(vector.size):
        sizes[i] = integer_at(vector.data, type.itemsize, i)
    return <int>vector.size


cdef inline bint are_sizes(const cnp.npy_intp* sizes, int rank) noexcept nogil:
    """Return True if no size is negative."""
    cdef int d
    for d in range(rank):
        if sizes[d] < 0:
            return False
    return True


cdef inline void repeat(char* target, const char* element, size_t size, cnp.npy_intp count) noexcept nogil:
    """Write an element `count` times."""
    cdef cnp.npy_intp i
    cdef uint32_t four
    cdef uint64_t eight
    if size == 4:
        four = (<const uint32_t*>element)[0]
        for i in range(count):
            (<uint32_t*>target)[i] = four
    elif size == 8:
        eight = (<const uint64_t*>element)[0]
        for i in range(count):
            (<uint64_t*>target)[i] = eight
    elif size == 1:
        memset(target, element[0], count)
    else:
        for i in range(count):
            memcpy(target + i * size, element, size)


cdef inline bint are_copyable(list dtypes):
    """Return True if elements of dtypes can be copied as bytes: numbers, bools and void."""
    return all([dtype is not None and dtype.kind in "biufcV" for dtype in dtypes])
