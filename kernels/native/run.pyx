"""One run of a native program."""

from libc.stdlib cimport free, realloc
from libc.string cimport memset

from tagflow.kernels.core.arena cimport Arena
from tagflow.kernels.core.values cimport drop
from tagflow.kernels.native.compiled cimport CompiledProgram

cdef enum:
    MOST_BYTES = 1 << 22  # that a step copies


cdef class Refusal(Exception):
    """Why a program can not be recorded for the arrays of a run."""


cdef class Run:
    """The steps of one run and the memory that they go through."""

    def __cinit__(self, CompiledProgram program):
        self.program, self.arena, self.kept = program, Arena(), []
        self.written, self.writers, self.shapes, self.read, self.readers = [], [], [], [], []
        self.sums, self.sum_states, self.tensor_arrays, self.loops, self.nests = [], [], {}, {}, []
        self.registers = <Register*>self.arena.take(program.num_registers, sizeof(Register))

    def __dealloc__(self):
        cdef int i
        free(self.steps)
        for i in range(self.program.num_registers if self.registers != NULL else 0):
            drop(&self.held, &self.registers[i].value)
        drop(&self.held, &self.cells)


cdef Step* add_step(Run run, int code) except NULL:
    """Add a step."""
    cdef int capacity = max(2 * run.capacity, 16)
    cdef Step* grown
    if run.num_steps == run.capacity:
        grown = <Step*>realloc(run.steps, capacity * sizeof(Step))
        if grown == NULL:
            raise MemoryError()
        run.steps, run.capacity = grown, capacity
    run.num_steps += 1
    memset(&run.steps[run.num_steps - 1], 0, sizeof(Step))
    run.steps[run.num_steps - 1].code = code
    return &run.steps[run.num_steps - 1]


cdef size_t checked(size_t size) except? 0:
    """Return the bytes that a step copies; what copies a lot is done faster where arrays go from hand to hand."""
    if size > MOST_BYTES:
        raise Refusal("large arrays are copied in each iteration")
    return size
