"""The elements of a TensorArray, and the kernels to read and write them.

The kernels handle the common case: a first write of the known shape, and a read of a written element. All other cases
(growth, sums, zeros, errors) are left to ``tagloom.ops.state.tensor_array.storage``.

Elements become objects at the first access to any. Before, they are the rows of the unstacked array, or of the block
written by a native loop: such a loop takes and leaves all of them at once.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from tagloom.kernels.core.convert cimport accept, as_integer, box
from tagloom.kernels.core.frames cimport iteration_of
from tagloom.kernels.core.table cimport Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport OBJECT, Counters, Value, hold
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_DATA, PyArray_DIM, PyArray_NDIM, PyArray_STRIDES, is_plain,
)
from tagloom.kernels.cpu.elements cimport READ, WRITTEN
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.memory.swappable cimport SwappableArray

cdef extern from "numpy/arrayobject.h":
    ctypedef struct DescrObject "PyArray_Descr":
        pass
    DescrObject* PyArray_DESCR(ArrayObject*)

cnp.import_array()


@cython.no_gc  # arrays, tuples and names make no cycles
cdef class Element:
    """A slot of an array; ``writer`` and ``reader`` are (operation, iteration) of its first write and read, or None."""

    @property
    def writer(self):
        return None if self.writer_name is None else (self.writer_name, self.writer_iteration)

    @writer.setter
    def writer(self, who):
        self.writer_name, self.writer_iteration = who

    @property
    def reader(self):
        return None if self.reader_name is None else (self.reader_name, self.reader_iteration)

    @reader.setter
    def reader(self, who):
        self.reader_name, self.reader_iteration = who


@cython.no_gc
cdef class Rows:

    def __dealloc__(self):
        free(self.slots)

    cdef list as_elements(self):
        """Return an Element for each row."""
        cdef Element element
        cdef Slot* slot
        cdef int64_t i
        made = []
        for i in range(self.count):
            element, slot = Element(), &self.slots[i]
            if slot.row != NULL:
                element.value = self.array[i, ...]
            if slot.done & WRITTEN:
                element.shape, element.writer_name, element.writer_iteration = self.shape, self.writer, slot.written_in
            if slot.done & READ:
                element.reader_name, element.reader_iteration = self.reader, slot.read_in
            made.append(element)
        return made


cdef Rows new_rows(int64_t count):
    """Return elements to which nothing was done."""
    cdef Rows made = Rows()
    made.slots, made.count = <Slot*>calloc(max(count, 1), sizeof(Slot)), count
    if made.slots == NULL:
        raise MemoryError
    return made


cdef class Elements:
    """The elements and settings of a TensorArray used by the kernels."""

    @property
    def elements(self):
        """All of them, as objects."""
        return self.all()

    @property
    def count(self):
        """Number of elements."""
        return len(self.made) if self.rows is None else self.rows.count

    def begin(self, int64_t count):
        """Begin with elements to which nothing was done."""
        self.made, self.rows = None, new_rows(count)

    def grow(self, int64_t count):
        """Make room for `count` elements, if there are fewer."""
        if count <= self.count:
            return
        if self.rows is not None and self.rows.shape is None and self.rows.reader is None:
            self.rows = new_rows(count)
        else:
            self.all().extend([Element() for _ in range(count - self.count)])

    def arrays(self):
        """Return the arrays with the values."""
        if self.rows is not None:
            return [] if self.rows.array is None else [self.rows.array]
        return [element.value for element in self.made if element.value is not None]

    cdef int become(self, Rows rows) except -1:
        """Replace all elements by rows."""
        self.made, self.rows = None, rows
        return 0

    def written_shape(self):
        """Return the shape of the first element that was written, or None."""
        if self.rows is not None:
            return self.rows.shape
        for element in self.made:
            if (<Element>element).shape is not None:
                return (<Element>element).shape
        return None

    cdef list all(self):
        """Make objects of all elements, unless done before; return them."""
        if self.rows is not None:
            self.made, self.rows = self.rows.as_elements(), None
        return self.made

    def write_rows_quickly(self, rows, str name, int64_t iteration):
        """Write rows, of a permitted shape, to the elements from 0 on; stop at a special case.

        Returns
        -------
        int
            How many were written.
        """
        cdef tuple shape = rows.shape[1:]
        cdef int64_t index
        if self._take_rows(rows, shape, name, iteration):
            return len(rows)
        for index in range(len(rows)):
            if not self.write_quickly(index, rows[index, ...], shape, name, iteration):
                return index
        return len(rows)

    cdef bint _take_rows(self, object rows, tuple shape, str name, int64_t iteration) except -1:
        """Make the first elements rows of an array, if none was accessed yet; return True if they are."""
        cdef ArrayObject* array = <ArrayObject*><PyObject*>rows
        cdef Rows made = self.rows
        cdef int64_t i
        if made is None or made.shape is not None or made.reader is not None or len(rows) > made.count or self.closed:
            return False
        if not is_plain(array) or PyArray_DESCR(array) != <DescrObject*><PyObject*>self.dtype:
            return False
        made = new_rows(made.count)
        made.array, made.shape, made.writer = rows, shape, name
        for i in range(len(rows)):
            made.slots[i].row = <char*>PyArray_DATA(array) + i * PyArray_STRIDES(array)[0]
            made.slots[i].written_in, made.slots[i].done = iteration, WRITTEN
        self.rows = made
        return True

    cdef bint are_rows(self, str reader) except -1:
        """Return True if an operation may read all elements as the array of which they are rows."""
        cdef Rows found = self.rows
        cdef int64_t i
        if found is None or found.array is None or self.closed or len(found.array) != found.count:
            return False
        for i in range(found.count):
            if found.slots[i].row == NULL:
                return False
        return found.reader is None or found.reader == reader

    cdef object read_rows(self, str name, int64_t iteration):
        """Read all elements, the rows of a single array, and return the array."""
        cdef Rows found = self.rows
        cdef Rows made = new_rows(found.count)
        cdef Slot* slot
        cdef int64_t i
        made.array, made.is_ours = None if self.clear_after_read else found.array, found.is_ours
        made.shape, made.writer, made.reader = found.shape, found.writer, name
        for i in range(made.count):
            slot = &made.slots[i]
            slot[0] = found.slots[i]
            if not slot.done & READ:
                slot.done, slot.read_in = slot.done | READ, iteration
            if self.clear_after_read:
                slot.row = NULL
        self.rows = made
        return found.array

    def read_many_quickly(self, indices, str name, int64_t iteration):
        """Read elements as far as there is nothing special; return the values."""
        values = []
        for index in indices:
            value = self.read_quickly(index, name, iteration)
            if value is None:
                break
            values.append(value)
        return values

    cdef bint write_quickly(self, int64_t index, object array, tuple shape, str name, int64_t iteration) except -1:
        """Write an element for the first time; return 0, with nothing done, in all special cases."""
        cdef Element element
        if self.closed or shape is None or not 0 <= index < len(self.all()):
            return False
        if not _has_shape(<ArrayObject*><PyObject*>array, shape):
            return False
        if PyArray_DESCR(<ArrayObject*><PyObject*>array) != <DescrObject*><PyObject*>self.dtype:
            return False
        element = <Element>self.made[index]
        if element.shape is not None or element.reader_name is not None:
            return False
        element.value, element.shape = array, shape
        element.writer_name, element.writer_iteration = name, iteration
        return True

    cdef object read_quickly(self, int64_t index, str name, int64_t iteration):
        """Read an element with a value; return None, with nothing done, in all special cases."""
        cdef Element element
        if self.closed or not 0 <= index < len(self.all()):
            return None
        element = <Element>self.made[index]
        value = element.value
        if value is None or isinstance(value, SwappableArray):
            return None
        if element.reader_name is None:
            element.reader_name, element.reader_iteration = name, iteration
        if self.clear_after_read:
            element.value = None
        return value


cdef inline bint _has_shape(ArrayObject* array, tuple shape) except -1:
    if PyArray_NDIM(array) != len(shape):
        return False
    for d in range(PyArray_NDIM(array)):
        if PyArray_DIM(array, d) != <cnp.npy_intp>shape[d]:
            return False
    return True


cdef tuple _shape_of(object array):
    return array.shape


cdef inline Elements _array_in(const Table* table, const Node* node, Value* inputs):
    """Return the array, or None if the first two inputs are not an array and an index."""
    if inputs[0].form != OBJECT or inputs[1].form == OBJECT:
        return None
    array = <object><PyObject*>inputs[0].bits
    return <Elements>array if isinstance(array, Elements) else None


cdef int _read(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Read an element of a TensorArray."""
    cdef Elements array = _array_in(table, node, inputs)
    cdef int64_t iteration = iteration_of(&table.frames[node.frame], inputs - node.slot).number
    if array is None:
        return 0
    value = array.read_quickly(as_integer(inputs[1], input_type(table, node, 1)), <str>node.name, iteration)
    if value is None:
        return 0
    accept(live, value, output_type(table, node, 0), outputs)
    return 1


cdef int _write(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Write an element and pass the flow on."""
    cdef Elements array = _array_in(table, node, inputs)
    cdef int64_t iteration = iteration_of(&table.frames[node.frame], inputs - node.slot).number
    cdef int64_t index
    if array is None:
        return 0
    value = box(inputs[2], input_type(table, node, 2))
    if not cnp.PyArray_CheckExact(value):
        return 0
    shape = _shape_of(value) if array.any_shape else array.exact
    index = as_integer(inputs[1], input_type(table, node, 1))
    if array.swappable or not array.write_quickly(index, value, shape, <str>node.name, iteration):
        return 0
    hold(live, outputs, inputs[3])
    return 1


cdef Native _find_array_access(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of TensorArrayRead or TensorArrayWrite."""
    return _read if type == "TensorArrayRead" else _write


register("TensorArrayRead", _find_array_access)
register("TensorArrayWrite", _find_array_access)
