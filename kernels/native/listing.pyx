"""Listing of a run's steps: the properties on which compiled code depends, operations and sizes but no addresses.

Two runs with the same signature may share compiled code, which takes all addresses from the steps. Memory of steps
and of no work is a *value* of the code, with a number: an element in a cell, or a small array used as a whole by all
steps. Code assumes nothing of all other addresses.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset
from numpy cimport npy_intp

import re

from tagloom.kernels.cpu.fused_works import FUSED_LAYOUT, read_fused
from tagloom.kernels.native.jit.listed import (
    Fused as ListedFused, FusedLayout, Layout, ListedStep, Product as ListedProduct, Status as Statuses, StepCode as Codes, Verdict as Verdicts,
)
from tagloom.kernels.native.team import SHARED_LAYOUT

from tagloom.kernels.core.table cimport DECLINED, RESULT, Compute
from tagloom.kernels.cpu.fused_works cimport describe_fused
from tagloom.kernels.cpu.linear cimport Product, is_small, product_in, vector_bits
from tagloom.kernels.native.compiled cimport COMPUTE, Instruction
from tagloom.kernels.native.run cimport (
    ADD_ONE, ADD_ROWS, APPLY, CALL, COPY, COPY_8, DONE, END, GAVE_UP, GO, GO_BACK, GO_TO, GO_UNLESS, GUARD_DIVISOR,
    GUARD_EXPONENT, LATER, MOST_OPERANDS, NO, NO_ROOM, PUSH_ROW, READ_ROW, SUSPENDED, WORK, WORK_TO, YES, Execution, Register,
    Place, Run, Step, Writer, most_value_bytes, type_of,
)
from tagloom.kernels.native.saving cimport Reader
from tagloom.kernels.native.sums cimport Sum
from tagloom.kernels.native.team cimport is_shared, shared_in

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char*, Py_ssize_t)
    char* PyBytes_AS_STRING(object)

if [[APPLY, WORK, WORK_TO, COPY, COPY_8, ADD_ONE, GO, GO_BACK, GO_UNLESS, GO_TO, GUARD_DIVISOR, GUARD_EXPONENT, PUSH_ROW,
     READ_ROW, ADD_ROWS, CALL, END], [SUSPENDED, DONE, GAVE_UP, NO_ROOM], [NO, YES, LATER]] != [list(Codes), list(Statuses), list(Verdicts)]:
    raise ImportError("the codes of steps are not those of kernels/native/jit/listed.py")

cdef enum:  # as in jit/listed.py
    CONSTANT = -2
    ELSEWHERE = -1

cdef enum:
    NUM_FACTORS = 4  # places of a product: both factors, the product, and the total


cdef struct Traits:  # of a step; pointers only tell functions apart
    int code
    int instruction
    int target
    int num_targets
    int values[MOST_OPERANDS]  # numbers, CONSTANT or ELSEWHERE
    uint8_t in_cells[MOST_OPERANDS]
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
    uint8_t is_small
    uint8_t is_fused  # multiplications with additions
    uint8_t in_place
    int num_places
    int moving
    int factors[NUM_FACTORS]  # of a small product: numbers, or ELSEWHERE


cdef struct Extent:  # of memory that is seen
    uint64_t low
    uint64_t high
    int* value  # that is to be found, or NULL


cdef class Listing:
    """The steps of a run without their addresses.

    Attributes
    ----------
    signature : bytes
        Equal for runs with common code.
    """

    cdef list steps(self):
        """Return the steps as Python sees them."""
        cdef const Traits* traits = <const Traits*>PyBytes_AS_STRING(self.signature)
        return [_listed(self.run, &self.run.steps[i], &traits[i], self.fused.get(i)) for i in range(self.run.num_steps)]


cdef Listing list_steps(Run run):
    """Return the listing of a run's steps."""
    cdef Listing made = Listing()
    cdef Py_ssize_t targets = 0
    cdef Traits* traits
    cdef Compute compute
    cdef uint64_t* arguments
    cdef char* end
    cdef int i
    for i in range(run.num_steps):
        targets += run.steps[i].num_targets
    made.run = run
    made.signature = PyBytes_FromStringAndSize(NULL, run.num_steps * sizeof(Traits) + targets * sizeof(int))
    traits = <Traits*>PyBytes_AS_STRING(made.signature)
    end = <char*>(traits + run.num_steps)
    for i in range(run.num_steps):
        _describe(&run.steps[i], &traits[i])
        memcpy(end, run.steps[i].targets, run.steps[i].num_targets * sizeof(int))
        end += run.steps[i].num_targets * sizeof(int)
    _find_values(run, traits)
    made.fused = {}
    for i in range(run.num_steps):
        if run.steps[i].code == WORK:
            compute = run.steps[i].compute
            arguments = shared_in(&compute, <uint64_t*>run.steps[i].arguments)
            described = describe_fused(compute, arguments)
            if described is not None:
                made.fused[i] = described
    if made.fused:
        made.signature += b"".join(made.fused.values())
    return made


