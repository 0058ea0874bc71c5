"""The elements of a TensorArray."""

from libc.stdint cimport int64_t


cdef class Element:
    cdef public object value  # None before the first write and after it was cleared
    cdef public tuple shape  # of the last value written; kept after the value is cleared
    cdef public bint owned  # `value` is a sum with no other owner, so that it may be added to in place
    cdef object writer_name  # str of the operation that wrote first, or None
    cdef int64_t writer_iteration
    cdef object reader_name  # str of the operation that read first, or None
    cdef int64_t reader_iteration


cdef enum Deed:
    WRITTEN = 1
    READ = 2


cdef struct Slot:  # an element that is a row of an array
    char* row  # NULL before the first write and after it was cleared
    int64_t written_in  # iterations
    int64_t read_in
    int done  # Deeds


cdef class Rows:
    """Elements which are rows of an array, with a single writer and a single first reader. A Rows object never changes.
    """
    cdef Slot* slots
    cdef int64_t count  # of elements
    cdef object array  # plain; None as long as nothing is written, and once all is cleared
    cdef bint is_ours  # a run made the array for these elements: it may be handed out, not copied
    cdef tuple shape  # of a row; None as long as nothing is written
    cdef str writer
    cdef str reader

    cdef list as_elements(self)


cdef class Elements:
    cdef list made  # of Element; None as long as all of them are rows
    cdef Rows rows  # or None
    cdef public object dtype  # numpy.dtype of the values
    cdef public tuple exact  # the only shape that values may have, if that is known
    cdef public bint any_shape  # values may have any shape, each its own
    cdef public bint clear_after_read
    cdef public bint closed
    cdef public object swapper  # fetches values that are elsewhere, or None; see tagloom.swap.swapper
    cdef public bint swappable  # values written may leave the device's memory; then there is a swapper

    cdef list all(self)
    cdef int become(self, Rows rows) except -1
    cdef bint write_quickly(self, int64_t index, object array, tuple shape, str name, int64_t iteration) except -1
    cdef object read_quickly(self, int64_t index, str name, int64_t iteration)
    cdef bint _take_rows(self, object rows, tuple shape, str name, int64_t iteration) except -1
    cdef bint are_rows(self, str reader) except -1
    cdef object read_rows(self, str name, int64_t iteration)


cdef Rows new_rows(int64_t count)
