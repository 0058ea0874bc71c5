"""The elements of a TensorArray, and the kernels that read and write one.

Here is what happens almost always: a first write of the known shape, a read of what was written. Whatever else comes
(growth, sums, zeros, errors) is left to ``tagflow.ops.state.tensor_array_storage``.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from tagflow.kernels.core.convert cimport accept, as_integer, box
from tagflow.kernels.core.frames cimport iteration_of
from tagflow.kernels.core.table cimport Native, Node, Table, Work, input_type, output_type
from tagflow.kernels.core.values cimport OBJECT, Counters, Value, hold
from tagflow.kernels.cpu.arrays cimport ArrayObject, PyArray_DIM, PyArray_NDIM
from tagflow.kernels.cpu.registry cimport register
from tagflow.kernels.memory.swappable cimport SwappableArray

cdef extern from "numpy/arrayobject.h":
    ctypedef struct DescrObject "PyArray_Descr":
        pass
    DescrObject* PyArray_DESCR(ArrayObject*)

cnp.import_array()


@cython.no_gc  # arrays, tuples and names make no cycles
cdef class Element:
    """One slot of an array; ``writer`` and ``reader`` are (operation, iteration) of who came first, or None."""

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


cdef class Elements:
    """What the kernels need to know of an array."""

    def write_rows_quickly(self, rows, str name, int64_t iteration):
        """Write rows, of a shape that may be written, to the elements from 0 on; stop where there is something special.

        Returns
        -------
        int
            How many were written.
        """
        cdef tuple shape = rows.shape[1:]
        cdef int64_t index
        for index in range(len(rows)):
            if not self.write_quickly(index, rows[index, ...], shape, name, iteration):
                return index
        return len(rows)

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
        """Write an element for the first time; return 0, with nothing done, if there is more to it."""
        cdef Element element
        if self.closed or shape is None or not 0 <= index < len(self.elements):
            return False
        if not _has_shape(<ArrayObject*><PyObject*>array, shape):
            return False
        if PyArray_DESCR(<ArrayObject*><PyObject*>array) != <DescrObject*><PyObject*>self.dtype:
            return False
        element = <Element>self.elements[index]
        if element.shape is not None or element.reader_name is not None:
            return False
        element.value, element.shape = array, shape
        element.writer_name, element.writer_iteration = name, iteration
        return True

    cdef object read_quickly(self, int64_t index, str name, int64_t iteration):
        """Read an element that has a value; return None, with nothing done, if there is more to it."""
        cdef Element element
        if self.closed or not 0 <= index < len(self.elements):
            return None
        element = <Element>self.elements[index]
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
    """Return the array and say no (None) if the first two inputs are not an array and an index."""
    if inputs[0].form != OBJECT or inputs[1].form == OBJECT:
        return None
    array = <object><PyObject*>inputs[0].bits
    return <Elements>array if isinstance(array, Elements) else None


cdef int _read(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Read one element."""
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
    """Write one element and pass the flow on."""
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
