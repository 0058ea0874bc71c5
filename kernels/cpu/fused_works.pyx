"""The work of a fused operation, described for code which repeats the work: the memory accessed and the layout of the
steps.
"""

from libc.stdint cimport int64_t, uint64_t
from numpy cimport npy_intp

import numpy as np

from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.fused cimport Run, aligned, is_fused, room_of
from tagloom.kernels.cpu.seen cimport Seen
from tagloom.kernels.cpu.steps cimport Register, Step

cdef extern from "Python.h":
    bytes PyBytes_FromStringAndSize(const char*, Py_ssize_t)
    char* PyBytes_AS_STRING(object)


cdef int seen_by_fused(Compute compute, uint64_t* arguments, Seen* seen, int most) noexcept nogil:
    """Describe the inputs and results accessed by a work; return their number, or -1 if the work is not of a fused
    operation, or has more registers than `most`.
    """
    cdef const Run* run = <const Run*>arguments
    cdef Register* register
    cdef size_t size
    cdef int i
    if not is_fused(compute) or run.num_registers > most:
        return -1
    most = 0
    for i in range(run.num_registers):
        register = &run.registers[i]
        if i >= run.num_registers - run.num_steps and register.result < 0:
            continue
        size = _reach(run, register)
        seen[most] = Seen(register.data, &register.data, size, size, register.result >= 0)
        most += 1
    return most


cdef bytes describe_fused(Compute compute, uint64_t* arguments):
    """Prepare a fused operation for code which repeats its work, and return its sizes for `read_fused`; None for other
    works.

    If there is a single block, registers other than inputs and outputs get their room.
    """
    cdef const Run* run = <const Run*>arguments
    cdef bytes described
    cdef int64_t* numbers
    cdef Register* register
    cdef char* scratch
    cdef int i
    if not is_fused(compute):
        return None
    described = PyBytes_FromStringAndSize(NULL, (run.num_registers + 2) * sizeof(int64_t))
    numbers = <int64_t*>PyBytes_AS_STRING(described)
    numbers[0], numbers[1] = run.rows, run.block
    scratch = run.memory + aligned(run.num_registers * sizeof(Register))
    for i in range(run.num_registers):
        register = &run.registers[i]
        numbers[i + 2] = -register.width if register.repeated else register.width
        if run.block == run.rows and i >= run.num_registers - run.num_steps and room_of(run, i):
            register.data = scratch + register.room
    return described


def read_fused(bytes described):
    """Return the number of rows, the rows of a block, and the width of each register: negative for a single row for
    all.
    """
    rows, block, *widths = np.frombuffer(described, np.int64).tolist()
    return rows, block, tuple(widths)


cdef inline size_t _reach(const Run* run, const Register* register) noexcept nogil:
    """Return the bytes of all rows of a register; of a single row if this row stands for all."""
    if register.advance:
        return run.rows * register.advance
    return max(register.width, <npy_intp>1) * register.size


cdef Run* _fused_run = NULL
cdef Register* _register = NULL
cdef Step* _step = NULL

# Where fields lie, in bytes: of a Run its registers and its steps; of a register its size and its data; of a step its
# size, its loop and the last argument of that.
FUSED_LAYOUT = (
    <size_t>&_fused_run.registers, <size_t>&_fused_run.steps, sizeof(Register), <size_t>&_register.data,
    sizeof(Step), <size_t>&_step.loop, <size_t>&_step.data,
)