cdef int _describe(const Step* step, Traits* traits) noexcept:
    """Describe the properties of a step on which compiled code depends, except values."""
    cdef const Product* product = product_in(step.compute, step.arguments)
    cdef int k
    memset(traits, 0, sizeof(Traits))
    traits.code, traits.instruction, traits.target = step.code, step.instruction, step.target
    traits.num_targets = step.num_targets
    traits.in_place, traits.num_places, traits.moving = step.in_place, step.num_places, step.moving
    if step.code != GO_BACK and step.code != GO_UNLESS:  # which count
        traits.count = step.count
    traits.functions[0], traits.functions[1] = <uint64_t>step.loop, <uint64_t>step.data
    traits.functions[2], traits.functions[3] = <uint64_t>step.compute, <uint64_t>step.act
    for k in range(MOST_OPERANDS):
        traits.strides[k], traits.values[k] = step.strides[k], ELSEWHERE
    for k in range(NUM_FACTORS):
        traits.factors[k] = ELSEWHERE
    if product != NULL:
        traits.rows, traits.columns, traits.inner = product.rows, product.columns, product.inner
        traits.transposed_a, traits.transposed_b = product.a.transposed, product.b.transposed
        traits.adds, traits.copies = product.adds, product.total != NULL
        traits.is_small, traits.is_fused = is_small(product), vector_bits() > 0
    return 0


# Values


cdef int _find_values(Run run, Traits* traits) except -1:
    """Number the memory accessed by steps and by no work, in the order of the accesses."""
    cdef size_t most = run.num_steps * (MOST_OPERANDS + NUM_FACTORS) + len(run.opaque)
    cdef Extent* extents = <Extent*>run.arena.take(most, sizeof(Extent))
    cdef int* numbers = <int*>run.arena.take(most, sizeof(int))  # of groups
    cdef size_t count = 0
    cdef int next = 0
    cdef int i, k
    for i in range(run.num_steps):
        for k in range(MOST_OPERANDS):
            traits[i].in_cells[k] = _is_cell(run, run.steps[i].operands[k])
            if _is_constant(run, run.steps[i].operands[k]):
                traits[i].values[k] = CONSTANT
            else:
                count += _see(<uint64_t>run.steps[i].operands[k], _bytes(run, &run.steps[i], k), &traits[i].values[k],
                              _is_whole(run, &run.steps[i], k), run, &extents[count])
        if traits[i].is_small:
            for k in range(NUM_FACTORS):
                count += _see_factor(run, &run.steps[i], &traits[i], k, &extents[count])
    for low, high, _ in run.opaque:
        extents[count].low, extents[count].high, extents[count].value = low, high, NULL
        count += 1
    _sort(extents, count)
    _group(extents, count)
    memset(numbers, -1, most * sizeof(int))
    for i in range(run.num_steps):
        for k in range(MOST_OPERANDS):
            _number(&traits[i].values[k], numbers, &next)
        for k in range(NUM_FACTORS):
            _number(&traits[i].factors[k], numbers, &next)
    return 0


cdef inline bint _is_constant(Run run, const char* address) noexcept:
    """Return True for the address of a register's own element, which no step changes."""
    cdef char* registers = <char*>run.registers
    return registers <= address < registers + run.program.num_registers * sizeof(Register)


cdef inline const Instruction* _computation(Run run, const Step* step) noexcept:
    """Return the instruction whose inner loop a step calls, or NULL."""
    cdef const Instruction* each = &run.program.instructions[step.instruction]
    if step.code != APPLY or each.code != COMPUTE or step.loop != each.node.loop or step.data != each.node.loop_data:
        return NULL
    return each


