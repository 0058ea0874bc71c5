"""Products by SciPy's BLAS, loaded when the first product to be computed by BLAS is prepared.

Most programs do without BLAS: where there are vector instructions, BLAS computes only products of few columns and long
sums, and SciPy would take a third of the import time of the whole engine.
"""

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer

import importlib
from collections.abc import Callable

from tagloom.kernels.memory.contexts import outside

cdef list _blas_listeners = []


cdef void* _blas_function(object functions, str name) except NULL:
    """Return the address of a function of SciPy's BLAS; its integers must be C integers."""
    capsule = functions[name]
    signature = PyCapsule_GetName(capsule)
    if not signature.startswith(b"void (char *, char *, int *, int *, int *, "):
        raise ImportError(f"scipy.linalg.cython_blas.{name} has another signature: {signature.decode()}")
    return PyCapsule_GetPointer(capsule, signature)


def load_blas():
    """Import SciPy's BLAS unless loaded already, and call the listeners before BLAS computes any product."""
    global sgemm, dgemm
    if dgemm != NULL:
        return
    # A kernel asks; arrays that SciPy's modules make and keep are not of the memory of its step.
    functions = outside(importlib.import_module, "scipy.linalg.cython_blas").__pyx_capi__
    cdef void* for_floats = _blas_function(functions, "sgemm")
    cdef void* for_doubles = _blas_function(functions, "dgemm")
    for listener in _blas_listeners:
        listener()
    sgemm, dgemm = <Sgemm>for_floats, <Dgemm>for_doubles


def is_blas_loaded() -> bool:
    """Return True if products may be computed by BLAS from now on."""
    return dgemm != NULL


def on_load_of_blas(listener: Callable[[], None]) -> None:
    """Register a function to call when BLAS is loaded, before its first product, in the loading thread."""
    _blas_listeners.append(listener)


cdef int require_blas() except -1 nogil:
    """Load BLAS where a product is prepared: helpers, which compute parts of the product, must not wait for the
    interpreter.
    """
    if dgemm == NULL:
        with gil:
            load_blas()
    return 0
