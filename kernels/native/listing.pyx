"""What code for the steps of a run depends on: what they do to how many elements, but not where these lie.

Two runs with the same signature may share compiled code, which takes all addresses from the steps. An operand that is a
cell of the run is known by its number, unless a kernel sees the cell as an array; others are addresses, of which
nothing else is known.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset
from numpy cimport npy_intp

from tagflow.kernels.native.jit.listed import Layout, ListedStep, Product as ListedProduct
from tagflow.kernels.native.run import StepCode as Codes

from tagflow.kernels.core.table cimport DECLINED, RESULT
from tagflow.kernels.cpu.linear cimport Product, product_in
from tagflow.kernels.native.compiled cimport COMPUTE, Instruction
from tagflow.kernels.native.run cimport GO_BACK, GO_UNLESS, MOST_OPERANDS, Execution, Register, Run, Step

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char*, Py_ssize_t)
    char* PyBytes_AS_STRING(object)


cdef enum:  # as in jit/listed.py
    CONSTANT = -2
    ELSEWHERE = -1


cdef struct Traits:  # of a step; pointers only tell functions apart
    int code
    int instruction
    int target
    int num_targets
    int cells[MOST_OPERANDS]  # as `_cell`
    npy_intp count
    npy_intp strides[MOST_OPERANDS]
    uint64_t functions[4]
    int rows  # of a product, else 0
    int columns
    int inner
    uint8_t transposed_a
    uint8_t transposed_b
    uint8_t adds
    uint8_t copies  # a total to where the product is added to it
    uint8_t continues  # in operands further on


cdef bytes signature_of(Run run):
    """Return what code for a run depends on, as bytes."""
    cdef int i, k
    cdef Py_ssize_t targets = 0
    cdef Traits* traits
    cdef char* end
    for i in range(run.num_steps):
        targets += run.steps[i].num_targets
    signature = PyBytes_FromStringAndSize(NULL, run.num_steps * sizeof(Traits) + targets * sizeof(int))
    traits = <Traits*>PyBytes_AS_STRING(signature)
    end = <char*>(traits + run.num_steps)
    for i in range(run.num_steps):
        _describe(run, &run.steps[i], &traits[i])
        memcpy(end, run.steps[i].targets, run.steps[i].num_targets * sizeof(int))
        end += run.steps[i].num_targets * sizeof(int)
    return signature


cdef int _describe(Run run, const Step* step, Traits* traits) noexcept:
    """Write what code for a step depends on."""
    cdef const Product* product = product_in(step.compute, step.arguments)
    cdef int k
    memset(traits, 0, sizeof(Traits))
    traits.code, traits.instruction, traits.target = step.code, step.instruction, step.target
    traits.num_targets = step.num_targets
    if step.code != GO_BACK and step.code != GO_UNLESS:  # which count
        traits.count = step.count
    traits.functions[0], traits.functions[1] = <uint64_t>step.loop, <uint64_t>step.data
    traits.functions[2], traits.functions[3] = <uint64_t>step.compute, <uint64_t>step.act
    for k in range(MOST_OPERANDS):
        traits.strides[k], traits.cells[k] = step.strides[k], _cell(run, step.operands[k])
    if product != NULL:
        traits.rows, traits.columns, traits.inner = product.rows, product.columns, product.inner
        traits.transposed_a, traits.transposed_b = product.a.transposed, product.b.transposed
        traits.adds, traits.copies = product.adds, product.total != NULL
        traits.continues = product.more_a != NULL
    return 0


cdef inline int _cell(Run run, const char* address) noexcept:
    """Return the number of the cell at an address; of a register's own element `CONSTANT`, else `ELSEWHERE`."""
    cdef int64_t distance = address - <char*>run.execution.cells
    cdef char* registers = <char*>run.registers
    if registers <= address < registers + run.program.num_registers * sizeof(Register):
        return CONSTANT
    if not 0 <= distance < <int64_t>(run.used * sizeof(uint64_t)) or run.viewed[distance // sizeof(uint64_t)]:
        return ELSEWHERE
    return <int>(distance // sizeof(uint64_t))


cdef list steps_of(Run run):
    """Return the steps as Python sees them."""
    return [_listed(run, &run.steps[i]) for i in range(run.num_steps)]


cdef object _listed(Run run, const Step* step):
    """Return a ListedStep."""
    cdef const Instruction* each = NULL
    cdef Traits traits
    cdef int i
    _describe(run, step, &traits)
    if step.instruction < run.program.num_instructions:
        each = &run.program.instructions[step.instruction]
    name, dtypes, product = "", (), None
    if each != NULL and each.code == COMPUTE and step.loop == each.node.loop and step.data == each.node.loop_data:
        computation = run.program.program.instructions[step.instruction].computation
        name = computation.ufunc or computation.type
        registers = [each.inputs[i] for i in range(each.num_inputs)] + [each.outputs[i] for i in range(each.num_outputs)]
        dtypes = tuple([run.program.dtypes[run.program.register_types[i]] for i in registers])
    if traits.rows:
        product = ListedProduct(
            traits.rows, traits.columns, traits.inner, bool(traits.transposed_a), bool(traits.transposed_b),
            bool(traits.adds), bool(traits.copies), bool(traits.continues))
    return ListedStep(
        Codes(step.code), step.target, tuple([step.targets[i] for i in range(step.num_targets)]), traits.count,
        tuple([step.strides[i] for i in range(MOST_OPERANDS)]), tuple([traits.cells[i] for i in range(MOST_OPERANDS)]),
        name, dtypes, product)


cdef Step* _step = NULL
cdef Execution* _execution = NULL
cdef Product* _product = NULL

# Where fields lie, in bytes.
LAYOUT = Layout(
    step=sizeof(Step),
    operands=<size_t>&_step.operands,
    strides=<size_t>&_step.strides,
    amount=<size_t>&_step.count,
    loop=<size_t>&_step.loop,
    data=<size_t>&_step.data,
    compute=<size_t>&_step.compute,
    act=<size_t>&_step.act,
    arguments=<size_t>&_step.arguments,
    at=<size_t>&_execution.at,
    left=<size_t>&_execution.left,
    declined=DECLINED * sizeof(uint64_t),
    result=RESULT * sizeof(uint64_t),
    product_a=<size_t>&_product.a.data,
    product_b=<size_t>&_product.b.data,
    product_data=<size_t>&_product.data,
    product_total=<size_t>&_product.total,
)
