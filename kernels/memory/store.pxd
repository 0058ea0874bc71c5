"""Blocks of array data, kept when freed, for NumPy's data-memory handler (NEP 49)."""

from cpython.object cimport PyObject

from tagloom.kernels.memory.blocks cimport Budget, Store

cdef object new_handler(Store** store)
cdef Store* store_of(PyObject* handler) noexcept
cdef void join_budget(Store* store, Budget* budget) noexcept nogil
cdef void leave_budget(Store* store) noexcept nogil
cdef void release_budget(Budget* budget) noexcept nogil
cdef void trim_store(Store* store) noexcept nogil
