"""Products with the bits of `linear.pyx`, of views that its kernel declines; and which products have such bits."""

cimport numpy as cnp
from libc.stdint cimport int64_t

import numpy as np

from tagloom.kernels.cpu.linear cimport FEW, MOST_INNER, Matrix, Product, multiply_at_once, vector_bits

cnp.import_array()


def is_own_product(int64_t terms):
    """Return True if sums of `terms` terms are computed by vector instructions of our own, and in one piece."""
    return vector_bits() > 0 and terms <= MOST_INNER


def has_equal_rows(int64_t terms, int64_t columns):
    """Return True if a row of a product of floats has the same bits for any number of rows: not those of BLAS."""
    return vector_bits() > 0 and (terms <= MOST_INNER or columns >= FEW)


cdef inline Matrix _matrix(cnp.ndarray array, bint transposed) noexcept:
    """Describe a matrix that lies in memory row by row."""
    return Matrix(cnp.PyArray_DATA(array), transposed, <int>cnp.PyArray_DIM(array, 0), <int>cnp.PyArray_DIM(array, 1))


def multiply_views(a, b, bint transpose_a=False, bint transpose_b=False, total=None):
    """Return the product of two matrices, added to a total, with the bits of the kernel for plain matrices.

    For views whose elements lie apart, of which native programs have plain copies.

    Parameters
    ----------
    a, b, total : numpy.ndarray
        Matrices of one dtype, float32 or float64, which fit and have elements.

    Raises
    ------
    ValueError
        If the sizes of the sums differ.
    """
    cdef Product p
    p.total = p.more_a = p.packed = p.scratch = NULL
    # Named, so that the copies live until the product is there.
    left, right = np.ascontiguousarray(a), np.ascontiguousarray(b)
    p.a, p.b = _matrix(left, transpose_a), _matrix(right, transpose_b)
    p.rows = p.a.columns if transpose_a else p.a.rows
    p.columns = p.b.rows if transpose_b else p.b.columns
    p.inner = p.a.rows if transpose_a else p.a.columns
    if p.inner != (p.b.columns if transpose_b else p.b.rows):
        raise ValueError(f"matmul: {p.inner} terms on the left, {p.b.columns if transpose_b else p.b.rows} on the right")
    p.adds = total is not None
    if p.adds:
        total = np.ascontiguousarray(total)
        p.total = cnp.PyArray_DATA(total)
    result = np.empty((p.rows, p.columns), a.dtype)
    p.data = cnp.PyArray_DATA(result)
    multiply_at_once(&p, result.itemsize)
    return result
