"""The elements of queues that have a fixed size, and the kernels that put some in and take some out.

Here is what happens almost always: there is room, there is an element, and nobody is in front. Whatever else comes
(waiting, waking, closing, errors) is left to ``tagflow.ops.queues.storage``.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from tagflow.kernels.core.table cimport Native, Node, Table, Work, output_type
from tagflow.kernels.core.values cimport OBJECT, Counters, Value
from tagflow.kernels.cpu.arrays cimport MOST_DIMS, Operand, new_result, open_plain
from tagflow.kernels.cpu.registry cimport register

cnp.import_array()

cdef enum:
    FIRST_PLACES = 16  # that there is memory for at first
    MOST_COMPONENTS = 8  # of elements of which kernels put batches in
    MOST_BYTES = 1 << 18  # of a batch that kernels copy


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
        """Have memory for so many elements."""
        cdef Py_ssize_t places = max(wanted, 2 * self.places, FIRST_PLACES)
        cdef int k
        if self.capacity >= 0:
            places = max(wanted, min(places, self.capacity))
        columns = [np.empty((places, *shape), old.dtype) for shape, old in zip(self.shapes, self.columns)]
        self._read_into(columns, self.length)
        self.columns = columns
        for k in range(self.count):
            self.data[k] = <char*>cnp.PyArray_DATA(columns[k])
        self.places, self.first = places, 0
        return True

    cdef bint fits(self, int component, const Operand* value, int batched):
        """Say whether a value has a component's shape, behind a dimension for the elements if `batched` is 1."""
        cdef tuple shape = <tuple>self.shapes[component]
        cdef int d
        if value.rank != batched + len(shape):
            return False
        for d in range(<int>len(shape)):
            if value.dims[batched + d] != <Py_ssize_t>shape[d]:
                return False
        return True

    def reserve(self, Py_ssize_t wanted):
        """Have memory for so many elements, or as many as there may be."""
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
        self._write(columns, start, self.length, count)
        self.length += count

    def _write(self, columns, Py_ssize_t start, Py_ssize_t index, Py_ssize_t count):
        """Write rows of arrays, in two pieces where the places begin anew between them."""
        cdef Py_ssize_t place, piece
        while count > 0:
            place = (self.first + index) % self.places
            piece = min(count, self.places - place)
            for own, given in zip(self.columns, columns):
                own[place:place + piece] = given[start:start + piece]
            start, index, count = start + piece, index + piece, count - piece

    def _read(self, Py_ssize_t count):
        """Return copies of the next elements."""
        made = tuple([np.empty((count, *own.shape[1:]), own.dtype) for own in self.columns])
        self._read_into(made, count)
        return made

    def _read_into(self, columns, Py_ssize_t count):
        """Copy the next elements to the first rows of arrays."""
        cdef Py_ssize_t head = min(count, self.places - self.first)
        for own, rows in zip(self.columns, columns):
            rows[:head] = own[self.first:self.first + head]
            rows[head:count] = own[:count - head]

    def pop_rows(self, Py_ssize_t count):
        """Take the next `count` elements out, as rows of new arrays."""
        rows = self._read(count)
        self.drop(count)
        return rows

    def put_back(self, columns, Py_ssize_t count):
        """Put the first `count` rows of arrays in front, the first foremost."""
        if self.length + count > self.places:
            self.grow(self.length + count)
        self.first = (self.first - count + self.places) % self.places if self.places else 0
        self.length += count
        self.left -= count
        self._write(columns, 0, 0, count)

    def rows(self):
        """Return copies of all elements, as rows."""
        return self._read(self.length)

    def clear(self):
        """Forget all elements."""
        self.first = self.length = 0


cdef class QueueBase:

    def serve(self):
        raise NotImplementedError


cdef inline QueueBase _queue_in(Value* inputs):
    """Return the queue, or None if its elements are in no ring."""
    if inputs[0].form != OBJECT:
        return None
    queue = <object><PyObject*>inputs[0].bits
    if not isinstance(queue, QueueBase) or (<QueueBase>queue).ring is None:
        return None
    return <QueueBase>queue


