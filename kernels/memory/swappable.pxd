"""A saved array that may be somewhere else than in the device's memory."""


cdef class SwappableArray:
    cdef object __weakref__
    cdef public object array  # in the device's memory; None while it is elsewhere
