"""Structs of the work of fused elementwise operations."""

from numpy cimport npy_intp

from tagloom.kernels.core.cost cimport aligned
from tagloom.kernels.core.table cimport Compute
from tagloom.kernels.cpu.steps cimport Register, Step


cdef struct Run:  # over the rows of one instance
    const Step* steps
    Register* registers
    int num_steps
    int num_registers
    npy_intp rows
    npy_intp block  # rows that one round works on
    size_t scratch  # bytes that the registers need which are neither input nor output
    char* memory  # of a run that is left: for each part its registers and its scratch


cdef inline size_t room_of(const Run* run, int i) noexcept nogil:
    """Return how many bytes of scratch a register needs."""
    cdef const Register* register = &run.registers[i]
    if register.result >= 0 or register.width == 0:
        return 0
    if i < run.num_registers - run.num_steps and not register.repeated:
        return 0
    return aligned(run.block * register.width * register.size)


cdef inline size_t part_size(const Run* run) noexcept nogil:
    return aligned(run.num_registers * sizeof(Register)) + run.scratch


cdef bint is_fused(Compute compute) noexcept nogil
