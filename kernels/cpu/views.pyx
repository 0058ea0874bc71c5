"""Products of views whose elements lie apart: computed from plain copies, by the kernel for plain matrices."""

cimport numpy as cnp
from cpython.object cimport PyObject

import numpy as np

from tagloom.kernels.cpu.arrays cimport ArrayObject
from tagloom.kernels.cpu.linear cimport Product, compute_product, describe_factor

cnp.import_array()


def multiply_views(a, b, bint transpose_a=False, bint transpose_b=False, total=None):
    """Return the product of two matrices, added to a total, with the bits of the kernel for plain matrices.

    For views whose elements lie apart, of which other executors and native programs have plain copies.

    Parameters
    ----------
    a, b, total : numpy.ndarray
        Matrices of one dtype, float32 or float64, with elements.

    Raises
    ------
    ValueError
        If the factors or the total do not fit, or are larger than the kernel's integers.
    """
    cdef Product p
    cdef cnp.ndarray result
    p.total = p.more_a = p.packed = p.scratch = NULL
    left, right = np.ascontiguousarray(a), np.ascontiguousarray(b)
    cdef bint is_left = describe_factor(<ArrayObject*><PyObject*>left, transpose_a, &p.a)
    cdef bint is_right = describe_factor(<ArrayObject*><PyObject*>right, transpose_b, &p.b)
    if not (is_left and is_right):
        raise ValueError(f"matmul cannot multiply views of shapes {a.shape} and {b.shape}")
    p.rows = p.a.columns if p.a.transposed else p.a.rows
    p.columns = p.b.rows if p.b.transposed else p.b.columns
    p.inner = p.a.rows if p.a.transposed else p.a.columns
    if p.inner != (p.b.columns if p.b.transposed else p.b.rows):
        raise ValueError(f"matmul: the inner dimensions of {a.shape} and {b.shape} differ")
    p.adds = total is not None
    if p.adds and total.shape != (p.rows, p.columns):
        raise ValueError(f"matmul: a product of {p.rows} x {p.columns} cannot be added to {total.shape}")
    if p.adds:
        total = np.ascontiguousarray(total)
        p.total = cnp.PyArray_DATA(total)
    result = np.empty((p.rows, p.columns), a.dtype)
    p.data = cnp.PyArray_DATA(result)
    compute_product(&p, cnp.PyArray_ITEMSIZE(result))
    return result
