"""Reads and writes of the elements of TensorArrays as steps of a run.

An unwritten element reads as zeros where their shape is known. An error of the step machine (a second write, a missing
element, a bad index) makes the program give up.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from numpy cimport import_array, npy_intp

import numpy as np

from tagloom.kernels.core.table cimport Type
from tagloom.kernels.core.values cimport pointer
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_DATA, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM, PyArray_SIZE, array_in,
    integer_at, is_plain, new_array,
)
from tagloom.kernels.cpu.elements cimport READ, WRITTEN, Slot
from tagloom.kernels.native.compiled cimport GATHER, GET, NEW, PUT, SCATTER, STACK, UNSTACK, Instruction
from tagloom.kernels.native.run cimport (
    CALL, LATER, NO, YES, Act, Refusal, Register, Run, Step, Verdict, add_step, checked, data_of, is_element,
    most_value_bytes, new_cell, point_to, type_of,
)
from tagloom.kernels.native.tensor_arrays cimport (
    READS, WRITES, State, TensorArrayRun, learn_shape, make_array, open_array, take_block, take_slots,
)

import_array()

cdef enum:
    MOST_ELEMENTS = 0x7FFFFFFF


cdef struct Sizes:  # of the zeros for elements to which nothing was written
    int rank
    npy_intp sizes[MOST_DIMS + 1]


cdef struct Many:  # elements that a step reads or writes
    State* array
    int64_t count
    npy_intp size  # bytes of one
    npy_intp index_size  # bytes of an index


cdef bint record_access(Run run, const Instruction* each) except -1:
    """Record an access to elements, or the making of an array; return False for other instructions."""
    if each.code == GET:
        _record_get(run, each)
    elif each.code == PUT:
        _record_put(run, each)
    elif each.code == GATHER or each.code == STACK:
        _record_gather(run, each)
    elif each.code == SCATTER or each.code == UNSTACK:
        _record_scatter(run, each)
    elif each.code == NEW:
        _record_new(run, each)
    else:
        return False
    return True


cdef int _record_get(Run run, const Instruction* each) except -1:
    """Record the read of an element."""
    cdef TensorArrayRun array = open_array(run, each.inputs[0])
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef const Type* type = type_of(run, each.outputs[0])
    cdef ArrayObject* like
    cdef Step* step
    cdef int zeros = 2 if each.num_inputs == 4 else 0
    _find_shape(run, array, each, zeros, 0)
    like = array_in(array.like)
    _allow_zeros(run, array, each, zeros, ())
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


cdef int _find_shape(Run run, TensorArrayRun array, const Instruction* each, int zeros, int skipped) except -1:
    """Take the shape of the elements from the graph, the read's sizes of zeros, or the primal.

    The sizes of zeros are in input `zeros`, 0 for none; the first `skipped` of them are not an element's.
    """
    if array.is_known:
        return 0
    shape = run.program.source_of(each).shape
    if shape is None and zeros:
        shape = _known_sizes(run, each.inputs[zeros])
        shape = None if shape is None else shape[skipped:]
    if shape is None:
        shape = array.likely_shape()
    if shape is None:
        raise Refusal("nothing was written to a TensorArray")
    return learn_shape(run, array, shape)


cdef tuple _known_sizes(Run run, int number):
    """Return the sizes in a register, or None if they change."""
    cdef Register* register = &run.registers[number]
    cdef int64_t i
    if not register.is_known or is_element(register):
        return None
    return tuple([int(size) for size in <object>pointer(register.value)])


cdef int _allow_zeros(Run run, TensorArrayRun array, const Instruction* each, int zeros, tuple lead) except -1:
    """Keep a row of zeros for reads of unwritten elements, if zeros have the shape of the elements.

    Zeros have the sizes in input `zeros`, after those of `lead`, or for 0 the only shape of the array.
    """
    cdef Sizes* sizes
    cdef Step* step
    cdef int k
    cdef Register* given
    shape = array.exact()
    if zeros:
        shape = array.shape
        known = _known_sizes(run, each.inputs[zeros])
        if known is None:
            given = &run.registers[each.inputs[zeros]]
            sizes = <Sizes*>run.arena.take(1, sizeof(Sizes))
            sizes.rank = len(lead) + len(shape)
            for k in range(sizes.rank):
                sizes.sizes[k] = (lead + shape)[k]
            if is_element(given) or PyArray_SIZE(array_in(given.value)) != sizes.rank:
                raise Refusal("the elements of a TensorArray differ in shape")
            step = add_step(run, CALL)
            step.act, step.operands[0] = _check_sizes, <char*>sizes
            step.operands[1], step.strides[1] = data_of(given), sizes.rank * sizeof(int32_t)
        elif known != lead + shape:
            raise Refusal("the elements of a TensorArray differ in shape")
    if shape == array.shape and array.state.zeros == NULL:
        row = np.zeros(shape, array.dtype)
        run.kept.append(row)
        array.state.zeros = <const char*>PyArray_DATA(<ArrayObject*><PyObject*>row)
    return 0


cdef Verdict _check_sizes(const Step* step) noexcept nogil:
    """Return NO if int32 sizes differ from the sizes of the elements."""
    cdef const Sizes* sizes = <const Sizes*>step.operands[0]
    cdef int k
    for k in range(sizes.rank):
        if (<const int32_t*>step.operands[1])[k] != sizes.sizes[k]:
            return NO
    return YES


cdef int _record_put(Run run, const Instruction* each) except -1:
    """Record the write of an element."""
    cdef TensorArrayRun array = open_array(run, each.inputs[0])
    cdef Register* source = &run.registers[each.inputs[2]]
    cdef Step* step
    shape = () if is_element(source) else (<object>pointer(source.value)).shape
    _begin_writing(run, array, each, 2, shape)
    step = _step(run, each, array, _put)
    step.operands[1] = data_of(source)
    step.count = checked(array.state.numbers * type_of(run, each.inputs[2]).itemsize)
    step.strides[1] = step.count
    return 0


cdef int _begin_writing(Run run, TensorArrayRun array, const Instruction* each, int k, tuple shape) except -1:
    """Make room for the values in input `k`, of elements of a shape."""
    cdef Register* source = &run.registers[each.inputs[k]]
    if not is_element(source) and not is_plain(array_in(source.value)) or len(shape) >= MOST_DIMS:
        raise Refusal("the elements of an array that is written are not in order")
    if array.is_known and shape != array.shape or not array.takes(shape):
        raise Refusal("what is written to a TensorArray has another shape")
    if array.dtype.num != type_of(run, each.inputs[k]).number:
        raise Refusal("what is written to a TensorArray has another dtype")
    array.writer = array.writer or run.program.name_of(each)
    return take_block(run, array, shape)


cdef Step* _step(Run run, const Instruction* each, TensorArrayRun array, Act act) except NULL:
    """Add a step for an element."""
    cdef Step* step = add_step(run, CALL)
    step.act, step.operands[0] = act, <char*>&array.state
    step.operands[2], step.strides[2] = data_of(&run.registers[each.inputs[1]]), type_of(run, each.inputs[1]).itemsize
    step.operands[3], step.strides[3] = data_of(&run.registers[each.inputs[each.num_inputs - 1]]), sizeof(int64_t)
    return step


cdef int _record_gather(Run run, const Instruction* each) except -1:
    """Record the read of several elements, by their numbers or all of them, as rows of an array."""
    cdef TensorArrayRun array = open_array(run, each.inputs[0])
    cdef bint is_stack = each.code == STACK
    cdef int zeros = (1 if is_stack else 2) if each.num_inputs == (3 if is_stack else 4) else 0
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef Many* many = <Many*>run.arena.take(1, sizeof(Many))
    cdef npy_intp dims[MOST_DIMS + 1]
    cdef Step* step
    cdef int k
    _find_shape(run, array, each, zeros, 1)
    many.count = _count_of_stack(run, array, each, zeros) if is_stack else _count_of(run, each.inputs[1])
    _allow_zeros(run, array, each, zeros, (many.count,))
    if len(array.shape) >= MOST_DIMS:
        raise Refusal("the elements of a TensorArray have too many dimensions")
    dims[0] = many.count
    for k in range(len(array.shape)):
        dims[k + 1] = array.shape[k]
    made.is_home = True
    new_array(&run.held, type_of(run, each.outputs[0]), <int>len(array.shape) + 1, dims, &made.value)
    array.reader = array.reader or run.program.name_of(each)
    step = _step_of_many(run, each, array, many, _gather)
    step.operands[1], step.count = data_of(made), checked(PyArray_NBYTES(array_in(made.value)))
    step.strides[1], many.size = step.count, PyArray_NBYTES(array_in(array.like))
    return 0


cdef int _record_scatter(Run run, const Instruction* each) except -1:
    """Record the write of the rows of an array to several elements, by their numbers or in order."""
    cdef TensorArrayRun array = open_array(run, each.inputs[0])
    cdef int k = 1 if each.code == UNSTACK else 2
    cdef Register* source = &run.registers[each.inputs[k]]
    cdef Many* many = <Many*>run.arena.take(1, sizeof(Many))
    cdef Step* step
    if is_element(source):
        raise Refusal("an array without dimensions has no rows")
    shape = (<object>pointer(source.value)).shape
    many.count = shape[0]
    if each.code == SCATTER and many.count != _count_of(run, each.inputs[1]):
        raise Refusal("there is not one row for each index")
    _begin_writing(run, array, each, k, shape[1:])
    step = _step_of_many(run, each, array, many, _scatter)
    many.size = array.state.numbers * type_of(run, each.inputs[k]).itemsize
    step.operands[1], step.count = data_of(source), checked(many.count * many.size)
    step.strides[1] = step.count
    return 0


cdef int64_t _count_of(Run run, int number) except -1:
    """Return the number of indices in a register."""
    cdef Register* register = &run.registers[number]
    if is_element(register) or PyArray_NDIM(array_in(register.value)) != 1 or not is_plain(array_in(register.value)):
        raise Refusal("indices are no vector in order")
    return PyArray_SIZE(array_in(register.value))


cdef int64_t _count_of_stack(Run run, TensorArrayRun array, const Instruction* each, int zeros) except -1:
    """Return the number of elements of a stack: the first of the sizes in input `zeros`, else the size of the array."""
    known = _known_sizes(run, each.inputs[zeros]) if zeros else None
    if known is not None:
        return known[0]
    if zeros or array.state.grows or array.elements is None and not array.is_sized:
        raise Refusal("the number of elements of a TensorArray changes")
    return array.state.count


cdef Step* _step_of_many(
        Run run, const Instruction* each, TensorArrayRun array, Many* many, Act act) except NULL:
    """Add a step for several elements; their numbers are in the second input of a gather or scatter."""
    cdef Step* step = add_step(run, CALL)
    many.array = &array.state
    step.act, step.operands[0] = act, <char*>many
    if each.code == GATHER or each.code == SCATTER:
        many.index_size = type_of(run, each.inputs[1]).itemsize
        step.operands[2], step.strides[2] = data_of(&run.registers[each.inputs[1]]), many.index_size * many.count
    step.operands[3], step.strides[3] = data_of(&run.registers[each.inputs[each.num_inputs - 1]]), sizeof(int64_t)
    return step


cdef int _record_new(Run run, const Instruction* each) except -1:
    """Record the making of an array without accessed elements."""
    cdef TensorArrayRun array = make_array(run, each)
    cdef bint is_gradient = array.primal is not None
    cdef Register* size = &run.registers[each.inputs[0]]
    cdef Step* step
    cdef int64_t count
    if not is_gradient and size.is_known:
        count = max(<int64_t>0, integer_at(data_of(size), type_of(run, each.inputs[0]).itemsize, 0))
        take_slots(run, &array.state, max(array.state.count, count))
        array.is_sized = not array.state.grows
        if array.is_sized:
            array.state.count = count
    step = add_step(run, CALL)
    step.act, step.operands[0] = _renew, <char*>&array.state
    if not is_gradient:
        step.operands[2], step.strides[2] = data_of(size), type_of(run, each.inputs[0]).itemsize
    return 0


cdef Verdict _renew(const Step* step) noexcept nogil:
    """Forget all accesses to the elements of an array, of which there are as many as an integer says, or none."""
    cdef State* array = <State*>step.operands[0]
    cdef int64_t size = 0 if step.operands[2] == NULL else integer_at(step.operands[2], step.strides[2], 0)
    if not 0 <= size < MOST_ELEMENTS:
        return NO
    if size > array.count:
        array.wanted = size
        return LATER
    memset(array.slots, 0, array.count * sizeof(Slot))
    array.reached = size
    return YES


cdef inline Verdict _find_row(State* array, int64_t index, const char** row) noexcept nogil:
    """Find the row of an element to read; return NO if there is nothing to read, LATER if the array must grow."""
    if array.adds and array.grows and index >= array.reached:
        if index >= MOST_ELEMENTS:
            return NO
        if index >= array.count:
            array.wanted = index + 1
            return LATER
        array.reached = index + 1
    if not 0 <= index < array.reached:
        return NO
    row[0] = array.slots[index].row
    if row[0] == NULL and not array.slots[index].done & (WRITTEN | WRITES):
        row[0] = array.zeros
    return NO if row[0] == NULL else YES


cdef inline void _note_read(State* array, int64_t index, int64_t iteration) noexcept nogil:
    """Note, and for some arrays clear, an element after its read."""
    cdef Slot* slot = &array.slots[index]
    if not slot.done & (READ | READS):
        slot.read_in = iteration
    slot.done |= READS
    if array.clears:
        slot.row = NULL


cdef Verdict _get(const Step* step) noexcept nogil:
    """Read an element, or zeros; return NO if there is nothing to read, LATER if the array must grow."""
    cdef State* array = <State*>step.operands[0]
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    cdef const char* row = NULL
    cdef Verdict verdict = _find_row(array, index, &row)
    if verdict != YES:
        return verdict
    if step.in_place:
        point_to(step, <char*>row)
    else:
        memcpy(step.operands[1], row, step.count)
    _note_read(array, index, (<const int64_t*>step.operands[3])[0])
    return YES


cdef Verdict _gather(const Step* step) noexcept nogil:
    """Read several elements, or zeros; return NO if there is nothing to read, LATER if the array must grow."""
    cdef const Many* many = <const Many*>step.operands[0]
    cdef const char* row = NULL
    cdef Verdict verdict
    cdef int64_t index, i
    for i in range(many.count):  # first all that may have to wait
        index = _index_of(step, many, i)
        verdict = _find_row(many.array, index, &row)
        if verdict != YES:
            return verdict
    for i in range(many.count):
        index = _index_of(step, many, i)
        if _find_row(many.array, index, &row) != YES:  # a read before has cleared it
            return NO
        memcpy(step.operands[1] + i * many.size, row, many.size)
        _note_read(many.array, index, (<const int64_t*>step.operands[3])[0])
    return YES


cdef inline int64_t _index_of(const Step* step, const Many* many, int64_t i) noexcept nogil:
    """Return the number of an element: its place where a step has no indices."""
    return i if step.operands[2] == NULL else integer_at(step.operands[2], many.index_size, i)


cdef Verdict _put(const Step* step) noexcept nogil:
    """Write an element for the first time, or add to its row; return NO otherwise, LATER if the array must grow."""
    cdef State* array = <State*>step.operands[0]
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    cdef Slot* slot = &array.slots[index]
    if array.grows and array.count <= index < MOST_ELEMENTS:
        array.wanted = index + 1
        return LATER
    if not 0 <= index < (array.count if array.grows else array.reached):
        return NO
    if slot.done:
        return _add(array, index, step.operands[1], step.count)
    slot.row = array.block + index * step.count
    if step.in_place:
        point_to(step, slot.row)
    else:
        memcpy(slot.row, step.operands[1], step.count)
    slot.written_in, slot.done = (<const int64_t*>step.operands[3])[0], WRITES
    array.reached = max(array.reached, index + 1)
    return YES


cdef Verdict _scatter(const Step* step) noexcept nogil:
    """Write several elements, or add to their rows; return NO where neither is possible, LATER if the array must grow."""
    cdef const Many* many = <const Many*>step.operands[0]
    cdef State* array = many.array
    cdef Slot* slot
    cdef int64_t index, i
    for i in range(many.count):
        index = _index_of(step, many, i)
        if array.grows and array.count <= index < MOST_ELEMENTS:
            array.wanted = index + 1
            return LATER
        if not 0 <= index < (array.count if array.grows else array.reached):
            return NO
    for i in range(many.count):
        index = _index_of(step, many, i)
        slot = &array.slots[index]
        if slot.done:
            if _add(array, index, step.operands[1] + i * many.size, many.size) == NO:
                return NO
            continue
        slot.row = array.block + index * many.size
        memcpy(slot.row, step.operands[1] + i * many.size, many.size)
        slot.written_in, slot.done = (<const int64_t*>step.operands[3])[0], WRITES
        array.reached = max(array.reached, index + 1)
    return YES


cdef Verdict _add(const State* array, int64_t index, char* addend, npy_intp bytes) noexcept nogil:
    """Add to an unread element of a gradient array; return NO for any other element."""
    cdef Slot* slot = &array.slots[index]
    cdef char* operands[3]
    cdef npy_intp strides[3]
    cdef int k
    if array.add == NULL or slot.done & (READ | READS) or slot.row == NULL:
        return NO
    operands[0], operands[1], operands[2] = slot.row, addend, array.block + index * bytes
    for k in range(3):
        strides[k] = bytes // max(array.numbers, <npy_intp>1)
    array.add(operands, &array.numbers, strides, array.add_data)
    slot.row = array.block + index * bytes  # an inner loop may move its operands
    slot.done |= WRITES
    return YES


cdef Transfer transfer_in(const Step* step) noexcept nogil:
    """Return the direction of a step's transfer for an element at a fixed address.

    A sum needs both addends: neither of them can be computed in its place.
    """
    cdef const State* array = <const State*>step.operands[0]
    if step.act != _get and step.act != _put or array.grows and array.block != NULL:
        return NEITHER
    if step.act == _put and array.adds:
        return NEITHER
    return FROM_ROW if step.act == _get else TO_ROW