cdef int _put(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Put an element in if there is room."""
    cdef QueueBase queue = _queue_in(inputs)
    cdef Ring ring
    cdef Operand value
    cdef int k
    if queue is None or not queue.may_put:
        return 0
    ring = queue.ring
    if ring.length >= ring.places or 0 <= ring.capacity <= ring.length or ring.count != <int>node.num_inputs - 1:
        return 0
    for k in range(ring.count):
        if not open_plain(&inputs[k + 1], &value) or not ring.fits(k, &value, 0):
            return 0
        memcpy(ring.at(k, ring.length), value.data, ring.sizes[k])
    ring.length += 1
    queue.enqueued += 1
    if queue.takers_wait:
        queue.serve()
    return 1


cdef int _put_rows(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Put the rows of a batch in if there is room for all."""
    cdef QueueBase queue = _queue_in(inputs)
    cdef Operand values[MOST_COMPONENTS]
    cdef Py_ssize_t count = 0
    cdef size_t size = 0
    cdef Ring ring
    cdef int k
    if queue is None or not queue.may_put:
        return 0
    ring = queue.ring
    if not 0 < ring.count <= MOST_COMPONENTS or ring.count != <int>node.num_inputs - 1:
        return 0
    for k in range(ring.count):
        if not open_plain(&inputs[k + 1], &values[k]) or not ring.fits(k, &values[k], 1):
            return 0
        if k == 0:
            count = values[0].dims[0]
        elif count != values[k].dims[0]:
            return 0
        size += count * ring.sizes[k]
    if count == 0 or size > MOST_BYTES or 0 <= ring.capacity < ring.length + count:
        return 0
    if ring.length + count > ring.places:
        ring.grow(ring.length + count)
    for k in range(ring.count):
        ring.copy(k, ring.length, values[k].data, count, True)
    ring.length += count
    queue.enqueued += count
    if queue.takers_wait:
        queue.serve()
    return 1


cdef int _take(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Take an element out if there is one."""
    cdef QueueBase queue = _queue_in(inputs)
    if queue is None or not queue.may_take or queue.ring.length == 0 or queue.ring.count != <int>node.num_outputs:
        return 0
    _hand_out(table, node, queue.ring, 1, 0, live, outputs)
    queue.dequeued += 1
    if queue.putters_wait:
        queue.serve()
    return 1


cdef int _take_rows(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Take a batch out if there are as many elements."""
    cdef QueueBase queue = _queue_in(inputs)
    cdef Operand wanted
    cdef size_t size = 0
    cdef Py_ssize_t count
    cdef int k
    if queue is None or not queue.may_take or queue.ring.count != <int>node.num_outputs:
        return 0
    if not open_plain(&inputs[1], &wanted) or wanted.size != 1:
        return 0
    count = (<int32_t*>wanted.data)[0]
    for k in range(queue.ring.count):
        size += count * queue.ring.sizes[k]
        if len(<tuple>queue.ring.shapes[k]) >= MOST_DIMS:
            return 0
    if not 0 < count <= queue.ring.length or size > MOST_BYTES:
        return 0
    _hand_out(table, node, queue.ring, count, 1, live, outputs)
    queue.dequeued += count
    if queue.putters_wait:
        queue.serve()
    return 1


cdef int _hand_out(
        const Table* table, const Node* node, Ring ring, Py_ssize_t count, int batched, Counters* live,
        Value* outputs) except -1:
    """Take the next elements out as outputs; `batched` is 1 where these have a dimension for them."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef tuple shape
    cdef char* made
    cdef int k, d
    dims[0] = count
    for k in range(ring.count):
        shape = <tuple>ring.shapes[k]
        for d in range(<int>len(shape)):
            dims[batched + d] = shape[d]
        made = new_result(live, output_type(table, node, k), batched + <int>len(shape), dims, &outputs[k])
        ring.copy(k, 0, made, count, False)
    ring.drop(count)
    return 0


cdef Native _find_put(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Enqueue or EnqueueMany."""
    return _put if type == "Enqueue" else _put_rows


cdef Native _find_take(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Dequeue or DequeueMany; Python's takes, and notes, what goes back if a step is cancelled."""
    if attrs["only_fetched"]:
        return NULL
    return _take if type == "Dequeue" else _take_rows


register("Enqueue", _find_put)
register("EnqueueMany", _find_put)
register("Dequeue", _find_take)
register("DequeueMany", _find_take)
