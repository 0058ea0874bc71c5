"""TensorArrays whose elements are read and written by a run of a native program.

The run notes the addresses of elements and writes to memory of its own. The arrays themselves change when the run is
over: a run which gives up leaves them unchanged.

An array with a primal is a gradient array: repeated writes add up in memory of the run, elements without a write read
as zeros, and an index beyond the last element makes the array longer.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from numpy cimport import_array, npy_intp

import numpy as np

from tagloom.kernels.core.table cimport describe_type, Type
from tagloom.kernels.core.values cimport Value, drop, empty, object_value, pointer
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_CheckExact, PyArray_DATA, array_in, is_plain, new_array, same_shape,
)
from tagloom.kernels.cpu.elements cimport READ, WRITTEN, Element, Elements, Rows, Slot, new_rows
from tagloom.kernels.cpu.ufuncs cimport find_loop_of
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Refusal, Register, Run

import_array()

cdef enum:
    FEWEST = 16  # elements that there is room for once an array grows


@cython.no_gc
cdef class TensorArrayRun:
    """The state of an array in a run."""

    cdef tuple exact(self):
        """Return the only shape of elements, or None."""
        if self.elements is not None:
            return self.elements.exact
        if self.primal is not None:
            return self.primal.exact()
        return None if self.pattern is None or None in self.pattern else self.pattern

    cdef tuple likely_shape(self):
        """Return the shape of later elements, as far as earlier ones tell, or None."""
        if self.elements is not None:
            return self.elements.likely_shape()
        shape = self.exact()
        if shape is None and self.primal is not None:
            return self.primal.shape if self.primal.is_known else self.primal.likely_shape()
        return shape

    cdef bint takes(self, tuple shape) except -1:
        """Return True if values of a shape may be written."""
        cdef Py_ssize_t k
        if self.elements is not None:
            return self.elements.takes(shape)
        if self.pattern is None:
            return True
        if len(self.pattern) != len(shape):
            return False
        for k in range(len(shape)):
            if self.pattern[k] is not None and self.pattern[k] != shape[k]:
                return False
        return True


cdef TensorArrayRun open_array(Run run, int number):
    """Return the run's state of the array in a register."""
    cdef TensorArrayRun made
    cdef Elements elements
    cdef int64_t i
    if number in run.tensor_arrays:
        return run.tensor_arrays[number]
    held = <object>pointer(run.registers[number].value)
    if not isinstance(held, Elements) or (<Elements>held).closed or (<Elements>held).swappable:
        raise Refusal("the elements of a TensorArray may be elsewhere")
    elements = <Elements>held
    for made in run.tensor_arrays.values():
        if made.elements is elements:
            raise Refusal("a TensorArray comes twice")
    made = TensorArrayRun()
    made.like, made.elements, made.rows, made.dtype = empty(), elements, elements.rows, elements.dtype
    made.state.clears, made.state.grows = elements.clear_after_read, elements.may_grow()
    made.state.adds, made.state.reached = elements.adds, elements.count
    take_slots(run, &made.state, elements.most_elements(run.trips))
    if made.rows is not None:
        _find_rows(run, made)
    else:
        for i in range(len(elements.made)):
            _find(run, made, i, <Element>elements.made[i])
    if made.state.adds:
        _note_found(run, made)
    run.tensor_arrays[number] = made
    return made


cdef TensorArrayRun make_array(Run run, const Instruction* each):
    """Return the state of an array made by the program: a gradient array if the first input is a handle."""
    cdef TensorArrayRun made = TensorArrayRun()
    cdef int64_t count = FEWEST
    made.like = empty()
    options = run.program.source_of(each).options
    if options:
        name, made.pattern, made.state.grows, made.state.clears, made.state.adds = options
        made.dtype = np.dtype(name)
    else:
        made.primal = open_array(run, each.inputs[0])
        made.dtype, made.state.grows, made.state.adds = made.primal.dtype, True, True
        count = made.primal.state.count
    if made.state.adds:
        made.state.add = find_loop_of(np.add, 3 * [made.dtype.num], &made.state.add_data)
    take_slots(run, &made.state, count)
    run.tensor_arrays[each.outputs[0]] = made
    return made


cdef int _note_found(Run run, TensorArrayRun made) except -1:
    """Note the rows of a gradient array, for the detection of sums by other code."""
    cdef int64_t i
    made.num_found = made.state.count
    made.found = <char**>run.arena.take(made.num_found, sizeof(char*))
    for i in range(made.num_found):
        made.found[i] = made.state.slots[i].row
    made.state.add = find_loop_of(np.add, 3 * [made.dtype.num], &made.state.add_data)
    return 0


cdef int take_slots(Run run, State* state, int64_t count) except -1:
    """Make room for `count` slots; the new ones are empty."""
    cdef Slot* slots = <Slot*>run.arena.take(count, sizeof(Slot))
    if state.count:
        memcpy(slots, state.slots, state.count * sizeof(Slot))
    memset(slots + state.count, 0, (count - state.count) * sizeof(Slot))
    state.slots, state.count = slots, count
    return 0


