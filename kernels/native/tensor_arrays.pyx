"""TensorArrays whose elements are read and written by a run of a native program.

The run notes the addresses of elements and writes to memory of its own. The arrays themselves change when the run is
over: a run which gives up leaves them unchanged.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from numpy cimport import_array, npy_intp

import numpy as np

from tagloom.kernels.core.table cimport Type
from tagloom.kernels.core.values cimport Value, drop, empty, object_value, pointer
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_CheckExact, PyArray_DATA, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM, array_in,
    integer_at, is_plain, new_array, same_shape,
)
from tagloom.kernels.cpu.elements cimport READ, WRITTEN, Element, Elements, Rows, Slot, new_rows
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport (
    CALL, LATER, NO, YES, Act, Refusal, Register, Run, Step, Verdict, add_step, checked, data_of,
    is_element, most_value_bytes,
    new_cell, point_to, type_of,
)

import_array()

cdef enum:
    FEWEST = 16  # elements that there is room for once an array grows
    MOST_ELEMENTS = 0x7FFFFFFF


cdef enum:  # accesses by the run, beside the earlier ones of elements.pxd
    BY_RUN = 2  # bits by which they are shifted
    WRITES = 4  # WRITTEN
    READS = 8  # READ


cdef struct State:  # of an array in a run
    Slot* slots
    int64_t count  # elements
    int64_t wanted  # as many elements, if that are more
    bint grows
    bint clears  # after a read
    char* block  # where elements are written


@cython.no_gc
cdef class TensorArrayRun:
    """The state of an array in a run."""
    cdef Elements elements
    cdef Rows rows  # that the elements were, or None
    cdef State state
    cdef Value like  # borrowed from Run.kept: an array of the shape of the elements; EMPTY while that is not known
    cdef bint is_known  # whether the shape is known
    cdef object block  # owns state.block
    cdef tuple shape
    cdef str reader
    cdef str writer


cdef TensorArrayRun _open(Run run, const Instruction* each):
    """Return the run's state of the array in the first register of an instruction."""
    cdef TensorArrayRun made
    cdef Elements elements
    cdef int number = each.inputs[0]
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
    made.like, made.elements, made.rows = empty(), elements, elements.rows
    made.state.clears, made.state.grows = elements.clear_after_read, elements.may_grow()
    _take_slots(run, &made.state, elements.most_elements(run.trips))
    if made.rows is not None:
        _find_rows(run, made)
    else:
        for i in range(len(elements.made)):
            _find(run, made, i, <Element>elements.made[i])
    run.tensor_arrays[number] = made
    return made


cdef int _take_slots(Run run, State* state, int64_t count) except -1:
    """Make room for `count` slots; the new ones are empty."""
    cdef Slot* slots = <Slot*>run.arena.take(count, sizeof(Slot))
    if state.count:
        memcpy(slots, state.slots, state.count * sizeof(Slot))
    memset(slots + state.count, 0, (count - state.count) * sizeof(Slot))
    state.slots, state.count = slots, count
    return 0


