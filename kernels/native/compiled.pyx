"""A NativeProgram in C: its instructions as arrays, and a node with a kernel for each operation."""

from cpython.object cimport PyObject
from libc.stdint cimport uint16_t, uint64_t
from libc.string cimport memset

from tagloom.kernels.native.program import Code as Codes

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Node, Type, describe_type
from tagloom.kernels.cpu.choosing cimport choose_kernel
from tagloom.kernels.native.compiled cimport (
    ADD_PRODUCT, COMPUTE, COUNT, GATHER, GET, JUMP, MOVE, NEST, NEW, PUSH, PUSH_AT, PUT, READ, READ_NESTED, SCATTER,
    SELECT, STACK, UNLESS, UNSTACK, Instruction,
)

if [COMPUTE, MOVE, COUNT, JUMP, UNLESS, SELECT, PUSH, READ, ADD_PRODUCT, GET, PUT, NEST, READ_NESTED, GATHER, SCATTER,
        STACK, UNSTACK, NEW, PUSH_AT] != list(Codes):
    raise ImportError("the codes of native programs are not those of kernels/native/program.py")


# Instructions that access the memory of the run only, or series and sums that another run may replace by its own.
_KEPT = {COMPUTE, MOVE, JUMP, UNLESS, SELECT, COUNT, PUSH, READ, ADD_PRODUCT}


cdef class CompiledProgram:
    """The C form of a NativeProgram.

    Parameters
    ----------
    program : NativeProgram

    Raises
    ------
    ValueError
        If an operation has no kernel of any kind for its dtypes.
    """

    def __init__(self, program):
        cdef int i
        self.program, self.arena, self.kept, self.counted, self.compilations = program, Arena(), [], {}, []
        self.called, self.traced, self.untraced = (), (), {}
        self.num_registers = len(program.registers)
        self.num_cells = 2 * self.num_registers + sum([len(each.inputs) for each in program.instructions])
        self.num_instructions = len(program.instructions)
        self.num_inputs, self.num_outputs = len(program.inputs), len(program.outputs)
        self.is_cluster = program.is_cluster
        self.keeps_runs = program.keeps_runs and {each.code for each in program.instructions} <= _KEPT
        self.inputs = _integers(self.arena, program.inputs)
        self.outputs = _integers(self.arena, program.outputs)
        _build_types(self)
        self.instructions = <Instruction*>self.arena.take(self.num_instructions, sizeof(Instruction))
        self.table.reuse = program.reuse
        _take_nodes(self)
        for i in range(self.num_instructions):
            _build_instruction(self, i)

    def forget_counts(self):
        """Reset the counters of the loops, or of the runs of a cluster."""
        self.counted.clear()
        self.runs = 0

    @property
    def counts(self):
        """Number of runs of each loop, by name, and of the iterations begun by them, with a predicate only in the last
        of each run.
        """
        return self.counted

    cdef object source_of(self, const Instruction* each):
        """Return the instruction of the NativeProgram."""
        return self.program.instructions[each - self.instructions]

    cdef str name_of(self, const Instruction* each):
        """Return the name of the operation of an instruction."""
        return self.source_of(each).name


cdef int* _integers(Arena arena, tuple numbers) except NULL:
    """Return numbers as an array."""
    cdef int* array = <int*>arena.take(len(numbers), sizeof(int))
    for i, number in enumerate(numbers):
        array[i] = number
    return array


cdef int _build_types(CompiledProgram self) except -1:
    """Describe the dtypes of the registers."""
    cdef dict index = {}
    cdef int i
    self.register_types = <uint16_t*>self.arena.take(self.num_registers, sizeof(uint16_t))
    for i, (_, dtype) in enumerate(self.program.registers):
        self.register_types[i] = index.setdefault(dtype, len(index))
    self.dtypes = list(index)
    self.table.types = <Type*>self.arena.take(len(index), sizeof(Type))
    for i, dtype in enumerate(self.dtypes):
        describe_type(&self.table.types[i], dtype)
    return 0


cdef int _take_nodes(CompiledProgram self) except -1:
    """Take room for a node for each operation, and for the types of their inputs and outputs."""
    found = [each for each in self.program.instructions if each.computation is not None]
    self.table.nodes = <Node*>self.arena.take(len(found), sizeof(Node))
    self.table.input_types = <uint16_t*>self.arena.take(sum([len(each.inputs) for each in found]), sizeof(uint16_t))
    self.table.output_types = <uint16_t*>self.arena.take(sum([len(each.outputs) for each in found]), sizeof(uint16_t))
    self.table.most_inputs = max([1] + [len(each.inputs) for each in found])
    self.table.most_outputs = max([1] + [len(each.outputs) for each in found])
    return 0


cdef int _build_instruction(CompiledProgram self, int i) except -1:
    """Write an instruction."""
    cdef Instruction* made = &self.instructions[i]
    source = self.program.instructions[i]
    made.code = source.code
    made.num_inputs, made.num_outputs, made.num_targets = len(source.inputs), len(source.outputs), len(source.targets)
    made.inputs, made.outputs = _integers(self.arena, source.inputs), _integers(self.arena, source.outputs)
    made.last, made.targets = <bint*>_integers(self.arena, source.last), _integers(self.arena, source.targets)
    made.is_maybe, made.is_last = source.is_maybe, source.is_last
    if source.computation is not None:
        _build_node(self, made, source.computation)
    return 0


cdef int _build_node(CompiledProgram self, Instruction* made, computation) except -1:
    """Make the node of an operation."""
    cdef Node* node = &self.table.nodes[self.table.num_nodes]
    cdef Node* before = node - 1
    cdef int k
    if self.table.num_nodes:
        node.input, node.output = before.input + before.num_inputs, before.output + before.num_outputs
    self.table.num_nodes += 1
    node.num_inputs, node.num_outputs, node.name = made.num_inputs, made.num_outputs, <PyObject*>computation.name
    for k in range(made.num_inputs):
        self.table.input_types[node.input + <unsigned int>k] = self.register_types[made.inputs[k]]
    for k in range(made.num_outputs):
        self.table.output_types[node.output + <unsigned int>k] = self.register_types[made.outputs[k]]
    inputs = [self.dtypes[self.register_types[made.inputs[k]]] for k in range(made.num_inputs)]
    outputs = [self.dtypes[self.register_types[made.outputs[k]]] for k in range(made.num_outputs)]
    if not computation.is_called:
        choose_kernel(node, computation, inputs, outputs, self.program, self.kept, self.arena)
    if node.native == NULL and node.loop == NULL and computation.kernel is None:
        raise ValueError(f"{computation.name}: {computation.type} has no kernel for these dtypes")
    made.node, made.shape_only = node, computation.shape_only
    for k in computation.reads:
        made.reads |= <uint64_t>1 << k
    return 0


def has_kernel(computation, list inputs, list outputs, switches):
    """Return True if an operation has a C kernel or an inner loop for these dtypes."""
    cdef Node node
    memset(&node, 0, sizeof(Node))
    choose_kernel(&node, computation, inputs, outputs, switches, [], Arena())
    return node.native != NULL or node.loop != NULL