cdef int take_block(Run run, TensorArrayRun array, tuple shape) except -1:
    """Make room for the values of all slots."""
    cdef npy_intp dims[MOST_DIMS + 1]
    cdef Value made = empty()
    cdef Type type
    cdef int k
    if not array.is_known:
        learn_shape(run, array, shape)
    if array.block is not None:
        return 0
    dims[0], array.state.numbers = array.state.count, 1
    for k in range(len(shape)):
        dims[k + 1] = shape[k]
        array.state.numbers *= dims[k + 1]
    describe_type(&type, array.dtype)
    new_array(&run.held, &type, <int>len(shape) + 1, dims, &made)
    array.block = <object>pointer(made)
    drop(&run.held, &made)
    array.state.block = <char*>PyArray_DATA(<ArrayObject*><PyObject*>array.block)
    return 0


cdef int learn_shape(Run run, TensorArrayRun array, tuple shape) except -1:
    """Note the shape of the elements, and keep an array of this shape."""
    first = np.empty(shape, array.dtype)
    run.kept.append(first)
    array.shape, array.is_known, array.like = shape, True, object_value(<PyObject*>first)
    return 0


cdef int grow_tensor_arrays(Run run) except -1:
    """Make room where an element is to be written after the last element."""
    cdef TensorArrayRun array
    cdef int64_t i, size
    cdef char* old
    for array in run.tensor_arrays.values():
        if array.state.wanted <= array.state.count:
            continue
        take_slots(run, &array.state, max(array.state.wanted, array.state.count + array.state.count // 4, FEWEST))
        if array.block is None:
            continue
        before, old = array.block, array.state.block
        array.block = np.empty((array.state.count, *array.shape), array.dtype)
        array.state.block = <char*>PyArray_DATA(<ArrayObject*><PyObject*>array.block)
        if len(before):
            array.block[:len(before)] = before
        size = array.state.numbers * before.itemsize
        for i in range(len(before)):
            if array.state.slots[i].row == old + i * size:
                array.state.slots[i].row = array.state.block + i * size
    return 0


cdef int _find_rows(Run run, TensorArrayRun made) except -1:
    """Copy the slots of elements which are rows of a single array."""
    memcpy(made.state.slots, made.rows.slots, made.rows.count * sizeof(Slot))
    if made.rows.shape is not None:
        run.kept.append(made.rows.array)
        learn_shape(run, made, made.rows.shape)
    return 0


cdef int _find(Run run, TensorArrayRun made, int64_t i, Element element) except -1:
    """Note the address of an element; its array is kept, for the address to stay valid."""
    cdef ArrayObject* array = <ArrayObject*><PyObject*>element.value
    made.state.slots[i].done = (WRITTEN if element.shape is not None else 0) | (
        READ if element.reader_name is not None else 0)
    if element.value is None:
        return 0
    if not PyArray_CheckExact(array) or not is_plain(array):
        raise Refusal("an element of a TensorArray is no plain array")
    if not made.is_known:
        made.is_known = True
        made.shape = element.value.shape
        made.like = object_value(<PyObject*>array)
    if not same_shape(array, array_in(made.like)):
        raise Refusal("the elements of a TensorArray differ in shape")
    run.kept.append(element.value)
    element.owned = False  # a later sum is another array
    made.state.slots[i].row = <char*>PyArray_DATA(array)
    return 0


cdef bint are_as_found(Run run) except -1:
    """Return True if no other code has meanwhile accessed the elements accessed by a finished run."""
    cdef TensorArrayRun array
    cdef int64_t i
    for array in run.tensor_arrays.values():
        if array.elements is None:
            continue
        if array.rows is not None and array.elements.rows is array.rows:
            if array.elements.may_grow() == array.state.grows:  # else a gradient array was made meanwhile
                continue
        if array.elements.closed:
            return False
        for i in range(array.state.count):
            if array.state.slots[i].done & (READS | WRITES) and not _is_as_found(array, i):
                return False
    return True


cdef bint _is_as_found(TensorArrayRun array, int64_t i) except -1:
    """Return True if an accessed element is as the run has found the element."""
    cdef Element element = <Element>array.elements.all()[i] if i < array.elements.count else None
    cdef char* row = NULL
    cdef int done = array.state.slots[i].done
    if array.state.adds:
        if element is not None and element.value is not None:
            row = <char*>PyArray_DATA(<ArrayObject*><PyObject*>element.value)
        if row != (array.found[i] if i < array.num_found else NULL):
            if i < array.num_found and array.found[i] != NULL or done & READS or not done & WRITES:
                return False
            array.is_shared = True  # two addends commute, so that the other may come first
        return element is None or element.reader_name is None or not done & WRITES
    if done & WRITES:
        return _is_writable(array.elements, element)
    if done & WRITTEN:
        return element is not None and element.value is not None
    return element is not None and element.shape is None  # it was read as zeros


cdef bint _is_writable(Elements elements, Element element) except -1:
    """Return True if an element without any access is there, or can be."""
    if element is None:
        return elements.may_grow()
    return element.shape is None and element.reader_name is None


cdef int close_tensor_arrays(Run run) except -1:
    """Apply the accesses of a finished run to the arrays."""
    cdef TensorArrayRun array
    cdef State* state
    cdef int64_t i, last
    for array in run.tensor_arrays.values():
        if array.elements is None:
            continue
        state, last = &array.state, -1
        for i in range(state.count):
            if state.slots[i].done & WRITES:
                last = i
        if state.adds:
            array.elements.grow(max(state.reached, <int64_t>array.elements.most_elements(0)))
        if _leave_sums(array, last + 1) if state.adds and last >= 0 else _leave_rows(array, last + 1):
            continue
        if last >= 0:
            array.elements.begin_writing(last + 1, array.shape)
        for i in range(state.count):
            _leave_element(array, i)
    return 0


cdef int _leave_element(TensorArrayRun array, int64_t i) except -1:
    """Apply the accesses of a run to an element."""
    cdef Slot* slot = &array.state.slots[i]
    cdef Element element
    if slot.done & WRITES and (slot.done & WRITTEN or array.is_shared):
        element = <Element>array.elements.all()[i]
        if slot.done & WRITTEN:
            element.value, element.owned = array.block[i, ...], True
        elif element.value is not None:
            element.value, element.owned = np.asarray(element.value + array.block[i, ...]), True
        else:
            element.value, element.shape = array.block[i, ...], array.shape
            element.writer_name, element.writer_iteration = array.writer, slot.written_in
    elif slot.done & WRITES:
        array.elements.write_quickly(i, array.block[i, ...], array.shape, array.writer, slot.written_in)
    if slot.done & READS and array.elements.read_quickly(i, array.reader, slot.read_in) is None:
        element = <Element>array.elements.all()[i]
        if element.reader_name is None:
            element.reader_name, element.reader_iteration = array.reader, slot.read_in
    return 0


cdef bint _leave_sums(TensorArrayRun array, int64_t written) except -1:
    """Store the elements of a gradient array as rows of the run's block; return False if their readers differ."""
    cdef Rows found = array.rows
    cdef Rows made
    cdef State* state = &array.state
    cdef Slot* slot
    cdef int64_t i, size = state.numbers * array.block.itemsize
    cdef int done = 0
    for i in range(state.count):
        done |= state.slots[i].done
    reader = None if found is None else found.reader
    if array.is_shared or done & READ and (reader is None or array.reader is not None and reader != array.reader):
        return False
    array.elements.begin_writing(written, array.shape)
    made = new_rows(array.elements.count)
    made.array = array.block[:made.count] if made.count < state.count else array.block
    made.is_ours, made.shape = made.count == state.count, array.shape
    made.writer = array.writer
    made.reader = reader or (array.reader if done & READS else None)
    for i in range(min(made.count, state.count)):
        slot = &state.slots[i]
        if slot.row != NULL and slot.row != state.block + i * size:
            memcpy(state.block + i * size, slot.row, size)
            slot.row = state.block + i * size
        made.slots[i] = slot[0]
        made.slots[i].done = (slot.done | slot.done >> BY_RUN) & (WRITTEN | READ)
    array.elements.become(made)
    return True


cdef bint _leave_rows(TensorArrayRun array, int64_t written) except -1:
    """Store the elements, of which at most `written` were written, as rows of a single array; return False if they are
    none.
    """
    cdef Rows found = array.rows
    cdef Rows made
    cdef Slot* slot
    cdef int done = 0
    cdef int64_t i
    if found is None or array.elements.rows is not found or written and found.shape is not None:
        return False
    if array.reader is not None and found.reader is not None and found.reader != array.reader:
        return False
    if written:
        array.elements.begin_writing(written, array.shape)
    made = new_rows(array.elements.count)
    memcpy(made.slots, array.state.slots, min(made.count, array.state.count) * sizeof(Slot))
    for i in range(made.count):
        slot = &made.slots[i]
        slot.done = (slot.done | slot.done >> BY_RUN) & (WRITTEN | READ)
        done |= slot.done
        if slot.row != NULL:
            made.array = array.block if written else found.array
    made.shape, made.writer, made.is_ours = found.shape, found.writer, found.is_ours
    if written:
        made.shape, made.writer, made.is_ours = array.shape, array.writer, len(array.block) == made.count
        if made.array is not None and not made.is_ours:
            made.array = array.block[:made.count]  # it has room for more elements
    if done & READ:
        made.reader = found.reader or array.reader
    array.elements.become(made)
    return True