cdef inline size_t _itemsize(Run run, const Instruction* each, int k) noexcept:
    """Return the bytes of an element of an operand, 0 if there is none."""
    if k > each.num_inputs:
        return 0
    return type_of(run, each.outputs[0] if k == each.num_inputs else each.inputs[k]).itemsize


cdef uint64_t _bytes(Run run, const Step* step, int k) noexcept:
    """Return the bytes accessed by a step at an operand."""
    cdef const Instruction* each
    if step.operands[k] == NULL:
        return 0
    if step.code == APPLY:
        each = _computation(run, step)
        if each == NULL and step.arguments != NULL:
            return step.count * abs(step.strides[k]) if step.strides[k] else step.arguments[k]
        if each == NULL:  # so many at least
            return step.count * max(abs(step.strides[k]), 16)
        if step.count == 1 or step.strides[k] == 0:
            return _itemsize(run, each, k)
        return step.count * _itemsize(run, each, k)
    if step.code == COPY or step.code == COPY_8:
        return step.count if k < 2 else 0
    if PUSH_ROW <= step.code <= CALL:
        return step.strides[k]
    if step.code == GUARD_DIVISOR or step.code == GUARD_EXPONENT:
        return step.count * step.strides[0]
    if step.code == ADD_ONE or step.code == WORK_TO:
        return sizeof(uint64_t)
    if step.code == GO_TO:
        return step.count
    return step.code == GO_UNLESS


cdef bint _is_whole(Run run, const Step* step, int k) noexcept:
    """Return True if a step accesses all bytes at an operand, side by side, as elements of known type."""
    cdef const Instruction* each
    if step.code != APPLY:
        return True
    if step.arguments != NULL:
        return True
    each = _computation(run, step)
    return each != NULL and (step.count == 1 or step.strides[k] == 0 or step.strides[k] == <npy_intp>_itemsize(run, each, k))


cdef size_t _see(uint64_t address, uint64_t size, int* value, bint whole, Run run, Extent* extent) noexcept:
    """Describe the memory accessed at an address, a cell always as a whole; return the number of extents."""
    cdef uint64_t cells = <uint64_t>run.execution.cells
    cdef bint in_cells = cells <= address < cells + run.used * sizeof(uint64_t)
    if size == 0:
        return 0
    if in_cells and (address - cells) % sizeof(uint64_t) == 0 and size <= sizeof(uint64_t):
        size = sizeof(uint64_t)
    elif in_cells:
        whole = False
    extent.low, extent.high, extent.value = address, address + size, value if whole and <npy_intp>size <= most_value_bytes else NULL
    return 1


cdef size_t _see_factor(Run run, const Step* step, Traits* traits, int k, Extent* extent) noexcept:
    """Describe the memory accessed by a small product."""
    cdef const Product* p = <const Product*>step.arguments
    cdef uint64_t size = type_of(run, run.program.instructions[step.instruction].inputs[1]).itemsize
    if k == 0:
        return _see(<uint64_t>p.a.data, size * p.rows * p.inner, &traits.factors[k], True, run, extent)
    if k == 1:
        return _see(<uint64_t>p.b.data, size * p.inner * p.columns, &traits.factors[k], True, run, extent)
    return _see(<uint64_t>(p.data if k == 2 else p.total), size * p.rows * p.columns if k == 2 or p.total != NULL else 0,
                &traits.factors[k], True, run, extent)


cdef void _sort(Extent* extents, size_t count) noexcept nogil:
    """Order extents by their begin: a few dozen mostly, for which the calls made by qsort take longer."""
    cdef size_t gap = 1
    cdef size_t i, k
    cdef Extent each
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap:  # Shell's sort
        for i in range(gap, count):
            each, k = extents[i], i
            while k >= gap and extents[k - gap].low > each.low:
                extents[k] = extents[k - gap]
                k -= gap
            extents[k] = each
        gap //= 3


