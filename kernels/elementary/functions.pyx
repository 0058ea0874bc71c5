"""exp and tanh of float32 and float64, where the processor has vectors for them: AVX-512, or AVX2 with FMA.

Kernels in C find these loops as they find NumPy's, and Python kernels call the universal functions with these loops, so
that results have the same bits. Algorithms and accuracy are described in ``vector_functions.h``.
"""

cimport numpy as cnp
from libc.stdlib cimport calloc

from types import MappingProxyType

import numpy as np

from tagloom.base.array_libraries import is_numpy

cdef extern from "elementary/functions.h":
    enum:
        ELEMENTARY_EXP, ELEMENTARY_TANH
    void* elementary_loop(int function, int size, int bits)
    int product_bits()

cdef extern from "numpy/ufuncobject.h":
    enum:
        PyUFunc_None
    object PyUFunc_FromFuncAndData(
        cnp.PyUFuncGenericFunction* loops, void** data, const char* types, int num_types, int inputs, int outputs,
        int identity, const char* name, const char* doc, int unused)

cnp.import_array()
cnp.import_ufunc()

cdef struct Loops:  # data of a universal function as long as it exists: for ever
    cnp.PyUFuncGenericFunction of[2]
    void* data[2]

cdef char[4] _types = [cnp.NPY_FLOAT32, cnp.NPY_FLOAT32, cnp.NPY_FLOAT64, cnp.NPY_FLOAT64]
cdef dict _FUNCTIONS = {b"exp": ELEMENTARY_EXP, b"tanh": ELEMENTARY_TANH}


cdef object _universal(bytes name, int function, int bits):
    """Return a universal function for float32 and float64."""
    cdef Loops* loops = <Loops*>calloc(1, sizeof(Loops))
    if loops == NULL:
        raise MemoryError()
    for i in range(2):
        loops.of[i] = <cnp.PyUFuncGenericFunction>elementary_loop(function, 4 * (i + 1), bits)
    return PyUFunc_FromFuncAndData(loops.of, loops.data, _types, 2, 1, 1, PyUFunc_None, name, NULL, 0)


def with_vectors_of(int bits):
    """Return the universal functions by name, computed by vectors of 512, 256 or 0 bits; 0 has none."""
    return {name.decode(): _universal(name, code, bits) for name, code in _FUNCTIONS.items()} if bits else {}


OWN = MappingProxyType(with_vectors_of(product_bits()))


def elementary_function(xp, str name):
    """Return a function of an array library; for NumPy, a wrapper around our own function where available."""
    theirs = getattr(xp, name)
    if not is_numpy(xp) or name not in OWN:
        return theirs
    own = OWN[name]
    return lambda x: (own if x.dtype.char in "fd" else theirs)(x)
