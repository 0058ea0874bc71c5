"""Moves of values between registers, in a single step or through memory of their own."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from numpy cimport NPY_CORDER, PyArray_GETCONTIGUOUS, PyArray_NewCopy, import_array, ndarray

from tagloom.kernels.native.program import MOST_BYTES

from tagloom.kernels.core.values cimport EMPTY, OBJECT, SCALAR, Value, drop, hold, object_value, pointer
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_CheckExact, PyArray_DIMS, PyArray_NBYTES, PyArray_NDIM, array_in, is_plain, new_array, same_shape,
)
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport (
    COPY, COPY_8, Refusal, Register, Run, Step, add_step, checked, data_of, is_element, new_cell, type_of,
)

import_array()

cdef Py_ssize_t _MOST_BYTES = MOST_BYTES


cdef int record_move(Run run, Instruction* each) except -1:
    """Record a move of values from registers to others, all at once: overwritten values go through extra
    memory.
    """
    cdef Register* target
    cdef Register* source
    cdef list waiting = []
    cdef Step* step
    cdef int k
    for k in range(each.num_inputs):
        target, source = &run.registers[each.outputs[k]], &run.registers[each.inputs[k]]
        if target.value.form == EMPTY and target.cell == NULL:
            _make_room(run, each.outputs[k], source)
        _check_like(run, each, k)
    for k in range(each.num_inputs):
        target, source = &run.registers[each.outputs[k]], &run.registers[each.inputs[k]]
        if data_of(target) == data_of(source):
            continue
        if _is_overwritten(run, each, k):
            waiting.append((k, _set_aside(run, each.inputs[k])))
    for k in range(each.num_inputs):
        target, source = &run.registers[each.outputs[k]], &run.registers[each.inputs[k]]
        if data_of(target) != data_of(source) and not _is_overwritten(run, each, k):
            _copy(run, data_of(target), data_of(source), _size(run, each.inputs[k]))
    for k, address in waiting:
        _copy(run, data_of(&run.registers[each.outputs[k]]), <char*><uint64_t>address, _size(run, each.inputs[k]))
    return 0


cdef inline size_t _size(Run run, int number) noexcept:
    """Return the bytes of a register's elements; of an element in a cell all 8, of which unused bytes are zero."""
    cdef Register* register = &run.registers[number]
    if is_element(register):
        return type_of(run, number).itemsize if _is_in_array(run, register) else sizeof(uint64_t)
    return PyArray_NBYTES(array_in(register.value))


cdef inline bint _is_in_array(Run run, const Register* register) noexcept:
    """Return True if an element lies in an array, where the bytes of its neighbours must not be read."""
    cdef char* cells = <char*>run.execution.cells
    return register.cell != NULL and not cells <= register.cell < cells + run.used * sizeof(uint64_t)


cdef int _make_room(Run run, int number, Register* source) except -1:
    """Allocate memory for a register, with the shape of another."""
    cdef Register* made = &run.registers[number]
    cdef ArrayObject* like = array_in(source.value)
    made.is_home = True
    if is_element(source):
        made.cell = new_cell(run)
    else:
        new_array(&run.held, type_of(run, number), PyArray_NDIM(like), PyArray_DIMS(like), &made.value)
    return 0


cdef bint is_unboxed(Run run, int number, Value value) noexcept:
    """Return True if a value is an unboxed element, or could be unboxed."""
    cdef ArrayObject* array = array_in(value)
    if array == NULL:
        return value.form == SCALAR
    return PyArray_CheckExact(array) and PyArray_NDIM(array) == 0 and type_of(run, number).size != 0


cdef int make_home(Run run, int number, Value value) except -1:
    """Allocate memory for an input, with the shape of a value, which may differ in each run."""
    cdef Register* made = &run.registers[number]
    cdef ArrayObject* like = array_in(value)
    made.is_home = True
    if value.form == EMPTY or like != NULL and not is_plain(like):
        raise Refusal("an input is no array, or its elements are not in order")
    if is_unboxed(run, number, value):
        made.cell = new_cell(run)
    elif PyArray_NBYTES(like) > _MOST_BYTES:
        raise Refusal(f"copying {PyArray_NBYTES(like)} bytes of an input costs more than it saves")
    else:
        new_array(&run.held, type_of(run, number), PyArray_NDIM(like), PyArray_DIMS(like), &made.value)
    return 0


cdef Value copy_of_size(Run run, Value value) except *:
    """Return a value that determines shapes, as a copy that a run may keep for other inputs with the same value."""
    if array_in(value) == NULL or not PyArray_CheckExact(array_in(value)):
        return value  # unboxed, or refused
    copy = PyArray_NewCopy(<ndarray>pointer(value), NPY_CORDER)
    run.kept.append(copy)
    return object_value(<PyObject*>copy)


cdef int _check_like(Run run, const Instruction* each, int k) except -1:
    """Check that a value fits its target register, and lies in order."""
    cdef Register* target = &run.registers[each.outputs[k]]
    cdef Register* source = &run.registers[each.inputs[k]]
    cdef str name = run.program.program.registers[each.outputs[k]][0]
    if is_element(target) != is_element(source):
        raise Refusal(f"{name} changes its shape")
    if is_element(target):
        return 0
    if not same_shape(array_in(target.value), array_in(source.value)):
        raise Refusal(f"{name} changes its shape")
    if not is_plain(array_in(source.value)):
        straighten(run, source)
    return 0


cdef int straighten(Run run, Register* register) except -1:
    """Replace a known array by an array with its elements in order."""
    if not register.is_known:
        raise Refusal("the elements of an array are not in order")
    straight = PyArray_GETCONTIGUOUS(<ndarray>pointer(register.value))
    drop(&run.held, &register.value)
    hold(&run.held, &register.value, object_value(<PyObject*>straight))
    return 0


cdef bint _is_overwritten(Run run, const Instruction* each, int k) noexcept:
    """Return True if a value lies in memory written by another part of the same move."""
    cdef char* source = data_of(&run.registers[each.inputs[k]])
    cdef char* target
    cdef int i
    for i in range(each.num_inputs):
        target = data_of(&run.registers[each.outputs[i]])
        if i != k and target != data_of(&run.registers[each.inputs[i]]):
            if target <= source < target + _size(run, each.outputs[i]):
                return True
    return False


cdef uint64_t _set_aside(Run run, int number) except 0:
    """Record the copy of a value to memory of its own, and return this memory."""
    cdef size_t size = _size(run, number)
    cdef char* aside = <char*>run.arena.take(size, 1)
    _copy(run, aside, data_of(&run.registers[number]), size)
    return <uint64_t>aside


cdef int _copy(Run run, char* target, char* source, size_t size) except -1:
    cdef Step* step
    if size == 0:
        return 0
    step = add_step(run, COPY_8 if size == sizeof(uint64_t) else COPY)
    step.operands[0], step.operands[1], step.count = target, source, checked(size)
    return 0
