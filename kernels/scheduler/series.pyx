"""A value for each iteration of a loop: saved by a forward loop for the loop that runs backwards.

A series belongs to one step. The iterations of one frame instance write the slots in any order; all reads come after
the frame is done, so nothing here waits or locks.

See docs/design/0002-saved-values.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from tagloom.kernels.core.convert cimport box
from tagloom.kernels.core.table cimport Type
from tagloom.kernels.core.values cimport (
    EMPTY, OBJECT, SCALAR, Counters, Value, drop, empty, hold, object_value, pointer, scalar,
)
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_DIMS, PyArray_NDIM, new_array, new_view, product,
)
from tagloom.kernels.memory.swappable cimport SwappableArray

cnp.import_array()

cdef Counters _held  # of all series; their values are not the machines'


cdef class Series:
    """Values by slot number; slots never written are empty.

    The length is the number of slots written. A native program writes blocks of slots; the array of a slot in a block
    is made at the first read.
    """

    def __cinit__(self):
        self.cursor = -1
        self.arrays = []

    def __dealloc__(self):
        for i in range(self.capacity):
            drop(&_held, &self.slots[i])
        for i in range(self.num_blocks):
            free(self.blocks[i].is_written)
        free(self.blocks)
        free(self.slots)

    def __len__(self):
        return self.written

    def put(self, int64_t index, value):
        """Write a slot, replacing its value.

        Parameters
        ----------
        index : int
            Slot, from 0.
        value : array or Series
            Kept without a copy.

        Raises
        ------
        IndexError
            If `index` is negative.
        """
        self.store(index, object_value(<PyObject*>value), NULL)

    def keep_rows(self, rows, int64_t count, is_written=None, is_written_there=None, copy=None, call=None):
        """Hold rows of an array of another library, from which all slots are made at the first read.

        Parameters
        ----------
        rows : array
        count : int
            Of slots: the first rows.
        is_written, is_written_there : array, optional
            Of the host's memory and of the other library: for each row True if its slot was written.
        copy : numpy.ndarray, optional
            A copy of the rows. Slots are made from the copy, if there is one, for computation on the host.
        call : callable, optional
            ``call(function, *arguments)`` calls a function in the way required by the device of the rows.
        """
        self.rows_here, self.call = copy, call
        self.rows, self.num_rows, self.rows_written, self.rows_there = rows, count, is_written, is_written_there
        self.written = count if is_written is None else int(is_written[:count].sum())

    def part(self, int64_t first, int64_t count):
        """Return a series of `count` of the slots, from slot `first` on."""
        return part_of(self, first, count)

    def get(self, int64_t index):
        """Return the value of a slot, or None for a slot never written."""
        value = self.at(index)
        return value.now() if isinstance(value, SwappableArray) else value

    def at(self, int64_t index):
        """Return the value of a slot, for a stored array its SwappableArray, or None if the slot was never written."""
        return box(self.peek(index), &self.type)

    def indices(self):
        """Return the numbers of the slots written, in order."""
        cdef int64_t i
        cdef int k
        self._take_rows()
        if self.parent is not None:
            return [i - self.first for i in self.parent.indices() if self.first <= i < self.first + self.count]
        found = {i for i in range(self.capacity) if self.slots[i].form != EMPTY}
        for k in range(self.num_blocks):
            block = self.blocks[k]
            found.update([block.first + i for i in range(block.rows) if block.is_written[i]])
        return sorted(found)

    def __repr__(self):
        return f"Series({self.indices()})"

    cdef int store(self, int64_t index, Value value, const Type* type) except -1:
        """Write a slot with a live value of an element type (NULL for objects)."""
        if index < 0:
            raise IndexError(f"slot {index} of a series is negative")
        self._take_rows()
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
        """Return the bytes of the arrays held; -1 if some may be elsewhere, where only the loop's thread finds them."""
        cdef int64_t i, size, total = 0
        if self.parent is not None:
            return self.count * _row_bytes(self.parent)
        if self.rows is not None:
            return self.rows.nbytes
        for array in self.arrays:
            total += 0 if array is None else cnp.PyArray_NBYTES(<cnp.ndarray>array)
        for i in range(self.capacity):
            size = 0
            if self.slots[i].form != OBJECT or self.block_of(i) != NULL:
                continue
            if cnp.PyArray_CheckExact(<object>pointer(self.slots[i])):
                size = cnp.PyArray_NBYTES(<cnp.ndarray>pointer(self.slots[i]))
            elif isinstance(<object>pointer(self.slots[i]), Series):
                size = (<Series>pointer(self.slots[i])).array_bytes()
            if self.swaps or size < 0:
                return -1
            total += size
        return total

    cdef Value peek(self, int64_t index) except *:
        """Return the value of a slot, borrowed; EMPTY if the slot was never written."""
        cdef Block* block
        self._take_rows()
        if self.parent is not None:
            return self.parent.peek(self.first + index) if 0 <= index < self.count else empty()
        if 0 <= index < self.capacity and self.slots[index].form != EMPTY:
            return self.slots[index]
        block = self.block_of(index)
        if block == NULL or not block.is_written[index - block.first]:
            return empty()
        return self._unpack(index, block)

    cdef void release(self, int64_t index) noexcept:
        """Empty a slot; the memory of a block is free when all its slots are empty."""
        if self.parent is not None:
            if 0 <= index < self.count:
                self.written += self.parent.written
                self.parent.release(self.first + index)
                self.written -= self.parent.written
            return
        cdef Block* block = self.block_of(index)
        cdef bint in_block = block != NULL and block.is_written[index - block.first]
        if 0 <= index < self.capacity and self.slots[index].form != EMPTY:
            drop(&_held, &self.slots[index])
            self.written -= not in_block  # else it is an array made of the row
        if in_block:
            block.is_written[index - block.first] = False
            self._empty(block, 1)

    cdef void release_all(self, const char** rows, int64_t count) noexcept:
        """Empty the first `count` slots as far as their row is NULL."""
        cdef Block* block
        cdef uint8_t* is_written
        cdef const char** place
        cdef int64_t i, num_rows, emptied
        cdef uint64_t some
        cdef int k
        for i in range(count if self.parent is not None else min(count, self.capacity)):
            if rows[i] == NULL and (self.parent is not None or self.slots[i].form != EMPTY):
                self.release(i)
        for k in range(self.num_blocks if self.parent is None else 0):
            block, emptied = &self.blocks[k], 0
            is_written, place, num_rows = block.is_written, rows + block.first, min(block.rows, count - block.first)
            some = num_rows < block.rows
            for i in range(num_rows):
                some |= <uint64_t>place[i]
            if not some:  # most often nothing is left
                emptied = block.left
                memset(is_written, 0, num_rows)
            for i in range(num_rows if some else 0):
                if place[i] == NULL:
                    emptied += is_written[i]
                    is_written[i] = False
            if emptied:
                self._empty(block, emptied)

    cdef void _empty(self, Block* block, int64_t count) noexcept:
        """Count `count` rows of a block as empty."""
        self.written -= count
        block.left -= count
        if block.left == 0:
            block.data = NULL
            self.arrays[block - self.blocks] = None

    cdef Block* add_block(self, int64_t rows, const Type* type, int rank, const cnp.npy_intp* dims) except NULL:
        """Return a block of `rows` slots, numbered after the slots of the other blocks, for arrays of a shape and an
        element type.
        """
        cdef cnp.npy_intp shape[MOST_DIMS + 1]
        cdef Block* block
        cdef Value array = empty()
        cdef Block* grown = <Block*>realloc(self.blocks, (self.num_blocks + 1) * sizeof(Block))
        if grown == NULL:
            raise MemoryError()
        self.blocks = grown
        shape[0] = rows
        memcpy(&shape[1], dims, rank * sizeof(cnp.npy_intp))
        new_array(&_held, type, rank + 1, shape, &array)
        made = <object>pointer(array)
        drop(&_held, &array)
        block = &self.blocks[self.num_blocks]
        block.first, block.rows, block.left, block.data = 0, rows, 0, <char*>cnp.PyArray_DATA(made)
        if self.num_blocks:
            block.first = self.blocks[self.num_blocks - 1].first + self.blocks[self.num_blocks - 1].rows
        block.is_written = <uint8_t*>calloc(rows, 1)
        if block.is_written == NULL:
            raise MemoryError()
        self.row, self.row_dtype = type[0], <object>type.descr
        if rank == 0 and type.size != 0:
            self.type, self.dtype = type[0], self.row_dtype
        self.arrays.append(made)
        self.num_blocks += 1
        return block

    cdef int close_blocks(self) noexcept:
        """Count the slots of the blocks, which are not written to any more; free the empty blocks."""
        cdef int64_t i, left
        cdef int k
        cdef Block* block
        cdef const uint8_t* is_written
        for k in range(self.num_blocks):
            block, is_written, left = &self.blocks[k], self.blocks[k].is_written, 0
            for i in range(block.rows):
                left += is_written[i]
            block.left += left
            self.written += block.left
            if block.left == 0:
                block.data, self.arrays[k] = NULL, None
        return 0

    cdef int64_t most_slots(self) noexcept:
        """Return how many slots there may be."""
        if self.parent is not None:
            return self.count
        if self.num_blocks == 0:
            return self.capacity
        return max(self.capacity, self.blocks[self.num_blocks - 1].first + self.blocks[self.num_blocks - 1].rows)

    cdef Block* block_of(self, int64_t index) noexcept:
        """Return the block with a slot, or NULL."""
        cdef int low = 0
        cdef int high = self.num_blocks
        cdef int middle
        if index < 0:
            return NULL
        while low < high:
            middle = (low + high) // 2
            if index < self.blocks[middle].first:
                high = middle
            elif index >= self.blocks[middle].first + self.blocks[middle].rows:
                low = middle + 1
            else:
                return &self.blocks[middle]
        return NULL

    cdef Value _unpack(self, int64_t index, const Block* block) except *:
        """Return the value of a slot in a block: an element, or an array, which is kept in the slot from now on."""
        cdef ArrayObject* array = <ArrayObject*><PyObject*>self.arrays[block - self.blocks]
        cdef int rank = PyArray_NDIM(array) - 1
        cdef size_t size = self.row.itemsize * product(PyArray_DIMS(array), 1, rank + 1)
        cdef char* data = block.data + (index - block.first) * size
        cdef Value element = scalar(0)
        if rank == 0 and self.row.size != 0:
            memcpy(&element.bits, data, size)
            return element
        self._reserve(index)
        new_view(&_held, &self.row, array, data, rank, PyArray_DIMS(array) + 1, &self.slots[index])
        return self.slots[index]

    cdef int _take_rows(self) except -1:
        """Put rows of an array of another library into their slots."""
        if self.rows is None:
            return 0
        if self.rows_here is not None or self.call is None:
            rows = _views(self.rows if self.rows_here is None else self.rows_here, self.num_rows)
        else:
            rows = self.call(_views, self.rows, self.num_rows)
        self.rows, self.rows_there, self.rows_here, self.call, self.written = None, None, None, None, 0
        for i, row in enumerate(rows):
            if self.rows_written is None or self.rows_written[i]:
                self.store(i, object_value(<PyObject*>row), NULL)
        return 0

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


cdef Series part_of(Series parent, int64_t first, int64_t count):
    """Return a series whose slots are `count` slots of `parent`, from `first` on."""
    series = Series()
    series.parent, series.first, series.count, series.written = parent, first, count, count
    series.type, series.dtype = parent.type, parent.dtype
    return series


def _views(rows, count):
    """Return the first rows of an array as arrays, even where rows have no dimensions."""
    return [rows[i, ...] for i in range(count)]


cdef int64_t _row_bytes(Series series) noexcept:
    """Return the bytes of a slot in a block."""
    for array in series.arrays:
        if array is not None and len(array):
            return cnp.PyArray_NBYTES(<cnp.ndarray>array) // len(array)
    return 0
