"""Products of matrices by BLAS, called without NumPy around it.

What is not two plain matrices of float32 or float64 goes through the Python kernel.
"""

cimport numpy as cnp
from libc.limits cimport INT_MAX
from scipy.linalg.cython_blas cimport dgemm, sgemm

import numpy as np

from tagflow.kernels.cpu.arrays cimport (
    PyArray_DATA, PyArray_DIM, PyArray_FLAGS, PyArray_NDIM, ArrayObject, array_in, is_usable, new_array,
)
from tagflow.kernels.scheduler.table cimport Native, Node, Table, output_type
from tagflow.kernels.scheduler.values cimport Counters, Value

cnp.import_array()

cdef enum:
    TINY = 64  # multiplications up to which a plain loop beats a call of BLAS
    LONG = 1 << 20  # multiplications from which on other threads may run meanwhile


cdef struct Matrix:  # an operand as BLAS wants it
    void* data
    bint transposed  # whether rows and columns are to be swapped after reading it row by row
    int rows  # as stored, row by row
    int columns


cdef fused real:
    float
    double


cdef inline bint _as_matrix(ArrayObject* array, bint transposed, Matrix* found) noexcept nogil:
    """Describe an operand; say no if it is not a matrix that lies in memory row by row or column by column."""
    cdef bint by_rows
    if array == NULL or not is_usable(array) or PyArray_NDIM(array) != 2:
        return False
    by_rows = PyArray_FLAGS(array) & cnp.NPY_ARRAY_C_CONTIGUOUS
    if not by_rows and not PyArray_FLAGS(array) & cnp.NPY_ARRAY_F_CONTIGUOUS:
        return False
    if PyArray_DIM(array, 0) > INT_MAX or PyArray_DIM(array, 1) > INT_MAX:
        return False
    found.data = PyArray_DATA(array)
    found.transposed = transposed if by_rows else not transposed
    found.rows = <int>PyArray_DIM(array, 0 if by_rows else 1)
    found.columns = <int>PyArray_DIM(array, 1 if by_rows else 0)
    return True


cdef inline void _small(Matrix* a, Matrix* b, int rows, int columns, int inner, real* product) noexcept nogil:
    """Multiply matrices of a few elements."""
    cdef real* x = <real*>a.data
    cdef real* y = <real*>b.data
    cdef int x_row = 1 if a.transposed else a.columns
    cdef int x_step = a.columns if a.transposed else 1
    cdef int y_column = b.columns if b.transposed else 1
    cdef int y_step = 1 if b.transposed else b.columns
    cdef real total
    cdef int i, j, k
    for i in range(rows):
        for j in range(columns):
            total = 0
            for k in range(inner):
                total += x[i * x_row + k * x_step] * y[j * y_column + k * y_step]
            product[i * columns + j] = total


cdef inline void _gemm(Matrix* a, Matrix* b, int rows, int columns, int inner, real* product) noexcept nogil:
    """Multiply by BLAS, which reads row by row as transposed: it computes the transposed product from swapped sides."""
    cdef real one = 1
    cdef real zero = 0
    cdef char* left = b"T" if b.transposed else b"N"
    cdef char* right = b"T" if a.transposed else b"N"
    if real is float:
        sgemm(left, right, &columns, &rows, &inner, &one, <real*>b.data, &b.columns, <real*>a.data, &a.columns, &zero,
              product, &columns)
    else:
        dgemm(left, right, &columns, &rows, &inner, &one, <real*>b.data, &b.columns, <real*>a.data, &a.columns, &zero,
              product, &columns)


cdef inline int _multiply(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, real* _) except -1:
    """Multiply two matrices; return 0, with nothing done, if they are not ones that BLAS takes."""
    cdef Matrix a, b
    cdef cnp.npy_intp dims[2]
    cdef int inner
    cdef double work
    cdef real* product
    if not _as_matrix(array_in(inputs[0]), node.params[0], &a) or not _as_matrix(array_in(inputs[1]), node.params[1], &b):
        return 0
    dims[0] = a.columns if a.transposed else a.rows
    dims[1] = b.rows if b.transposed else b.columns
    inner = a.rows if a.transposed else a.columns
    if inner != (b.columns if b.transposed else b.rows) or inner == 0 or dims[0] == 0 or dims[1] == 0:
        return 0
    product = <real*>PyArray_DATA(new_array(live, output_type(table, node, 0), 2, dims, outputs))
    work = <double>dims[0] * <double>dims[1] * inner
    if work <= TINY:
        _small(&a, &b, <int>dims[0], <int>dims[1], inner, product)
    elif work < LONG:
        _gemm(&a, &b, <int>dims[0], <int>dims[1], inner, product)
    else:
        with nogil:
            _gemm(&a, &b, <int>dims[0], <int>dims[1], inner, product)
    return 1


cdef int _multiply_float(const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs) except -1:
    return _multiply(table, node, inputs, live, outputs, <float*>NULL)


cdef int _multiply_double(const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs) except -1:
    return _multiply(table, node, inputs, live, outputs, <double*>NULL)


cdef Native find_matmul(dict attrs, list inputs, list outputs):
    """Return the kernel of a product, NULL where there is none."""
    if inputs[0] == np.float32:
        return _multiply_float
    if inputs[0] == np.float64:
        return _multiply_double
    return NULL
