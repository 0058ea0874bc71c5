"""The caching allocator of a device, with exact counts of its bytes."""

from tagloom.kernels.memory.blocks cimport Budget, Store


cdef class SharedLimit:
    cdef object __weakref__
    cdef Budget* budget  # a reference of its own


cdef class Pool:
    cdef Store* store  # owned by `handler`
    cdef readonly object handler  # capsule; NumPy's data-memory handler
    cdef readonly SharedLimit shared  # that it keeps with others, or None
    cdef dict external  # id of an array from elsewhere -> (charges, bytes)
    cdef bint closed
    cdef readonly bint is_allocator  # NumPy takes memory from it; else it only counts
    cdef public str name  # of the device, for errors

    cdef ExternalCharge _charge_external(self, object array, bint limited)
    cdef bint _is_charged(self, object owner)
    cdef int _release(self, object owner) except -1


cdef class ExternalCharge:
    cdef Pool pool
    cdef object owner  # the array whose memory it is, alive as long as this
    cdef bint whole  # whether a view was adopted in the place of `owner` itself
