"""Reports of frames and iterations to users; and the release of all frames at once."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from tagloom.base.tags import DEAD, ROOT_PATH, frame_path, instance_name

from tagloom.kernels.core.convert cimport box
from tagloom.kernels.core.frames cimport Frame, Iteration, close_frame, remove_oldest
from tagloom.kernels.core.table cimport SWITCH, SWITCH_N, Node, input_type
from tagloom.kernels.core.values cimport EMPTY, OBJECT, SCALAR, Py_INCREF, Value
from tagloom.kernels.scheduler.delivery cimport Machine, Outcome
from tagloom.kernels.scheduler.gate cimport end_iteration
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.rendezvous cimport Endpoint, RendezvousTable, next_end
from tagloom.kernels.scheduler.series cimport Series


cdef str frame_path_of(Frame* frame, CompiledPlan compiled):
    """Return the path of a frame; kept in the frame, since all its instances ask for the same."""
    if frame.path == NULL:
        path = ROOT_PATH
        if frame.parent != NULL:
            name = compiled.plan.frames[frame.type - compiled.table.frames].name
            path = frame_path(frame_path_of(frame.parent.frame, compiled), frame.parent.number, name)
        frame.path = <PyObject*>path
        Py_INCREF(frame.path)  # released by close_frame
    return <str><PyObject*>frame.path


cdef str tag_of(Iteration* it, uint32_t node, CompiledPlan compiled):
    """Return ``node@frame/iteration``."""
    return instance_name(compiled.plan.nodes[node].name, frame_path_of(it.frame, compiled), it.number)


cdef list input_shapes(Machine* m, Iteration* it, uint32_t number):
    """Return the shapes of the inputs held by an instance; None for a value without a shape."""
    cdef Node* node = &m.table.nodes[number]
    return [_shape(it.slots[node.slot + i]) for i in range(node.num_inputs)]


cdef list fetched(Machine* m):
    """Return the fetched values: arrays, or DEAD where no value came."""
    return [_fetched(m, i) for i in range(m.table.num_fetches)]


cdef object _fetched(Machine* m, uint32_t i):
    if m.fetched[i].form == EMPTY:
        return DEAD
    return box(m.fetched[i], &m.table.types[m.table.fetch_types[i]])


cdef dict switch_outcomes(Machine* m):
    """Return the outcomes of the fired Switches of the root frame: predicate or index, None if dead, by node."""
    return {i: _outcome(m, i) for i in range(m.table.num_nodes) if _has_outcome(m, i)}


cdef bint _has_outcome(Machine* m, uint32_t i) noexcept:
    cdef Node* node = &m.table.nodes[i]
    is_switch = node.kind == SWITCH or node.kind == SWITCH_N
    return is_switch and node.index >= 0 and m.outcomes[node.index].fired


cdef object _outcome(Machine* m, uint32_t i):
    cdef Outcome outcome = m.outcomes[m.table.nodes[i].index]
    if outcome.dead:
        return None
    return bool(outcome.predicate) if m.table.nodes[i].kind == SWITCH else outcome.predicate


cdef object _shape(Value value):
    """Return the shape of a value, None for a value without a shape."""
    if value.form == OBJECT:
        return getattr(<object><PyObject*>value.bits, "shape", None)
    return () if value.form == SCALAR else None


cdef list dump_lines(Machine* m, CompiledPlan compiled, list active):
    """Return the state of every iteration as text; `active` lists (node, address of its iteration)."""
    lines = []
    busy = {}
    for node, address in active + _queued(m):
        busy.setdefault(address, []).append(compiled.plan.nodes[node].name)
    if m.root != NULL:
        _dump_frame(m, m.root, compiled, busy, lines)
    return lines


cdef list _queued(Machine* m):
    """Return (node, address of its iteration) of all ready instances."""
    cdef Ready ready
    cdef uint64_t i
    found = []
    for i in range(m.queue.length):
        ready = m.queue.ring[(m.queue.head + i) & m.queue.mask]
        found.append((ready.node, <uint64_t>ready.iteration))
    for i in range(m.queue.height):
        found.append((m.queue.stack[i].node, <uint64_t>m.queue.stack[i].iteration))
    return found


cdef int _dump_frame(Machine* m, Frame* frame, CompiledPlan compiled, dict busy, list lines) except -1:
    """Add the lines of a frame: its iterations, then the frames inside each."""
    cdef Iteration* it = frame.oldest
    cdef uint32_t i
    while it != NULL:
        _dump_iteration(m, it, compiled, busy, lines)
        for i in range(frame.type.num_children):
            if it.children[i] != NULL:
                _dump_frame(m, it.children[i], compiled, busy, lines)
        it = it.next
    return 0


cdef int _dump_iteration(Machine* m, Iteration* it, CompiledPlan compiled, dict busy, list lines) except -1:
    """Add the lines of an iteration."""
    cdef Node* node
    cdef uint32_t i
    tag = f"{frame_path_of(it.frame, compiled)}/{it.number}"
    size = 0
    for i in range(m.table.num_nodes):
        node = &m.table.nodes[i]
        if &m.table.frames[node.frame] != it.frame.type:
            continue
        held = [_held(m, node, k, it.slots[node.slot + <uint32_t>k]) for k in range(node.num_inputs)]
        size += sum([nbytes for _, nbytes in held])
        if 0 < it.pending[node.place].waiting and _has_begun(it, node):
            inputs = ", ".join([text for text, _ in held])
            lines.append(f"{tag}: {compiled.plan.nodes[i].name} waits, holding ({inputs})")
    lines.extend([f"{tag}: {name} is active" for name in busy.get(<uint64_t>it, ())])
    lines.append(f"{tag}: {size} bytes held")
    return 0


cdef bint _has_begun(Iteration* it, Node* node):
    """Return True if an input has arrived at a node."""
    return it.pending[node.place].waiting != it.frame.type.template[node.place].waiting or it.pending[node.place].dead


cdef tuple _held(Machine* m, Node* node, uint32_t i, Value value):
    """Return text and bytes of an input slot."""
    if value.form == EMPTY:
        return "-", 0
    dtype = input_type(m.table, node, i).descr
    if value.form == SCALAR:
        return f"{<object>dtype}[]", input_type(m.table, node, i).size
    held = <object><PyObject*>value.bits
    if dtype == NULL or not hasattr(held, "shape"):  # a handle; or a series, which has the dtype of its elements
        return type(held).__name__, 0
    return f"{<object>dtype}{list(held.shape)}", held.nbytes


cdef str text_of(Value value):
    """Return the text of a message's value: dtype and shape of an array, "a scalar" for an unboxed element."""
    if value.form != OBJECT:
        return "a scalar"
    held = <object><PyObject*>value.bits
    return f"{held.dtype}{list(held.shape)}" if hasattr(held, "shape") else type(held).__name__