cdef int grow_tensor_arrays(Run run) except -1:
    """Make room where an element is to be written after the last element."""
    cdef TensorArrayRun array
    cdef int64_t i, size
    cdef char* old
    for array in run.tensor_arrays.values():
        if array.state.wanted <= array.state.count:
            continue
        _take_slots(run, &array.state, max(array.state.wanted, array.state.count + array.state.count // 4, FEWEST))
        before, old = array.block, array.state.block
        array.block = np.empty((array.state.count, *array.shape), array.elements.dtype)
        array.state.block = <char*>PyArray_DATA(<ArrayObject*><PyObject*>array.block)
        if len(before):
            array.block[:len(before)] = before
        size = before.strides[0]
        for i in range(len(before)):
            if array.state.slots[i].row == old + i * size:
                array.state.slots[i].row = array.state.block + i * size
    return 0


cdef int _find_rows(Run run, TensorArrayRun made) except -1:
    """Copy the slots of elements which are rows of a single array."""
    memcpy(made.state.slots, made.rows.slots, made.rows.count * sizeof(Slot))
    if made.rows.shape is not None:
        made.shape, made.is_known = made.rows.shape, True
        run.kept.append(made.rows.array)
        _keep_like(run, made)
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
    made.state.slots[i].row = <char*>PyArray_DATA(array)
    return 0


cdef int record_get(Run run, const Instruction* each) except -1:
    """Record the read of an element."""
    cdef TensorArrayRun array = _open(run, each)
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef const Type* type = type_of(run, each.outputs[0])
    cdef ArrayObject* like = array_in(array.like)
    cdef Step* step
    if not array.is_known:
        _learn_shape(run, array, each)
        like = array_in(array.like)
    made.is_home, made.is_row = True, PyArray_NBYTES(like) > most_value_bytes
    if PyArray_NDIM(like) == 0 and type.size:
        made.cell = new_cell(run)
    else:
        new_array(&run.held, type, PyArray_NDIM(like), PyArray_DIMS(like), &made.value)
    array.reader = array.reader or run.program.name_of(each)
    step = _step(run, each, array, _get)
    step.operands[1], step.count = data_of(made), checked(PyArray_NBYTES(like))
    step.strides[1] = step.count
    return 0


cdef int _learn_shape(Run run, TensorArrayRun array, const Instruction* each) except -1:
    """Take the shape of the elements from the graph, for an array without any written element."""
    array.shape = run.program.source_of(each).shape
    if array.shape is None:
        raise Refusal("nothing was written to a TensorArray")
    array.is_known = True
    return _keep_like(run, array)


cdef int record_put(Run run, const Instruction* each) except -1:
    """Record the write of an element."""
    cdef TensorArrayRun array = _open(run, each)
    cdef Register* source = &run.registers[each.inputs[2]]
    cdef ArrayObject* like = array_in(source.value)
    cdef npy_intp dims[MOST_DIMS + 1]
    cdef int rank = 0 if is_element(source) else PyArray_NDIM(like)
    cdef Value made = empty()
    cdef Step* step
    if rank and (not is_plain(like) or rank >= MOST_DIMS):
        raise Refusal("the elements of an array that is written are not in order")
    shape = () if is_element(source) else (<object>pointer(source.value)).shape
    if array.is_known and shape != array.shape or not array.elements.takes(shape):
        raise Refusal("what is written to a TensorArray has another shape")
    if array.block is None:
        dims[0] = array.state.count
        if rank:
            memcpy(&dims[1], PyArray_DIMS(like), rank * sizeof(npy_intp))
        new_array(&run.held, type_of(run, each.inputs[2]), rank + 1, dims, &made)
        array.block, array.shape = <object>pointer(made), shape
        drop(&run.held, &made)
        array.state.block = <char*>PyArray_DATA(<ArrayObject*><PyObject*>array.block)
    if not array.is_known:
        array.is_known = True
        _keep_like(run, array)
    array.writer = array.writer or run.program.name_of(each)
    step = _step(run, each, array, _put)
    step.operands[1] = data_of(source)
    step.count = type_of(run, each.inputs[2]).itemsize if rank == 0 else checked(PyArray_NBYTES(like))
    step.strides[1] = step.count
    return 0


cdef int _keep_like(Run run, TensorArrayRun array) except -1:
    """Keep an array of the shape of the elements."""
    first = np.empty(array.shape, array.elements.dtype)
    run.kept.append(first)
    array.like = object_value(<PyObject*>first)
    return 0


cdef Step* _step(Run run, const Instruction* each, TensorArrayRun array, Act act) except NULL:
    """Add a step for an element."""
    cdef Step* step = add_step(run, CALL)
    step.act, step.operands[0] = act, <char*>&array.state
    step.operands[2], step.strides[2] = data_of(&run.registers[each.inputs[1]]), type_of(run, each.inputs[1]).itemsize
    step.operands[3], step.strides[3] = data_of(&run.registers[each.inputs[each.num_inputs - 1]]), sizeof(int64_t)
    return step


cdef Verdict _get(const Step* step) noexcept nogil:
    """Read an element; return NO for an element without a value."""
    cdef State* array = <State*>step.operands[0]
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    cdef Slot* slot = &array.slots[index]
    if not 0 <= index < array.count or slot.row == NULL:
        return NO
    if step.in_place:
        point_to(step, slot.row)
    else:
        memcpy(step.operands[1], slot.row, step.count)
    if not slot.done & (READ | READS):
        slot.read_in = (<const int64_t*>step.operands[3])[0]
    slot.done |= READS
    if array.clears:
        slot.row = NULL
    return YES


cdef Verdict _put(const Step* step) noexcept nogil:
    """Write an element for the first time; return NO in all other cases, LATER if the array must grow."""
    cdef State* array = <State*>step.operands[0]
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    cdef Slot* slot = &array.slots[index]
    if array.grows and array.count <= index < MOST_ELEMENTS:
        array.wanted = index + 1
        return LATER
    if not 0 <= index < array.count or slot.done:
        return NO
    slot.row = array.block + index * step.count
    if step.in_place:
        point_to(step, slot.row)
    else:
        memcpy(slot.row, step.operands[1], step.count)
    slot.written_in, slot.done = (<const int64_t*>step.operands[3])[0], WRITES
    return YES


cdef Transfer transfer_in(const Step* step) noexcept nogil:
    """Return the direction of a step's transfer for an element at a fixed address."""
    cdef const State* array = <const State*>step.operands[0]
    if step.act != _get and step.act != _put or array.grows and array.block != NULL:
        return NEITHER
    return FROM_ROW if step.act == _get else TO_ROW


cdef bint are_as_found(Run run) except -1:
    """Return True if no other code has meanwhile accessed the elements accessed by a finished run."""
    cdef TensorArrayRun array
    cdef Element element
    cdef int64_t i, count
    cdef int done
    for array in run.tensor_arrays.values():
        if array.rows is not None and array.elements.rows is array.rows:
            if array.elements.may_grow() == array.state.grows:  # else a gradient array was made meanwhile
                continue
        count = array.elements.count
        if array.elements.closed:
            return False
        for i in range(array.state.count):
            element = <Element>array.elements.all()[i] if i < count else None
            done = array.state.slots[i].done
            if done & WRITES and not _is_writable(array.elements, element):
                return False
            if done & READS and not done & WRITES and (element is None or element.value is None):
                return False
    return True


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
        state, last = &array.state, -1
        for i in range(state.count):
            if state.slots[i].done & WRITES:
                last = i
        if _leave_rows(array, last + 1):
            continue
        if last >= 0:
            array.elements.begin_writing(last + 1, array.shape)
        for i in range(state.count):
            if state.slots[i].done & WRITES:
                array.elements.write_quickly(
                    i, array.block[i, ...], array.shape, array.writer, state.slots[i].written_in)
            if state.slots[i].done & READS:
                array.elements.read_quickly(i, array.reader, state.slots[i].read_in)
    return 0


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
    array.elements.rows = made
    return True
