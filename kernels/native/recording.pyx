"""Recording of a run's steps: the works left by the kernels of a program for the arrays of this run.

A kernel called with ``Table.at_once`` 0 makes room for its results and leaves the rest as a Work, a function
over plain memory. So each operation of a program is called once, on arrays with fixed addresses for the whole run,
and its work is a step: to be done again in each iteration, on the elements of the arrays by then. Changing elements
without dimensions have a cell, an array for kernels. Constant values are computed while recording.

See docs/design/0025-native-loops.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from tagloom.kernels.core.convert cimport as_integer
from tagloom.kernels.core.cost cimport LONG, LONGEST, Py_CLEAR, take_result
from tagloom.kernels.core.table cimport Node, Type, Work, input_type, output_type
from tagloom.kernels.core.values cimport (
    EMPTY, OBJECT, SCALAR, Py_DECREF, Py_INCREF, Value, drop, empty, hold, object_value, pointer, scalar,
)
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_BASE, PyArray_CheckExact, PyArray_DATA, PyArray_DIM, PyArray_ITEMSIZE, PyArray_NDIM,
    PyArray_SIZE, PyArray_STRIDES, Py_REFCNT, array_in, is_plain, is_usable, new_view,
)
from tagloom.kernels.cpu.elements cimport Elements
from tagloom.kernels.cpu.linear cimport are_parts_alike, is_small, pack_once, product_in
from tagloom.kernels.cpu.product_sum cimport ProductSum
from tagloom.kernels.cpu.ufuncs cimport all_scalars, loop_in, run_arrays, run_scalars
from tagloom.kernels.native.calls cimport leave_call, names_of_calls
from tagloom.kernels.native.compiled cimport (
    ADD_PRODUCT, COMPUTE, COUNT, JUMP, MOVE, NEST, PUSH, PUSH_AT, READ, READ_NESTED, UNLESS, CompiledProgram,
    Instruction,
)
from tagloom.kernels.native.element_access cimport record_access
from tagloom.kernels.native.in_place cimport place_rows
from tagloom.kernels.native.moving cimport copy_of_size, make_home, record_move, straighten
from tagloom.kernels.native.run cimport (
    ADD_ONE, APPLY, END, GO, GO_BACK, GO_TO, GO_UNLESS, GUARD_DIVISOR, GUARD_EXPONENT, LONG_STEP, WORK, WORK_TO,
    Refusal, Register, Run, Step, add_step, data_of, hide, is_element, new_cell, pass_guard, type_of,
)
from tagloom.kernels.native.saving cimport record_push, record_read
from tagloom.kernels.native.nesting cimport record_nest
from tagloom.kernels.native.parts cimport record_part
from tagloom.kernels.native.sums cimport record_add
from tagloom.kernels.native.tape cimport record_trace
from tagloom.kernels.native.team cimport most_shares, share
from tagloom.kernels.native.updating cimport update_in_place
from tagloom.kernels.scheduler.series cimport Series

cnp.import_array()

cdef enum:
    MOST_TRIPS = 1 << 20  # for which room is made at once


cdef Run record(CompiledProgram program, const Value* inputs, bint for_others):
    """Return a run of a program for its inputs, or for others like them; its `reason` is set if recording fails.
    """
    cdef Run run = Run(program)
    run.has_homes = for_others
    try:
        _open(run, inputs)
        run.trips = 0 if for_others else trips_of(run)  # the inputs of others are not there yet
        _record_all(run)
        update_in_place(run)
        place_rows(run)
        program.called, program.traced = names_of_calls(run), tuple(run.traced)
    except Refusal as refusal:
        run.reason = str(refusal)
        return run
    run.execution.steps, run.execution.stride = run.steps, 1
    return run


cdef int64_t trips_of(Run run) except -1:
    """Return how often the outermost loop runs, about; 0 if not known."""
    cdef int64_t first, limit, step
    if run.program.program.trips is None:
        return 0
    start, end, step = run.program.program.trips
    if not is_element(&run.registers[<int>start]) or not is_element(&run.registers[<int>end]):
        return 0
    first, limit = _integer(run, start), _integer(run, end)
    if step < 0:
        first, limit, step = limit, first, -step
    return min(max(0, (limit - first + step - 1) // step), MOST_TRIPS)


cdef int64_t _integer(Run run, int number) except? -1:  # the present element of a register
    cdef Value element = scalar(0)
    memcpy(&element.bits, data_of(&run.registers[number]), type_of(run, number).size)
    return as_integer(element, type_of(run, number))


cdef bint is_series_or_sum(Value value):
    """Return True if a value is a series, or a sum of products."""
    return value.form == OBJECT and isinstance(<object>pointer(value), (Series, ProductSum))


cdef int _open(Run run, const Value* inputs) except -1:
    """Bring the inputs, and the constants, into registers."""
    cdef CompiledProgram program = run.program
    cdef cnp.npy_intp count = program.num_cells
    cdef int i
    cdef Register* register
    cells = cnp.PyArray_ZEROS(1, &count, cnp.NPY_UINT64, 0)
    hold(&run.held, &run.cells, object_value(<PyObject*>cells))
    run.execution.cells = <uint64_t*>cnp.PyArray_DATA(cells)
    for i in range(program.num_inputs):
        if run.has_homes and program.inputs[i] in program.program.sizes:
            _bring_in(run, &run.registers[program.inputs[i]], copy_of_size(run, inputs[i]))
        elif run.has_homes and (program.is_cluster or not is_series_or_sum(inputs[i])):
            make_home(run, program.inputs[i], inputs[i])
        else:
            _bring_in(run, &run.registers[program.inputs[i]], inputs[i])
    for number, value in program.program.constants.items():
        i = number
        register = &run.registers[i]
        _bring_in(run, register, object_value(<PyObject*>value))
        if type_of(run, i).size and PyArray_NDIM(array_in(register.value)) == 0:
            drop(&run.held, &register.value)
            register.value = scalar(0)
            memcpy(&register.value.bits, cnp.PyArray_DATA(value), type_of(run, i).size)
    return 0


cdef int _bring_in(Run run, Register* register, Value value) except -1:
    """Set a register to a constant value."""
    if value.form == EMPTY:
        raise Refusal("an input is no NumPy array")
    if value.form == OBJECT and not PyArray_CheckExact(array_in(value)):
        if not isinstance(<object>pointer(value), (Series, ProductSum, Elements)):
            raise Refusal("an input is no NumPy array")
        hold(&run.held, &register.value, value)
        return 0
    if value.form == OBJECT and not is_usable(array_in(value)):
        raise Refusal("an input is not aligned, or in another byte order")
    hold(&run.held, &register.value, value)
    register.is_known = True
    return 0


cdef int _record_all(Run run) except -1:
    """Record the instructions in order, then point the jumps at steps."""
    cdef CompiledProgram program = run.program
    cdef int* first = <int*>run.arena.take(program.num_instructions + 1, sizeof(int))
    cdef Value* inputs = <Value*>run.arena.take(program.table.most_inputs, sizeof(Value))
    cdef Value* outputs = <Value*>run.arena.take(program.table.most_outputs, sizeof(Value))
    cdef Instruction* each
    cdef int i, k, start
    cdef Step* step
    for i in range(program.num_instructions):
        each = &program.instructions[i]
        first[i] = start = run.num_steps
        if each.code == COMPUTE:
            _compute(run, each, inputs, outputs)
        elif each.code == MOVE:
            record_move(run, each)
        elif each.code == PUSH or each.code == PUSH_AT:
            record_push(run, each)
        elif each.code == READ or each.code == READ_NESTED:
            record_read(run, each)
        elif each.code == NEST:
            record_nest(run, each)
        elif each.code == ADD_PRODUCT:
            record_add(run, each)
        elif each.code == COUNT:
            add_step(run, ADD_ONE).operands[0] = run.registers[each.outputs[0]].cell
        elif not record_access(run, each):
            _jump(run, each, i)
        for k in range(start, run.num_steps):
            run.steps[k].instruction = i
    first[program.num_instructions] = run.num_steps
    add_step(run, END)
    for i in range(run.num_steps):
        step = &run.steps[i]
        step.target = first[step.target]
        for k in range(step.num_targets):
            step.targets[k] = first[step.targets[k]]
    return 0


cdef int _jump(Run run, const Instruction* each, int at) except -1:
    """Record a jump; until all are recorded its targets are instructions."""
    cdef Step* step
    cdef int k
    if each.code == JUMP or each.code == UNLESS:
        name = run.program.name_of(each)
        if name:
            run.loops.setdefault(name, []).append(run.num_steps)
    if each.code == JUMP:
        step = add_step(run, GO_BACK if each.targets[0] <= at else GO)
        step.target = each.targets[0]
        return 0
    step = add_step(run, GO_UNLESS if each.code == UNLESS else GO_TO)
    step.operands[0] = _element(run, each.inputs[0])
    if each.code == UNLESS:
        step.target = each.targets[0]
        return 0
    step.count = type_of(run, each.inputs[0]).itemsize
    step.num_targets = each.num_targets
    step.targets = <int*>run.arena.take(each.num_targets, sizeof(int))
    for k in range(each.num_targets):
        step.targets[k] = each.targets[k]
    return 0


cdef char* _element(Run run, int number) except NULL:
    """Return where the element of a register is."""
    cdef Register* register = &run.registers[number]
    if register.cell != NULL:
        return register.cell
    if register.value.form != SCALAR:
        raise Refusal("a predicate has dimensions")
    return <char*>&register.value.bits


cdef int _compute(Run run, Instruction* each, Value* inputs, Value* outputs) except -1:
    """Record an operation, or compute its result now if all iterations have the same result."""
    cdef bint known = True, elements = True
    cdef Register* register
    cdef int k
    for k in range(each.num_inputs):
        register = &run.registers[each.inputs[k]]
        known = known and register.is_known
        elements = elements and is_element(register)
    if each.node.loop_raises:
        known = False
        _guard(run, each)
    if elements and each.node.loop != NULL and output_type(&run.program.table, each.node, 0).size:
        _compute_element(run, each, known)
    else:
        _compute_arrays(run, each, inputs, outputs, known)
    for k in range(each.num_inputs):
        if each.last[k]:
            _retire(run, &run.registers[each.inputs[k]])
    return 0


cdef str _name(const Instruction* each):
    return <str><object>each.node.name


cdef str _type(Run run, const Instruction* each):
    return run.program.program.instructions[each - run.program.instructions].computation.type


cdef int _guard(Run run, Instruction* each) except -1:
    """Record a look at the operand for some values of which the inner loop raises: a divisor, or an exponent."""
    cdef const Type* type = input_type(&run.program.table, each.node, 1)
    cdef Register* register = &run.registers[each.inputs[1]]
    cdef bint power = _type(run, each) == "Pow"
    cdef Step* step
    if power and not type.is_signed:
        return 0
    step = add_step(run, GUARD_EXPONENT if power else GUARD_DIVISOR)
    step.operands[0], step.count, step.strides[0], step.act = data_of(register), 1, type.itemsize, pass_guard
    if not is_element(register):
        step.count = PyArray_SIZE(array_in(register.value))
        if not is_plain(array_in(register.value)):
            straighten(run, register)
            step.operands[0] = data_of(register)
    return 0


cdef int _compute_element(Run run, Instruction* each, bint known) except -1:
    """Record an inner loop over a single element, or run the loop now."""
    cdef Register* made = &run.registers[each.outputs[0]]
    cdef Step* step
    cdef int k
    made.is_known = known
    if known:
        made.value = scalar(0)
    else:
        made.cell = new_cell(run)
    step = add_step(run, APPLY)
    step.loop, step.data, step.count = each.node.loop, each.node.loop_data, 1
    for k in range(each.num_inputs):
        step.operands[k], step.strides[k] = data_of(&run.registers[each.inputs[k]]), 8
    step.operands[each.num_inputs], step.strides[each.num_inputs] = data_of(made), 8
    if known:
        step.loop(step.operands, &step.count, step.strides, step.data)
        run.num_steps -= 1
    return 0


cdef int _compute_arrays(Run run, Instruction* each, Value* inputs, Value* outputs, bint known) except -1:
    """Call the kernel of an operation and record the work left by the kernel, or do the work now."""
    cdef Node* node = each.node
    cdef Work work
    cdef int k
    memset(&work, 0, sizeof(Work))
    for k in range(each.num_outputs):
        outputs[k].form = EMPTY
    for k in range(each.num_inputs):
        inputs[k] = _as_input(run, each.inputs[k])
    try:
        if not (_prepare(run, each, inputs, outputs, &work, known) or record_trace(run, each, inputs, outputs)
                or leave_call(run, each, inputs, outputs, &work)):
            raise Refusal(f"{_name(each)}: {_type(run, each)} has no C kernel for these arrays")
        known = known and work.cost < LONG
        if known and work.compute != NULL:
            work.compute(work.arguments, 0, 1)
            if not take_result(&work, outputs):
                raise Refusal(f"{_name(each)}: {_type(run, each)} wants its Python kernel")
        _take_outputs(run, each, outputs, known)
        if not known and work.compute != NULL and not record_part(run, each, &work):
            _keep_work(run, each, inputs, outputs, &work)
    finally:
        Py_CLEAR(work.kept)
        for k in range(each.num_outputs):
            drop(&run.held, &outputs[k])
    return 0


cdef bint _prepare(Run run, Instruction* each, Value* inputs, Value* outputs, Work* work, bint known) except -1:
    """Call the C kernel of an operation; return False, without outputs, if there is no repeatable work."""
    cdef int k
    if each.node.native == NULL and each.node.loop == NULL:
        return False
    for k in range(each.num_inputs):
        if each.reads >> k & 1 and not run.registers[each.inputs[k]].is_known:
            return False
    if not _call(run, each, inputs, outputs, work) and not (
            _box(run, each, inputs) and _call(run, each, inputs, outputs, work)):
        return False
    if (known and work.cost < LONG) or _leaves_all(each, inputs, outputs, work):
        return True
    for k in range(each.num_outputs):
        drop(&run.held, &outputs[k])
    return False


cdef Value _as_input(Run run, int number) except *:
    """Return the value of a register for a kernel: a known element unboxed, all else as an array."""
    cdef Register* register = &run.registers[number]
    cdef ArrayObject* cells = array_in(run.cells)
    if register.value.form == EMPTY:
        new_view(&run.held, type_of(run, number), cells, register.cell, 0, NULL, &register.value)
    return register.value


cdef bint _box(Run run, const Instruction* each, Value* inputs) except -1:
    """Box the unboxed inputs of a kernel, except inputs read by the kernel itself; return False if there are none."""
    cdef bint any_boxed = False
    cdef Value boxed
    cdef char* cell
    cdef int k
    for k in range(each.num_inputs):
        if inputs[k].form == SCALAR and not each.reads >> k & 1:
            cell = new_cell(run)
            (<uint64_t*>cell)[0] = inputs[k].bits
            boxed = empty()
            new_view(&run.held, type_of(run, each.inputs[k]), array_in(run.cells), cell, 0, NULL, &boxed)
            run.kept.append(<object>pointer(boxed))
            inputs[k] = object_value(pointer(boxed))
            drop(&run.held, &boxed)
            any_boxed = True
    return any_boxed


cdef int _call(Run run, Instruction* each, Value* inputs, Value* outputs, Work* work) except -1:
    """Call the kernel of an operation. The kernel may overwrite inputs which no other instruction reads any more."""
    cdef bint raises = each.node.loop_raises
    cdef int prepared = 0
    cdef int k
    for k in range(each.num_inputs):
        if inputs[k].form == OBJECT and not _may_be_overwritten(run, each, k):
            Py_INCREF(pointer(inputs[k]))
    each.node.loop_raises = False  # the guard comes before
    try:
        if each.node.native != NULL:
            prepared = each.node.native(&run.program.table, each.node, inputs, &run.held, outputs, work)
        elif all_scalars(each.node, inputs):
            run_scalars(each.node, inputs, outputs)
            prepared = 1
        else:
            prepared = run_arrays(&run.program.table, each.node, inputs, &run.held, outputs, work)
    finally:
        each.node.loop_raises = raises
        for k in range(each.num_inputs):
            if inputs[k].form == OBJECT and not _may_be_overwritten(run, each, k):
                Py_DECREF(pointer(inputs[k]))
    return prepared


cdef bint _may_be_overwritten(Run run, const Instruction* each, int k) noexcept:
    """Return True if a result may overwrite an input: the input changes, and this is its last and only read."""
    cdef int i
    cdef const Register* register = &run.registers[each.inputs[k]]
    if not each.last[k] or register.is_known or register.is_row:
        return False
    for i in range(each.num_inputs):
        if i != k and each.inputs[i] == each.inputs[k]:
            return False
    return True


cdef bint _leaves_all(const Instruction* each, const Value* inputs, const Value* outputs, const Work* work) noexcept:
    """Return True if no computation on values was done: each output is left as work, lies in an input, or depends on
    shapes.
    """
    cdef ArrayObject* array
    cdef bint is_new
    cdef int k
    if work.compute != NULL or each.shape_only:
        return True
    for k in range(each.num_outputs):
        array = array_in(outputs[k])
        is_new = array != NULL and PyArray_BASE(array) == NULL and not _is_among(array, each, inputs)
        if array == NULL or (is_new and PyArray_SIZE(array)):
            return False
    return True


cdef bint _is_among(ArrayObject* array, const Instruction* each, const Value* inputs) noexcept:
    cdef int k
    for k in range(each.num_inputs):
        if array_in(inputs[k]) == array:
            return True
    return False


cdef int _take_outputs(Run run, Instruction* each, Value* outputs, bint known) except -1:
    """Store the outputs of a kernel, or the room for them, in registers."""
    cdef Register* register
    cdef int k
    for k in range(each.num_outputs):
        register = &run.registers[each.outputs[k]]
        register.is_known = known or each.shape_only
        if outputs[k].form == SCALAR and not register.is_known:
            register.cell = new_cell(run)
            continue
        hold(&run.held, &register.value, outputs[k])
        if outputs[k].form == OBJECT and PyArray_NDIM(array_in(outputs[k])) == 0 and type_of(run, each.outputs[k]).size:
            _take_element(run, each.outputs[k])
    return 0


cdef int _take_element(Run run, int number) except -1:
    """Replace an array without dimensions by its element if known, else use its memory as a cell."""
    cdef Register* register = &run.registers[number]
    cdef const char* data = <const char*>PyArray_DATA(array_in(register.value))
    if register.is_known:
        run.kept.append(<object>pointer(register.value))
        drop(&run.held, &register.value)
        register.value = scalar(0)
        memcpy(&register.value.bits, data, type_of(run, number).size)
    else:
        register.cell = <char*>data
    return 0


cdef int _keep_work(Run run, Instruction* each, const Value* inputs, const Value* outputs, Work* work) except -1:
    """Record the work left by a kernel as a step; long work is shared, or left to the step machine."""
    cdef Register* first = &run.registers[each.outputs[0]]
    cdef bint unboxed = first.value.form == EMPTY
    cdef int k
    cdef uint64_t* arguments = <uint64_t*>run.arena.take(1, sizeof(work.arguments))
    cdef Step* step = add_step(run, WORK_TO if unboxed else WORK)
    cdef bint alike = are_parts_alike(work.compute, <const uint64_t*>work.arguments)
    cdef int shares = most_shares(work) if alike else 1
    if work.parts > 1 and (work.cost > LONGEST or work.cost >= LONG_STEP and not alike):
        raise Refusal(f"{_name(each)}: {_type(run, each)} takes long enough for several cores")
    memcpy(arguments, work.arguments, sizeof(work.arguments))
    run.cost += work.cost
    if shares == 1 and loop_in(
            work.compute, arguments, &step.loop, &step.data, &step.count, step.operands, step.strides):
        step.code = APPLY
        return 0
    step.compute, step.arguments, step.operands[0] = work.compute, arguments, first.cell
    run.is_long = run.is_long or work.cost >= LONG_STEP
    if not is_small(product_in(work.compute, arguments)):
        for k in range(each.num_inputs):
            hide(run, array_in(inputs[k]))
        for k in range(each.num_outputs):
            hide(run, array_in(outputs[k]))
    if work.kept != NULL:
        run.kept.append(<object>work.kept)
    if each.num_inputs > 1 and run.registers[each.inputs[1]].is_known:
        run.kept.append(pack_once(work.compute, arguments, run.trips))
    if shares > 1:
        run.is_shared = True
        step.arguments = <uint64_t*>run.arena.take(1, sizeof(work.arguments))
        step.compute = share(&run.team, work.compute, arguments, shares, step.arguments)
    return 0


cdef int _retire(Run run, Register* register) except -1:
    """Empty a register after its last read; its memory stays, since the steps use it."""
    if register.value.form != OBJECT or register.is_known or register.is_home:
        return 0
    if Py_REFCNT(array_in(register.value)) == 1:
        run.kept.append(<object>pointer(register.value))
    drop(&run.held, &register.value)
    register.cell = NULL
    return 0
