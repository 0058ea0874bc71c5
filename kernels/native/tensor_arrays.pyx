"""TensorArrays whose elements are read and written by a run of a native program.

The run notes the addresses of elements and writes to memory of its own. The arrays themselves change when it is over,
so that a run that gives up leaves them unchanged.

An array with a primal is a gradient array: repeated writes add up in memory of the run, elements that nobody wrote read
as zeros, and an index behind the last element makes the array longer.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from numpy cimport import_array, npy_intp

import numpy as np

from tagloom.kernels.core.table cimport Loop, Type
from tagloom.kernels.core.values cimport Value, drop, empty, object_value, pointer
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_CheckExact, PyArray_DATA, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM,
    PyArray_SIZE, array_in, integer_at, is_plain, new_array, same_shape,
)
from tagloom.kernels.cpu.elements cimport READ, WRITTEN, Element, Elements, Rows, Slot, new_rows
from tagloom.kernels.cpu.ufuncs cimport find_loop_of
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
    int64_t count  # slots, for elements that are there or may be
    int64_t reached  # elements that are there
    int64_t wanted  # as many slots, if that are more
    bint grows
    bint clears  # after a read
    bint adds  # repeated writes add up, and reads make it grow
    char* block  # where elements are written
    const char* zeros  # an element to which nothing was written, or NULL: such a read is an error, or has another shape
    Loop add  # the inner loop of a sum, or NULL
    void* add_data
    npy_intp numbers  # of an element


cdef struct Sizes:  # of the zeros for an element to which nothing was written
    int rank
    npy_intp sizes[MOST_DIMS]


@cython.no_gc
cdef class TensorArrayRun:
    """The state of an array in a run."""
    cdef Elements elements
    cdef Rows rows  # that the elements were, or None
    cdef State state
    cdef Value like  # borrowed from Run.kept: an array of the shape of the elements; EMPTY while that is not known
    cdef bint is_known  # whether the shape is known
    cdef object block  # owns state.block
    cdef char** found  # rows at the beginning, of an array that adds
    cdef int64_t num_found
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
    made.state.adds, made.state.reached = elements.primal is not None, elements.count
    _take_slots(run, &made.state, elements.most_elements(run.trips))
    if made.rows is not None:
        _find_rows(run, made)
    else:
        for i in range(len(elements.made)):
            _find(run, made, i, <Element>elements.made[i])
    if made.state.adds:
        _note_found(run, made)
    run.tensor_arrays[number] = made
    return made


cdef int _note_found(Run run, TensorArrayRun made) except -1:
    """Note the rows of an array that adds, so that sums by other code are noticed."""
    cdef int64_t i
    made.num_found = made.state.count
    made.found = <char**>run.arena.take(made.num_found, sizeof(char*))
    for i in range(made.num_found):
        made.found[i] = made.state.slots[i].row
    made.state.add = find_loop_of(np.add, 3 * [made.elements.dtype.num], &made.state.add_data)
    return 0


cdef int _take_slots(Run run, State* state, int64_t count) except -1:
    """Make room for `count` slots; the new ones are empty."""
    cdef Slot* slots = <Slot*>run.arena.take(count, sizeof(Slot))
    if state.count:
        memcpy(slots, state.slots, state.count * sizeof(Slot))
    memset(slots + state.count, 0, (count - state.count) * sizeof(Slot))
    state.slots, state.count = slots, count
    return 0


cdef int grow_tensor_arrays(Run run) except -1:
    """Make room where an element is to be written after the last one."""
    cdef TensorArrayRun array
    cdef int64_t i, size
    cdef char* old
    for array in run.tensor_arrays.values():
        if array.state.wanted <= array.state.count:
            continue
        _take_slots(run, &array.state, max(array.state.wanted, array.state.count + array.state.count // 4, FEWEST))
        if array.block is None:
            continue
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
    """Copy the slots of elements that are rows of one array."""
    memcpy(made.state.slots, made.rows.slots, made.rows.count * sizeof(Slot))
    if made.rows.shape is not None:
        made.shape, made.is_known = made.rows.shape, True
        run.kept.append(made.rows.array)
        _keep_like(run, made)
    return 0


cdef int _find(Run run, TensorArrayRun made, int64_t i, Element element) except -1:
    """Note the address of an element; its array is kept, so that the address stays valid."""
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


cdef int record_get(Run run, const Instruction* each) except -1:
    """Record the read of an element."""
    cdef TensorArrayRun array = _open(run, each)
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef const Type* type = type_of(run, each.outputs[0])
    cdef ArrayObject* like
    cdef Step* step
    if not array.is_known:
        _learn_shape(run, array, each)
    like = array_in(array.like)
    _allow_zeros(run, array, each)
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
    """Take the shape of the elements from the graph, the read's sizes of zeros, or the array that this one belongs to.
    """
    array.shape = run.program.source_of(each).shape
    if array.shape is None and each.num_inputs == 4:
        array.shape = _known_sizes(run, each.inputs[2])
    if array.shape is None:
        array.shape = array.elements.likely_shape()
    if array.shape is None:
        raise Refusal("nothing was written to a TensorArray")
    array.is_known = True
    return _keep_like(run, array)


cdef tuple _known_sizes(Run run, int number):
    """Return the sizes in a register, or None if they change."""
    cdef Register* register = &run.registers[number]
    cdef int64_t i
    if not register.is_known or is_element(register):
        return None
    return tuple([int(size) for size in <object>pointer(register.value)])


cdef int _allow_zeros(Run run, TensorArrayRun array, const Instruction* each) except -1:
    """Let a read of an element to which nothing was written give zeros, if these have the shape of the elements.

    Zeros have the sizes in the third of four inputs, else the shape that all elements must have.
    """
    cdef Sizes* sizes
    cdef Step* step
    cdef int k
    shape = array.elements.exact
    if each.num_inputs == 4:
        shape = _known_sizes(run, each.inputs[2])
        if shape is None:
            sizes = <Sizes*>run.arena.take(1, sizeof(Sizes))
            shape, sizes.rank = array.shape, len(array.shape)
            for k in range(sizes.rank):
                sizes.sizes[k] = array.shape[k]
            if array_in(run.registers[each.inputs[2]].value) == NULL or PyArray_SIZE(
                    array_in(run.registers[each.inputs[2]].value)) != sizes.rank:
                raise Refusal("the elements of a TensorArray differ in shape")
            step = add_step(run, CALL)
            step.act, step.operands[0] = _check_sizes, <char*>sizes
            step.operands[1] = data_of(&run.registers[each.inputs[2]])
            step.strides[1] = sizes.rank * sizeof(int32_t)
        elif shape != array.shape:
            raise Refusal("the elements of a TensorArray differ in shape")
    if shape == array.shape and array.state.zeros == NULL:
        zeros = np.zeros(array.shape, array.elements.dtype)
        run.kept.append(zeros)
        array.state.zeros = <const char*>PyArray_DATA(<ArrayObject*><PyObject*>zeros)
    return 0


cdef Verdict _check_sizes(const Step* step) noexcept nogil:
    """Return NO if int32 sizes are not those of the elements."""
    cdef const Sizes* sizes = <const Sizes*>step.operands[0]
    cdef int k
    for k in range(sizes.rank):
        if (<const int32_t*>step.operands[1])[k] != sizes.sizes[k]:
            return NO
    return YES


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
    if array.elements.dtype.num != type_of(run, each.inputs[2]).number:
        raise Refusal("what is written to a TensorArray has another dtype")
    if array.block is None:
        dims[0] = array.state.count
        if rank:
            memcpy(&dims[1], PyArray_DIMS(like), rank * sizeof(npy_intp))
        new_array(&run.held, type_of(run, each.inputs[2]), rank + 1, dims, &made)
        array.block, array.shape = <object>pointer(made), shape
        drop(&run.held, &made)
        array.state.block = <char*>PyArray_DATA(<ArrayObject*><PyObject*>array.block)
        array.state.numbers = array.block.size // max(array.state.count, 1)
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
    """Read an element, or zeros; return NO if there is nothing to read, LATER if the array must grow."""
    cdef State* array = <State*>step.operands[0]
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    cdef Slot* slot = &array.slots[index]
    cdef const char* row
    if array.adds and array.grows and index >= array.reached:
        if index >= MOST_ELEMENTS:
            return NO
        if index >= array.count:
            array.wanted = index + 1
            return LATER
        array.reached = index + 1
    if not 0 <= index < array.reached:
        return NO
    row = slot.row
    if row == NULL and not slot.done & (WRITTEN | WRITES):
        row = array.zeros
    if row == NULL:
        return NO
    if step.in_place:
        point_to(step, <char*>row)
    else:
        memcpy(step.operands[1], row, step.count)
    if not slot.done & (READ | READS):
        slot.read_in = (<const int64_t*>step.operands[3])[0]
    slot.done |= READS
    if array.clears:
        slot.row = NULL
    return YES


cdef Verdict _put(const Step* step) noexcept nogil:
    """Write an element for the first time, or add to it; return NO in all other cases, LATER if the array must grow."""
    cdef State* array = <State*>step.operands[0]
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    cdef Slot* slot = &array.slots[index]
    if array.grows and array.count <= index < MOST_ELEMENTS:
        array.wanted = index + 1
        return LATER
    if not 0 <= index < array.count:
        return NO
    if slot.done:
        return _add(step, array, slot, array.block + index * step.count)
    slot.row = array.block + index * step.count
    if step.in_place:
        point_to(step, slot.row)
    else:
        memcpy(slot.row, step.operands[1], step.count)
    slot.written_in, slot.done = (<const int64_t*>step.operands[3])[0], WRITES
    array.reached = max(array.reached, index + 1)
    return YES


cdef Verdict _add(const Step* step, const State* array, Slot* slot, char* target) noexcept nogil:
    """Add to an element of an array that adds, which nobody has read; return NO for any other."""
    cdef char* operands[3]
    cdef npy_intp strides[3]
    cdef npy_intp size
    cdef int k
    if array.add == NULL or slot.done & (READ | READS) or slot.row == NULL:
        return NO
    operands[0], operands[1], operands[2] = slot.row, step.operands[1], target
    size = step.count // max(array.numbers, <npy_intp>1)
    for k in range(3):
        strides[k] = size
    array.add(operands, &array.numbers, strides, array.add_data)
    slot.row = target
    slot.done |= WRITES
    return YES


cdef Transfer transfer_in(const Step* step) noexcept nogil:
    """Return the direction of a step's transfer for an element at a fixed address.

    A sum needs both addends, so that none of them can be computed in its place.
    """
    cdef const State* array = <const State*>step.operands[0]
    if step.act != _get and step.act != _put or array.grows and array.block != NULL:
        return NEITHER
    if step.act == _put and array.adds:
        return NEITHER
    return FROM_ROW if step.act == _get else TO_ROW


cdef bint are_as_found(Run run) except -1:
    """Return True if no other code has accessed the elements meanwhile that a run, now over, has accessed."""
    cdef TensorArrayRun array
    cdef int64_t i
    for array in run.tensor_arrays.values():
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
    """Return True if an element that a run has accessed is as the run has found it."""
    cdef Element element = <Element>array.elements.all()[i] if i < array.elements.count else None
    cdef char* row = NULL
    cdef int done = array.state.slots[i].done
    if array.state.adds:
        if element is not None and element.value is not None:
            row = <char*>PyArray_DATA(<ArrayObject*><PyObject*>element.value)
        if row != (array.found[i] if i < array.num_found else NULL):
            return False
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
    """Apply the accesses of a run that is over to the arrays."""
    cdef TensorArrayRun array
    cdef State* state
    cdef int64_t i, last
    for array in run.tensor_arrays.values():
        state, last = &array.state, -1
        for i in range(state.count):
            if state.slots[i].done & WRITES:
                last = i
        if state.adds:
            array.elements.grow(state.reached)
        if _leave_sums(array, last + 1) if state.adds and last >= 0 else _leave_rows(array, last + 1):
            continue
        if last >= 0:
            array.elements.begin_writing(last + 1, array.shape)
        for i in range(state.count):
            _leave_element(array, i)
    return 0


cdef int _leave_element(TensorArrayRun array, int64_t i) except -1:
    """Apply the accesses of a run to one element."""
    cdef Slot* slot = &array.state.slots[i]
    cdef Element element
    if slot.done & WRITES and slot.done & WRITTEN:
        element = <Element>array.elements.all()[i]
        element.value, element.owned = array.block[i, ...], True
    elif slot.done & WRITES:
        array.elements.write_quickly(i, array.block[i, ...], array.shape, array.writer, slot.written_in)
    if slot.done & READS and array.elements.read_quickly(i, array.reader, slot.read_in) is None:
        element = <Element>array.elements.all()[i]
        if element.reader_name is None:
            element.reader_name, element.reader_iteration = array.reader, slot.read_in
    return 0


cdef bint _leave_sums(TensorArrayRun array, int64_t written) except -1:
    """Store the elements of an array that adds as rows of the run's block; return False if their readers differ."""
    cdef Rows found = array.rows
    cdef Rows made
    cdef State* state = &array.state
    cdef Slot* slot
    cdef int64_t i, size = state.numbers * array.block.itemsize
    cdef int done = 0
    for i in range(state.count):
        done |= state.slots[i].done
    reader = None if found is None else found.reader
    if done & READ and (reader is None or array.reader is not None and reader != array.reader):
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
    """Store the elements, of which at most `written` were written, as rows of one array; return False if they are none.
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
