"""The elements of queues that have a fixed size."""

cimport numpy as cnp
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from tagloom.kernels.cpu.arrays cimport MOST_DIMS, Operand

cnp.import_array()

cdef enum:
    FIRST_PLACES = 16  # that there is memory for at first


cdef class Ring:

    def __cinit__(self, dtypes, shapes, Py_ssize_t capacity):
        if any(len(shape) > MOST_DIMS for shape in shapes):
            raise ValueError(f"a ring has components of at most {MOST_DIMS} dimensions, got shapes {list(shapes)}")
        self.count, self.capacity = len(dtypes), capacity
        self.shapes = [tuple(shape) for shape in shapes]
        self.data = <char**>calloc(max(self.count, 1), sizeof(char*))
        self.sizes = <size_t*>calloc(max(self.count, 1), sizeof(size_t))
        if self.data == NULL or self.sizes == NULL:
            raise MemoryError
        self.columns = [np.empty((0, *shape), dtype) for dtype, shape in zip(dtypes, self.shapes)]
        for k in range(self.count):
            self.sizes[k] = self.columns[k].itemsize * <size_t>np.prod(self.shapes[k], dtype=np.int64)

    def __dealloc__(self):
        free(self.data)
        free(self.sizes)

    def __len__(self):
        return self.length

    cdef inline char* at(self, int component, Py_ssize_t index) noexcept:
        """Return where a component of an element is, by the order of leaving."""
        cdef Py_ssize_t place = self.first + index
        if place >= self.places:
            place -= self.places
        return self.data[component] + <size_t>place * self.sizes[component]

    cdef bint grow(self, Py_ssize_t wanted) except -1:
        """Allocate memory for `wanted` elements or more."""
        cdef Py_ssize_t places = max(wanted, 2 * self.places, FIRST_PLACES)
        cdef int k
        if self.capacity >= 0:
            places = max(wanted, min(places, self.capacity))
        columns = [np.empty((places, *shape), old.dtype) for shape, old in zip(self.shapes, self.columns)]
        self.read_into(columns, self.length)
        self.columns = columns
        for k in range(self.count):
            self.data[k] = <char*>cnp.PyArray_DATA(columns[k])
        self.places, self.first = places, 0
        return True

    cdef bint fits(self, int component, const Operand* value, int batched):
        """Return True if a value has a component's shape, after a dimension for the elements if `batched` is 1."""
        cdef tuple shape = <tuple>self.shapes[component]
        cdef int d
        if value.rank != batched + len(shape):
            return False
        for d in range(<int>len(shape)):
            if value.dims[batched + d] != <Py_ssize_t>shape[d]:
                return False
        return True

    cdef Py_ssize_t rows_in(self, columns) except -2:
        """Return how many elements lie along the first axes of arrays; -1 where these do not fit."""
        cdef Py_ssize_t count = -1
        cdef cnp.ndarray given
        cdef tuple shape
        cdef int k, d
        if len(columns) != self.count:
            return -1
        for k in range(self.count):
            shape = <tuple>self.shapes[k]
            if not cnp.PyArray_CheckExact(columns[k]):
                return -1
            given = columns[k]
            if given.ndim != 1 + len(shape) or (k and given.shape[0] != count):
                return -1
            count = given.shape[0]
            for d in range(<int>len(shape)):
                if given.shape[1 + d] != <Py_ssize_t>shape[d]:
                    return -1
        return count

    def reserve(self, Py_ssize_t wanted):
        """Allocate memory for `wanted` elements, or for the capacity if that is less."""
        if self.capacity >= 0:
            wanted = min(wanted, self.capacity)
        if wanted > self.places:
            self.grow(wanted)

    cdef void copy(self, int component, Py_ssize_t index, char* rows, Py_ssize_t count, bint to_ring) noexcept:
        """Copy rows to elements from `index` on, or from there; in two pieces where the places begin anew between them."""
        cdef size_t size = self.sizes[component]
        cdef Py_ssize_t place = self.first + index, piece
        cdef char* own
        if place >= self.places:
            place -= self.places
        while count > 0:
            piece = min(count, self.places - place)
            own = self.data[component] + <size_t>place * size
            if to_ring:
                memcpy(own, rows, piece * size)
            else:
                memcpy(rows, own, piece * size)
            rows, count, place = rows + piece * size, count - piece, 0

    cdef void drop(self, Py_ssize_t count) noexcept:
        """Forget the next elements."""
        self.length -= count
        self.left += count
        self.first = (self.first + count) % self.places if self.length else 0

    def push(self, element):
        """Put an element in; there must be room."""
        cdef Py_ssize_t place
        if self.length == self.places:
            self.grow(self.length + 1)
        place = self.first + self.length
        if place >= self.places:
            place -= self.places
        for own, value in zip(self.columns, element):
            own[place] = value
        self.length += 1

    def pop(self):
        """Take the next element out, its arrays read-only."""
        made = []
        for own in self.columns:
            value = own[self.first]
            if isinstance(value, np.ndarray):
                value = value.copy()
                value.flags.writeable = False
            made.append(value)
        self.drop(1)
        return tuple(made)

    def push_rows(self, columns, Py_ssize_t start, Py_ssize_t stop):
        """Put some rows of arrays in, as elements; there must be room."""
        cdef Py_ssize_t count = stop - start
        if self.length + count > self.places:
            self.grow(self.length + count)
        self.write(columns, start, self.length, count)
        self.length += count

    cdef int write(self, columns, Py_ssize_t start, Py_ssize_t index, Py_ssize_t count) except -1:
        """Write rows of arrays from `start` on to elements from `index` on."""
        cdef cnp.ndarray given, own
        cdef Py_ssize_t place, piece, row
        cdef int k
        for k, value in enumerate(columns):
            given, own = value, self.columns[k]
            if cnp.PyArray_ISCARRAY_RO(given) and cnp.PyArray_TYPE(given) == cnp.PyArray_TYPE(own):
                self.copy(k, index, <char*>cnp.PyArray_DATA(given) + start * self.sizes[k], count, True)
                continue
            row = start
            while row < start + count:  # in two pieces where the places begin anew between them
                place = (self.first + index + row - start) % self.places
                piece = min(start + count - row, self.places - place)
                own[place:place + piece] = given[row:row + piece]
                row += piece
        return 0

    cdef tuple read(self, Py_ssize_t count):
        """Return copies of the next elements."""
        made = tuple([np.empty((count, *shape), own.dtype) for shape, own in zip(self.shapes, self.columns)])
        self.read_into(made, count)
        return made

    cdef int read_into(self, columns, Py_ssize_t count) except -1:
        """Copy the next elements to the first rows of arrays."""
        cdef int k
        for k in range(self.count):
            self.copy(k, 0, <char*>cnp.PyArray_DATA(columns[k]), count, False)
        return 0

    def pop_rows(self, Py_ssize_t count):
        """Take the next `count` elements out, as rows of new arrays."""
        rows = self.read(count)
        self.drop(count)
        return rows

    def put_back(self, columns, Py_ssize_t count):
        """Put the first `count` rows of arrays in front, the first foremost."""
        if self.length + count > self.places:
            self.grow(self.length + count)
        self.first = (self.first - count + self.places) % self.places if self.places else 0
        self.length += count
        self.left -= count
        self.write(columns, 0, 0, count)

    def rows(self):
        """Return copies of all elements, as rows."""
        return self.read(self.length)

    def clear(self):
        """Forget all elements."""
        self.first = self.length = 0
