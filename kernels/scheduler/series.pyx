"""A value for each iteration of a loop: what a forward loop saves for the loop that runs backwards.

A series belongs to one step. It is written by the iterations of one frame instance in any order and read when that
frame is done, so nothing here waits or locks.

See docs/design/0002-saved-values.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from tagflow.kernels.core.convert cimport box
from tagflow.kernels.core.table cimport Type
from tagflow.kernels.core.values cimport (
    EMPTY, OBJECT, SCALAR, Counters, Value, drop, empty, hold, object_value, pointer,
)
from tagflow.kernels.memory.swappable cimport SwappableArray

cnp.import_array()

cdef Counters _held  # of all series; their values are not the machines'


cdef class Series:
    """Values by slot number; slots that were never written are empty.

    The length is the number of slots written.
    """

    def __cinit__(self):
        self.cursor = -1

    def __dealloc__(self):
        for i in range(self.capacity):
            drop(&_held, &self.slots[i])
        free(self.slots)

    def __len__(self):
        return self.written

    def put(self, int64_t index, value):
        """Write a slot, over what was there.

        Parameters
        ----------
        index : int
            Slot, from 0.
        value : array or Series
            Kept as it is.

        Raises
        ------
        IndexError
            If `index` is negative.
        """
        self.store(index, object_value(<PyObject*>value), NULL)

    def get(self, int64_t index):
        """Return the value of a slot, or None if it was never written."""
        value = self.at(index)
        return value.now() if isinstance(value, SwappableArray) else value

    def at(self, int64_t index):
        """Return what a slot holds, which for a stored array is its SwappableArray, or None if it was never written."""
        return box(self.peek(index), &self.type)

    def indices(self):
        """Return the numbers of the slots written, in order."""
        return [i for i in range(self.capacity) if self.slots[i].form != EMPTY]

    def __repr__(self):
        return f"Series({self.indices()})"

    cdef int store(self, int64_t index, Value value, const Type* type) except -1:
        """Write a slot with a live value of an element type (NULL for objects)."""
        if index < 0:
            raise IndexError(f"slot {index} of a series is negative")
        self._reserve(index)
        if value.form == SCALAR and self.type.descr == NULL:
            self.type = type[0]
            self.dtype = <object>type.descr
        if value.form == SCALAR and self.type.descr != type.descr:
            boxed = box(value, type)
            value = object_value(<PyObject*>boxed)
        self.written += self.slots[index].form == EMPTY
        drop(&_held, &self.slots[index])
        hold(&_held, &self.slots[index], value)
        return 0

    cdef int64_t array_bytes(self) noexcept:
        """Return the bytes of the arrays it holds; -1 if some may be elsewhere, where only the loop's thread finds them."""
        cdef int64_t i, size, total = 0
        for i in range(self.capacity):
            size = 0
            if self.slots[i].form != OBJECT:
                continue
            if cnp.PyArray_CheckExact(<object>pointer(self.slots[i])):
                size = cnp.PyArray_NBYTES(<cnp.ndarray>pointer(self.slots[i]))
            elif isinstance(<object>pointer(self.slots[i]), Series):
                size = (<Series>pointer(self.slots[i])).array_bytes()
            if self.swaps or size < 0:
                return -1
            total += size
        return total

    cdef Value peek(self, int64_t index) noexcept:
        """Return what a slot holds, borrowed; EMPTY if it was never written."""
        return self.slots[index] if 0 <= index < self.capacity else empty()

    cdef void release(self, int64_t index) noexcept:
        """Empty a slot."""
        if self.peek(index).form != EMPTY:
            drop(&_held, &self.slots[index])
            self.written -= 1

    cdef int _reserve(self, int64_t index) except -1:
        """Make room for a slot."""
        cdef int64_t capacity = max(index + 1, 2 * self.capacity, 8)
        cdef Value* grown
        if index < self.capacity:
            return 0
        grown = NULL
        if index < (<int64_t>1 << 48):
            grown = <Value*>realloc(self.slots, capacity * sizeof(Value))
        if grown == NULL:
            raise MemoryError(f"no memory for {capacity} slots of a series")
        memset(&grown[self.capacity], 0, (capacity - self.capacity) * sizeof(Value))
        self.slots = grown
        self.capacity = capacity
        return 0