cdef int _group(Extent* extents, size_t count) noexcept:
    """Number the groups of extents with the same bytes, if no other extent overlaps them."""
    cdef size_t first = 0
    cdef size_t i, end
    cdef uint64_t high
    cdef bint same
    cdef int group = 0
    while first < count:
        high, same, end = extents[first].high, True, first
        while end < count and extents[end].low < high:
            if (extents[end].value == NULL or extents[end].low != extents[first].low
                    or extents[end].high != extents[first].high):
                same = False
            high = max(high, extents[end].high)
            end += 1
        for i in range(first, end if same else first):
            extents[i].value[0] = group
        group += 1
        first = end
    return 0


cdef inline void _number(int* value, int* numbers, int* next) noexcept:
    """Replace the number of a group, which depends on addresses, by a number in the order of the steps."""
    if value[0] < 0:
        return
    if numbers[value[0]] < 0:
        numbers[value[0]] = next[0]
        next[0] += 1
    value[0] = numbers[value[0]]


# For Python


cdef object _listed(Run run, const Step* step, const Traits* traits, bytes described):
    """Return a ListedStep."""
    cdef const Instruction* each = &run.program.instructions[step.instruction]
    cdef int i
    name, dtypes, product, fused = "", (), None, None
    if described is not None:
        attrs = run.program.program.instructions[step.instruction].computation.attrs
        dtype = run.program.dtypes[run.program.register_types[each.outputs[0]]]
        rows, block, widths = read_fused(described)
        fused = ListedFused(dtype, rows, block, is_shared(step.compute), widths, tuple(attrs["results"]), attrs["steps"])
    if traits.rows or _computation(run, step) != NULL:
        computation = run.program.program.instructions[step.instruction].computation
        if computation is not None:  # there is none for the product that is added to a sum
            name = computation.ufunc or _in_small_letters(computation.type)
        registers = [each.inputs[i] for i in range(each.num_inputs)] + [each.outputs[0]]
        dtypes = tuple([run.program.dtypes[run.program.register_types[i]] for i in registers])
    if traits.rows:
        product = ListedProduct(
            traits.rows, traits.columns, traits.inner, bool(traits.transposed_a), bool(traits.transposed_b),
            bool(traits.adds), bool(traits.copies), bool(traits.is_small), bool(traits.is_fused),
            tuple([traits.factors[i] for i in range(NUM_FACTORS)]))
    return ListedStep(
        Codes(step.code), step.target, tuple([step.targets[i] for i in range(step.num_targets)]), traits.count,
        tuple([step.strides[i] for i in range(MOST_OPERANDS)]),
        tuple([traits.values[i] for i in range(MOST_OPERANDS)]), tuple([_bytes(run, step, i) for i in range(MOST_OPERANDS)]),
        tuple([bool(traits.in_cells[i]) for i in range(MOST_OPERANDS)]), name, dtypes, product,
        traits.num_places if traits.in_place else None, traits.moving, fused)


cdef str _in_small_letters(str type):
    """Return the name of an operation's inner loop, as ufuncs are called."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", type).lower()


cdef inline bint _is_cell(Run run, const char* address) noexcept:
    return <char*>run.execution.cells <= address < <char*>(run.execution.cells + run.used)


cdef Step* _step = NULL
cdef Execution* _execution = NULL
cdef Product* _product = NULL
cdef Writer* _writer = NULL
cdef Reader* _reader = NULL
cdef Sum* _sum = NULL
cdef Place* _place = NULL

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
    places=<size_t>&_step.places,
    at=<size_t>&_execution.at,
    left=<size_t>&_execution.left,
    declined=DECLINED * sizeof(uint64_t),
    result=RESULT * sizeof(uint64_t),
    block=(<size_t>&_writer.block.first, <size_t>&_writer.block.rows, <size_t>&_writer.block.data,
           <size_t>&_writer.block.is_written),
    reader=(<size_t>&_reader.rows, <size_t>&_reader.count, <size_t>&_reader.is_last),
    fused=FusedLayout(*FUSED_LAYOUT),
    shared=SHARED_LAYOUT,
    place=(sizeof(Place), <size_t>&_place.at, <size_t>&_place.offset),
    sum=(<size_t>&_sum.rows, <size_t>&_sum.quick, <size_t>&_sum.first, <size_t>&_sum.second),
    factors=(<size_t>&_product.a.data, <size_t>&_product.b.data, <size_t>&_product.data, <size_t>&_product.total),
)