cdef int64_t count_iterations(Frame* frame) noexcept:
    """Return how many iterations of all loops inside a frame are alive; 0 for NULL."""
    cdef int64_t count = 0
    cdef uint32_t i
    cdef Iteration* it = NULL if frame == NULL else frame.oldest
    while it != NULL:
        for i in range(frame.type.num_children):
            if it.children[i] != NULL:
                count += it.children[i].alive + count_iterations(it.children[i])
        it = it.next
    return count


cdef object held_bytes(Machine* m):
    """Return the bytes of all arrays held by instances, loops and fetches, each array once."""
    found = {}
    for i in range(m.table.num_fetches):
        _hold(m.fetched[i], found)
    if m.root != NULL:
        _hold_frame(m.root, found)
    if m.rendezvous != NULL:
        _hold_sent(m, <RendezvousTable*>m.rendezvous, found)
    return sum([getattr(array, "nbytes", 0) for array in found.values()])


cdef int _hold_frame(Frame* frame, dict found) except -1:
    """Add the values held by a frame, its iterations and the frames inside them."""
    cdef Iteration* it = frame.oldest
    cdef uint32_t i
    for i in range(frame.num_deferred):
        _hold(frame.deferred[i].value, found)
    for i in range(frame.num_arrived):
        _hold(frame.invariants[i].value, found)
    for i in range(frame.type.num_series):
        if frame.series[i] != NULL:
            _hold_series(<Series><PyObject*>frame.series[i], found)
    while it != NULL:
        for i in range(frame.type.num_slots):
            _hold(it.slots[i], found)
        for i in range(frame.type.num_children):
            if it.children[i] != NULL:
                _hold_frame(it.children[i], found)
        it = it.next
    return 0


cdef int _hold_sent(Machine* m, const RendezvousTable* rendezvous, dict found) except -1:
    """Add the values sent by a machine and not taken by a Recv."""
    cdef Endpoint* end = next_end(rendezvous, NULL)
    while end != NULL:
        if end.machine == m:
            _hold(end.value, found)
        end = next_end(rendezvous, end)
    return 0


cdef int _hold_series(Series series, dict found) except -1:
    """Add the values held by a series."""
    cdef int64_t i
    if series.parent is not None:
        return _hold_series(series.parent, found)
    for i in range(series.capacity):
        _hold(series.slots[i], found)
    found.update({id(array): array for array in series.arrays if array is not None})
    return 0


cdef int _hold(Value value, dict found) except -1:
    """Add the object of a value, by its address."""
    if value.form != OBJECT:
        return 0
    held = <object><PyObject*>value.bits
    if isinstance(held, Series):
        return _hold_series(held, found)
    found[value.bits] = held
    return 0


cdef int free_frames(Machine* m) except -1:
    """Free the root frame and all its contents."""
    cdef Frame* root = m.root
    m.root = NULL
    if m.gate != NULL:
        m.gate.held = NULL
    if root != NULL:
        _free_frame(m, root)
    return 0


cdef void _free_frame(Machine* m, Frame* frame) noexcept:
    """Free a frame after the frames in its iterations."""
    cdef uint32_t i
    cdef Frame* child
    while frame.oldest != NULL:
        for i in range(frame.type.num_children):
            child = frame.oldest.children[i]
            frame.oldest.children[i] = NULL
            if child != NULL:
                _free_frame(m, child)
        if m.gate != NULL:
            end_iteration(m.gate, frame.oldest)
        remove_oldest(m.live, frame)
    close_frame(m.live, frame)
