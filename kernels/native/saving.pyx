"""Series written and read by a run of a native program: values saved by a loop for its gradient.

Rows are written to blocks of the series. Room for blocks is made under the interpreter lock: before a loop with a known
number of iterations, else as the blocks fill. Rows are read in place. A value read for the last time is released when
the run is over, because until then the run may give up.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from numpy cimport import_array, npy_intp

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Type
from tagloom.kernels.core.values cimport EMPTY, OBJECT, SCALAR, Value, drop, hold, object_value, pointer
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, ArrayObject, PyArray_CheckExact, PyArray_DATA, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM, array_in,
    integer_at, is_plain, new_array, product, read_sizes, same_shape,
)
from tagloom.kernels.native.compiled cimport PUSH_AT, READ_NESTED, Instruction
from tagloom.kernels.native.run cimport (
    CALL, NO, PUSH_ROW, READ_ROW, YES, Refusal, Register, Run, Step, Verdict, Writer, add_step, checked, data_of,
    is_element, most_value_bytes,
    new_cell, point_to, push_row, type_of,
)
from tagloom.kernels.scheduler.series cimport Block, Series

import_array()

cdef enum:
    SMALLEST = 1 << 14  # bytes of the first block where it is not known how many there will be, about
    MOST_ROWS = 64  # of it
    SMALL = 1 << 16  # bytes that are one block where it is known
    GROWTH = 16  # a block is at most such a part of all slots, so that there is little room left in the end


cdef int record_push(Run run, const Instruction* each) except -1:
    """Record the write of a value to a series, which is made."""
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef Register* source = &run.registers[each.inputs[0]]
    cdef Writer* writer = <Writer*>run.arena.take(1, sizeof(Writer))
    cdef Series series = Series()
    cdef Step* step
    if not is_element(source) and not _is_row(array_in(source.value)):
        raise Refusal("the elements of an array that is saved are not in order")
    writer.series = each.outputs[0]
    hold(&run.held, &made.value, object_value(<PyObject*>series))
    run.written.append(series)
    run.writers.append(<uint64_t>writer)
    run.shapes.append((each.inputs[0], _like(run, each.inputs[0])))
    step = add_step(run, PUSH_ROW)
    step.act = push_row
    step.operands[0], step.operands[1] = <char*>writer, data_of(source)
    step.operands[2], step.count = data_of(&run.registers[each.inputs[1]]), checked(_row_bytes(run, each.inputs[0]))
    step.strides[1], step.strides[2] = step.count, sizeof(int64_t)
    if each.code == PUSH_AT:
        step.code, step.act = CALL, _push_at
        step.operands[3], step.strides[3] = data_of(&run.registers[each.inputs[2]]), sizeof(int64_t)
        step.strides[2] = type_of(run, each.inputs[1]).itemsize
    _add_blocks(run, len(run.written) - 1, run.trips)
    return 0


cdef Verdict _push_at(const Step* step) noexcept nogil:
    """Write a row to the slot numbered by the sum of two integers, of which the first is at least 0."""
    cdef Step push = step[0]
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    if index < 0:
        return NO
    index += (<const int64_t*>step.operands[3])[0]
    push.operands[2] = <char*>&index
    return push_row(&push)


cdef inline bint _is_row(ArrayObject* array) noexcept:
    return is_plain(array) and PyArray_NDIM(array) < MOST_DIMS


cdef object _like(Run run, int number):
    """Return the array of a register, which the series take their shape from, or None for an element."""
    cdef Register* register = &run.registers[number]
    return None if is_element(register) else <object>pointer(register.value)


cdef size_t _row_bytes(Run run, int number) noexcept:
    cdef Register* register = &run.registers[number]
    return type_of(run, number).itemsize if is_element(register) else PyArray_NBYTES(array_in(register.value))


cdef int _add_blocks(Run run, int i, int64_t wanted) except -1:
    """Make room for `wanted` further slots of a series, or for some if `wanted` is 0."""
    cdef Series series = run.written[i]
    cdef Writer* writer = <Writer*><uint64_t>run.writers[i]
    cdef int number = run.shapes[i][0]
    cdef ArrayObject* like = <ArrayObject*><PyObject*>run.shapes[i][1]
    cdef const Type* type = type_of(run, number)
    cdef int64_t fewest, rows, total
    cdef int rank = 0
    cdef npy_intp* dims = NULL
    cdef size_t size = type.itemsize
    if run.shapes[i][1] is not None:
        rank, dims, size = PyArray_NDIM(like), PyArray_DIMS(like), PyArray_NBYTES(like)
    fewest = max(1, min(<int64_t>MOST_ROWS, SMALLEST // max(<int64_t>size, 1)))
    if wanted:
        fewest = max(1, SMALL // max(<int64_t>size, 1))
    total = wanted
    if wanted == 0 and series.num_blocks:
        total = series.blocks[series.num_blocks - 1].first + series.blocks[series.num_blocks - 1].rows
    rows = max(fewest, (total + GROWTH - 1) // GROWTH)
    while True:
        series.add_block(min(rows, wanted) if wanted else rows, type, rank, dims)
        wanted -= rows
        if wanted <= 0:
            break
    writer.blocks, writer.num_blocks = series.blocks, series.num_blocks
    return 0


cdef int make_room(Run run) except -1:
    """Make room in all series already full, or soon to be."""
    cdef Series series
    cdef Writer* writer
    cdef int64_t full = 0
    cdef Block* last
    cdef int i
    for i in range(len(run.written)):
        series, writer = run.written[i], <Writer*><uint64_t>run.writers[i]
        last = &series.blocks[series.num_blocks - 1]
        if writer.at == writer.num_blocks:
            full = max(full, last.first + last.rows)
    for i in range(len(run.written)):
        series = run.written[i]
        last = &series.blocks[series.num_blocks - 1]
        if last.first + last.rows <= full:
            _add_blocks(run, i, 0)
    return 0


cdef int close_series(Run run) except -1:
    """Close the blocks of the series written by a run."""
    cdef Series series
    for series in run.written:
        series.close_blocks()
    return 0


# Reading


cdef int record_read(Run run, const Instruction* each) except -1:
    """Record the read of a slot of a series."""
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef bint is_nested = each.code == READ_NESTED
    cdef int index = each.inputs[1 + is_nested]
    cdef Reader* reader = _open_reader(run, _series_in(run, each.inputs[0]), each)
    cdef Step* step
    made.is_home, made.is_row = True, _row_bytes(run, each.outputs[0]) > most_value_bytes
    step = add_step(run, CALL if is_nested else READ_ROW)
    step.act = _read_nested if is_nested else _read
    if is_nested:
        step.operands[3] = data_of(&run.registers[each.inputs[1]])
        step.strides[3] = type_of(run, each.inputs[1]).itemsize
    step.operands[0], step.operands[1] = <char*>reader, data_of(made)
    step.operands[2] = data_of(&run.registers[index])
    step.strides[2], step.count = type_of(run, index).itemsize, checked(_row_bytes(run, each.outputs[0]))
    step.strides[1] = step.count
    if each.outputs[0] in run.program.program.sizes:
        made.is_known = _see_size(run, reader)
    return 0


# Rows that are sizes


cdef bint _see_size(Run run, const Reader* reader) except -1:
    """Bring a row into its register, and return True, if all slots of the reader have the same value.

    So a shape that a loop has saved in each iteration determines the memory of this run. The step that reads the row
    stays: it writes the same bytes again.
    """
    cdef const char* row = _only_row(run, reader)
    if row == NULL:
        return False
    memcpy(data_of(&run.registers[reader.row]), row, _row_bytes(run, reader.row))
    return True


cdef const char* _only_row(Run run, const Reader* reader) except? NULL:
    """Return the address of a row that is equal to all others, or NULL if there is none."""
    cdef size_t size = _row_bytes(run, reader.row)
    cdef const char* first = NULL
    cdef int64_t i
    for i in range(reader.count):
        if reader.rows[i] == NULL:
            if reader.gives_zeros:
                return NULL
        elif first == NULL:
            first = reader.rows[i]
        elif memcmp(first, reader.rows[i], size) != 0:
            return NULL
    return first


cdef int _check_size(Run run, const Reader* reader) except -1:
    """Refuse other values of a row that was known when the run was recorded."""
    cdef const char* row
    if not run.registers[reader.row].is_known:
        return 0
    row = _only_row(run, reader)
    if row == NULL or memcmp(data_of(&run.registers[reader.row]), row, _row_bytes(run, reader.row)) != 0:
        raise Refusal("saved sizes differ")
    return 0


cdef Verdict _read(const Step* step) noexcept nogil:
    """Read a row; return NO if there is none."""
    return _read_row(<Reader*>step.operands[0], step, integer_at(step.operands[2], step.strides[2], 0))


cdef inline Verdict _read_row(Reader* reader, const Step* step, int64_t index) noexcept nogil:
    if not 0 <= index < reader.count or reader.rows[index] == NULL:
        if reader.gives_zeros:
            memset(step.operands[1], 0, step.count)
            point_to(step, step.operands[1])
        return YES if reader.is_maybe or reader.gives_zeros else NO
    if step.in_place:
        point_to(step, <char*>reader.rows[index])
    else:
        memcpy(step.operands[1], reader.rows[index], step.count)
    if reader.is_last:
        reader.rows[index] = NULL
    return YES


cdef Series _series_in(Run run, int number):
    """Return the series in a register."""
    source = <object>pointer(run.registers[number].value)
    if not isinstance(source, Series):
        raise Refusal("what is read is no series")
    if (<Series>source).swaps:
        raise Refusal("saved values may be elsewhere")
    return <Series>source


cdef Verdict _read_nested(const Step* step) noexcept nogil:
    """Read a row of the series in a slot of another; return NO if there is none."""
    cdef Reader* reader = <Reader*>step.operands[0]
    cdef int64_t slot = integer_at(step.operands[3], step.strides[3], 0)
    cdef int64_t index = integer_at(step.operands[2], step.strides[2], 0)
    if 0 <= slot < reader.num_parts and 0 <= index < reader.starts[slot + 1] - reader.starts[slot]:
        return _read_row(reader, step, reader.starts[slot] + index)
    return _read_row(reader, step, -1)


cdef Reader* _open_reader(Run run, Series series, const Instruction* each) except NULL:
    """Find the addresses of all slots, and make room for the row to read."""
    cdef Reader* reader = <Reader*>run.arena.take(1, sizeof(Reader))
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef const Type* type = type_of(run, each.outputs[0])
    reader.is_last, reader.is_maybe = each.is_last, each.is_maybe
    reader.series, reader.row = each.inputs[0], each.outputs[0]
    if each.code == READ_NESTED:
        _find_parts(run, series, type, made, reader)
    else:
        _find_slots(run, series, reader)
        run.read.append((series, 0))
    reader.gives_zeros = each.num_inputs == 3 + (each.code == READ_NESTED)
    if reader.gives_zeros:
        _make_zeros(run, each, made)
    if made.value.form == EMPTY and made.cell == NULL:
        raise Refusal("nothing was saved")
    run.readers.append(<uint64_t>reader)
    return reader


cdef int _find_slots(Run run, Series series, Reader* reader) except -1:
    """Note where the rows lie of a series."""
    reader.count = series.most_slots()
    reader.rows = <const char**>run.rows.take(reader.count, sizeof(char*))
    return _find_all(run, series, type_of(run, reader.row), &run.registers[reader.row], reader.rows)


cdef int _find_parts(Run run, Series series, const Type* type, Register* made, Reader* reader) except -1:
    """Note the addresses of the rows of all series in the slots of a series."""
    cdef list parts = []
    cdef Series part
    cdef int64_t i
    reader.num_parts = series.most_slots()
    reader.starts = <int64_t*>run.rows.take(reader.num_parts + 1, sizeof(int64_t))
    for i in range(reader.num_parts):
        held = series.at(i)
        if held is not None and (not isinstance(held, Series) or (<Series>held).swaps):
            raise Refusal("saved values may be elsewhere")
        parts.append(held)
        reader.starts[i + 1] = reader.starts[i] + (0 if held is None else (<Series>held).most_slots())
    reader.count = reader.starts[reader.num_parts]
    reader.rows = <const char**>run.rows.take(reader.count, sizeof(char*))
    for i, part in enumerate(parts):
        if part is not None:
            _find_all(run, part, type, made, reader.rows + reader.starts[i])
    run.read.append((None, parts))
    return 0


cdef int _find_all(Run run, Series series, const Type* type, Register* made, const char** rows) except -1:
    """Note where the values of all slots lie."""
    cdef int64_t i
    cdef Block* block
    cdef size_t size
    if series.parent is not None:
        _see_row(run, series.parent, type, made)
        for i in range(series.count):
            block = series.parent.block_of(series.first + i)
            if block != NULL and block.data != NULL and block.is_written[series.first + i - block.first]:
                size = type.itemsize if made.cell != NULL else PyArray_NBYTES(array_in(made.value))
                rows[i] = block.data + (series.first + i - block.first) * size
        return 0
    for i in range(series.num_blocks):
        _find_rows(run, series, i, type, made, rows)
    for i in range(series.capacity):
        if series.slots[i].form != EMPTY and rows[i] == NULL:
            rows[i] = _find_slot(run, &series.slots[i], &series.type, type, made)
    return 0


cdef int _see_row(Run run, Series series, const Type* type, Register* made) except -1:
    """Make room for a row of the blocks of a series; if there is room already, its type and shape must be equal."""
    cdef ArrayObject* array
    cdef int rank
    if series.row.number != type.number and series.num_blocks:
        raise Refusal("saved values have another dtype")
    for held in series.arrays:
        if held is None:
            continue
        array = <ArrayObject*><PyObject*>held
        rank = PyArray_NDIM(array) - 1
        if made.cell != NULL and rank or made.value.form == OBJECT and not _has_dims(
                array_in(made.value), PyArray_DIMS(array) + 1, rank):
            raise Refusal("saved values differ in shape")
        if made.value.form != EMPTY or made.cell != NULL:
            continue
        if rank == 0 and type.size:
            made.cell = new_cell(run)
        else:
            new_array(&run.held, type, rank, PyArray_DIMS(array) + 1, &made.value)
    return 0


cdef int _make_zeros(Run run, const Instruction* each, Register* made) except -1:
    """Make room for zeros of the shape in the last input, which the saved values must have too."""
    cdef int number = each.inputs[each.num_inputs - 1]
    cdef Register* shape = &run.registers[number]
    cdef const Type* type = type_of(run, each.outputs[0])
    cdef npy_intp dims[MOST_DIMS]
    cdef int rank = read_sizes(&shape.value, type_of(run, number), dims) if shape.is_known else -1
    if rank < 0:
        raise Refusal("the shape of zeros changes")
    if made.cell != NULL and rank == 0 or made.value.form == OBJECT and _has_dims(array_in(made.value), dims, rank):
        return 0
    if made.cell != NULL or made.value.form == OBJECT:
        raise Refusal("saved values differ in shape")
    if rank == 0 and type.size:
        made.cell = new_cell(run)
    else:
        new_array(&run.held, type, rank, dims, &made.value)
    return 0


cdef bint _has_dims(ArrayObject* array, const npy_intp* dims, int rank) noexcept:
    """Return True if an array has some dimensions."""
    cdef int d
    for d in range(rank):
        if PyArray_NDIM(array) != rank or PyArray_DIMS(array)[d] != dims[d]:
            return False
    return PyArray_NDIM(array) == rank


cdef int _find_rows(Run run, Series series, int k, const Type* type, Register* made, const char** rows) except -1:
    """Note the addresses of the rows of a block."""
    cdef Block* block = &series.blocks[k]
    cdef ArrayObject* array
    cdef size_t size
    cdef const uint8_t* is_written = block.is_written
    cdef char* data = block.data
    cdef int64_t i
    if data == NULL:
        return 0
    rows += block.first
    array = <ArrayObject*><PyObject*>series.arrays[k]
    _see_row(run, series, type, made)
    size = type.itemsize * product(PyArray_DIMS(array), 1, PyArray_NDIM(array))
    for i in range(block.rows):
        rows[i] = data + i * size
    for i in range(block.rows if block.left < block.rows else 0):
        if not is_written[i]:
            rows[i] = NULL
    return 0


cdef const char* _find_slot(Run run, Value* slot, const Type* slot_type, const Type* type, Register* made) except NULL:
    """Return where the value of a slot lies."""
    cdef ArrayObject* array = array_in(slot[0])
    if slot.form == SCALAR:
        if slot_type.number != type.number:
            raise Refusal("saved values have another dtype")
        if made.value.form == EMPTY and made.cell == NULL:
            made.cell = new_cell(run)
        if made.cell == NULL:
            raise Refusal("saved values differ in shape")
        return <const char*>&slot.bits
    if not PyArray_CheckExact(array) or not is_plain(array):
        raise Refusal("a saved value is no plain array")
    if PyArray_NDIM(array) == 0 and type.size:
        if made.value.form == EMPTY and made.cell == NULL:
            made.cell = new_cell(run)
        if made.cell == NULL:
            raise Refusal("saved values differ in shape")
        return <const char*>PyArray_DATA(array)
    if made.value.form == EMPTY and made.cell == NULL:
        new_array(&run.held, type, PyArray_NDIM(array), PyArray_DIMS(array), &made.value)
    if made.cell != NULL or not same_shape(array, array_in(made.value)):
        raise Refusal("saved values differ in shape")
    return <const char*>PyArray_DATA(array)


cdef int release_rows(Run run) except -1:
    """Release the slots after their last read."""
    cdef Reader* reader
    cdef int64_t i
    cdef int k
    for k in range(len(run.read)):
        series, parts = run.read[k]
        reader = <Reader*><uint64_t>run.readers[k]
        if reader.is_last and series is not None:
            (<Series>series).release_all(reader.rows, reader.count)
        for i, part in enumerate(parts if reader.is_last and series is None else ()):
            if part is not None:
                (<Series>part).release_all(reader.rows + reader.starts[i], reader.starts[i + 1] - reader.starts[i])
    return 0


# Runs that are kept


cdef bint may_see_others(Run run) except -1:
    """Return True if a run could use other series: all its read series are inputs, and none lies in a slot of another.
    """
    cdef int k
    inputs = {run.program.inputs[k] for k in range(run.program.num_inputs)}
    for address in run.readers:
        if (<Reader*><uint64_t>address).starts != NULL or (<Reader*><uint64_t>address).series not in inputs:
            return False
    return not run.nests


cdef int see_series(Run run) except -1:
    """Make the series written by a run, and find the rows of the series in its registers."""
    cdef Writer* writer
    cdef Reader* reader
    cdef Series series
    cdef int k
    run.rows = Arena()
    for k in range(len(run.written)):
        writer, series = <Writer*><uint64_t>run.writers[k], Series()
        writer.at = 0
        memset(&writer.block, 0, sizeof(Block))
        hold(&run.held, &run.registers[writer.series].value, object_value(<PyObject*>series))
        run.written[k] = series
        _add_blocks(run, k, run.trips)
    for k in range(len(run.readers)):
        reader = <Reader*><uint64_t>run.readers[k]
        series = _series_in(run, reader.series)
        _find_slots(run, series, reader)
        _check_size(run, reader)
        run.read[k] = series, 0
    return 0


cdef int forget_series(Run run) except -1:
    """Drop the series of a finished run, except in registers of inputs."""
    cdef int k
    for k in range(len(run.written)):
        drop(&run.held, &run.registers[(<Writer*><uint64_t>run.writers[k]).series].value)
        run.written[k] = None
    for k in range(len(run.readers)):
        run.read[k] = None
    run.rows = None
    return 0
