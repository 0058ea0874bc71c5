"""A value for each iteration of a loop."""

from libc.stdint cimport int64_t, uint8_t
from numpy cimport npy_intp

from tagloom.kernels.core.table cimport Type
from tagloom.kernels.core.values cimport Value


cdef struct Block:  # consecutive slots of one shape
    int64_t first  # slot
    int64_t rows  # slots
    int64_t left  # slots written and not yet released; 0 while the block is written to
    char* data  # NULL once all are released
    uint8_t* is_written  # owned: for each row


cdef class Series:
    cdef object __weakref__
    cdef Value* slots  # owned; EMPTY where nothing was written
    cdef int64_t capacity  # length of `slots`
    cdef int64_t written  # slots that are not EMPTY
    cdef Type type  # of the unboxed slots; type.descr NULL while there are none
    cdef object dtype  # owns type.descr
    cdef readonly Series parent  # whose slots these are, from `first` on, as many as `count`; or None
    cdef readonly int64_t first
    cdef readonly int64_t count
    cdef Block* blocks  # owned, in order
    cdef int num_blocks
    cdef list arrays  # owns the data of the blocks; None for one that is released
    cdef Type row  # of the blocks' elements
    cdef object row_dtype  # owns row.descr
    cdef bint swaps  # True if the machine asks a step's swap for the stored values
    cdef readonly object rows  # of another array library: a row for each slot, until a slot is read; or None
    cdef readonly int64_t num_rows
    cdef readonly object rows_there  # with `rows`: whether each is written, as an array of that library; None if all are
    cdef object rows_written  # the same in the host's memory
    cdef object call  # with `rows`: calls a function as the device of that library wants it, or None
    cdef object rows_here  # with `rows`: a copy in the host's memory, from which slots are made then; or None
    cdef public int64_t cursor  # slot that was read last, of the slots with stored values; -1 for none yet

    cdef int store(self, int64_t index, Value value, const Type* type) except -1
    cdef int64_t array_bytes(self) noexcept
    cdef Value peek(self, int64_t index) except *
    cdef Block* add_block(self, int64_t rows, const Type* type, int rank, const npy_intp* dims) except NULL
    cdef int close_blocks(self) noexcept
    cdef Block* block_of(self, int64_t index) noexcept
    cdef int64_t most_slots(self) noexcept
    cdef Value _unpack(self, int64_t index, const Block* block) except *
    cdef void release(self, int64_t index) noexcept
    cdef void release_all(self, const char** rows, int64_t count) noexcept
    cdef void _empty(self, Block* block, int64_t count) noexcept
    cdef int _take_rows(self) except -1
    cdef int _reserve(self, int64_t index) except -1


cdef Series part_of(Series parent, int64_t first, int64_t count)
