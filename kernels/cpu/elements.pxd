"""The elements of a TensorArray."""

from libc.stdint cimport int64_t


cdef class Element:
    cdef public object value  # None before the first write and after it was cleared
    cdef public tuple shape  # of what was written; kept after the value is cleared
    cdef public bint owned  # `value` is a sum that nobody else has seen, so that it may be added to in place
    cdef object writer_name  # str of who wrote first, or None
    cdef int64_t writer_iteration
    cdef object reader_name  # str of who read first, or None
    cdef int64_t reader_iteration


cdef class Elements:
    cdef public list elements  # of Element
    cdef public object dtype  # numpy.dtype of the values
    cdef public tuple exact  # the only shape that values may have, if that is known
    cdef public bint any_shape  # values may have any shape, each its own
    cdef public bint clear_after_read
    cdef public bint closed
    cdef public object swapper  # fetches values that are elsewhere, or None; see tagflow.swap.swapper
    cdef public bint swappable  # what is written may leave the device's memory; then there is a swapper

    cdef bint write_quickly(self, int64_t index, object array, tuple shape, str name, int64_t iteration) except -1
    cdef object read_quickly(self, int64_t index, str name, int64_t iteration)
