"""A NativeProgram in C."""

from libc.stdint cimport int64_t, uint16_t, uint64_t

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Node, Table


cdef enum Code:  # as in `kernels/native/program.py`
    COMPUTE
    MOVE
    COUNT
    JUMP
    UNLESS
    SELECT
    PUSH
    READ
    ADD_PRODUCT
    GET
    PUT
    NEST
    READ_NESTED
    GATHER
    SCATTER
    STACK
    UNSTACK
    NEW
    PUSH_AT


cdef struct Instruction:
    int code
    int num_inputs
    int num_outputs
    int num_targets
    int* inputs  # registers
    int* outputs
    bint* last  # for each input: whether nothing reads the register's value after this
    int* targets  # instructions
    Node* node  # COMPUTE
    bint is_maybe  # READ: there may be nothing in the slot
    bint is_last  # READ: the only one of its slot
    bint shape_only  # the result depends on shapes alone
    uint64_t reads  # bit i: the kernel looks at input i before it leaves its work


cdef class CompiledProgram:
    cdef readonly object program  # the NativeProgram
    cdef Arena arena
    cdef Table table  # of the nodes; its kernels leave all their work
    cdef Instruction* instructions
    cdef int num_instructions
    cdef int num_registers
    cdef int num_cells  # more than a run needs
    cdef uint16_t* register_types  # index into Table.types
    cdef int num_inputs
    cdef int num_outputs
    cdef int* inputs
    cdef int* outputs
    cdef bint is_cluster  # it has no loops
    cdef bint keeps_runs  # its runs may be kept for other inputs
    cdef list dtypes  # owns Type.descr
    cdef list kept  # objects that the kernels need
    cdef readonly str reason  # why the last run was left to the step machine, or None
    cdef readonly int64_t runs  # of a cluster, since they were counted anew
    cdef int misses  # runs, one after the other, that could not be recorded, or gave up
    cdef int skips  # runs that are not tried, after such
    cdef double spent  # nanoseconds that runs took
    cdef list compilations  # of runs: signature and Compilation
    cdef readonly tuple called  # names of the operations whose Python kernels the last recorded run calls
    cdef readonly tuple traced  # names of the operations whose Python kernels became steps of that run
    cdef readonly dict untraced  # by name of an operation: why its Python kernel could not become steps
    cdef dict counted  # by name of a loop: number of runs, and of iterations begun, in runs that did not give up

    cdef object source_of(self, const Instruction* each)
    cdef str name_of(self, const Instruction* each)
