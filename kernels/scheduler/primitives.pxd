"""The primitives: nodes executed by the machine itself, without a kernel and without Python.

See docs/design/0003-step-machine.md.
"""

from libc.stdint cimport int64_t, uint32_t

from tagloom.kernels.core.convert cimport as_integer
from tagloom.kernels.core.frames cimport (
    LEFT, Deferred, Frame, Iteration, append_iteration, close_frame, count_start, open_frame,
)
from tagloom.kernels.core.table cimport (
    CONST, CONTROL_TRIGGER, DEAD_SILENT, ENTER, EXIT, FEED, FETCH, IDENTITY, INVARIANT, LOOP_COND, MERGE, NEXT_ITERATION, RECV,
    SEND, SWITCH, SWITCH_N, TRIP_COUNT, FrameType, Node, input_type,
)
from tagloom.kernels.core.values cimport EMPTY, OBJECT, SCALAR, Value, drop, empty, hold, scalar, take
from tagloom.kernels.scheduler.delivery cimport (
    NOT_SCALAR, NO_MEMORY, TWO_LIVE, Machine, complete, drop_inputs, emit, emit_controls, emit_dead, emit_output,
    emit_outputs, settle, start_iteration,
)
from tagloom.kernels.scheduler.gate cimport admits_iteration, begin_iteration, hold_frame
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.rendezvous cimport ARRIVED, receive, send


cdef inline void forward(Machine* m, Iteration* it, Iteration* target, const Node* node) noexcept nogil:
    """Pass the only input on as the only output, into iteration `target`."""
    m.outputs[0] = take(&it.slots[node.slot])
    emit_outputs(m, target, node)


cdef inline void note_outcome(Machine* m, const Node* node, int64_t predicate, bint dead) noexcept nogil:
    """Record the outcome of a Switch of the root frame."""
    if node.index >= 0:
        m.outcomes[node.index].predicate = predicate
        m.outcomes[node.index].fired = True
        m.outcomes[node.index].dead = dead


cdef inline void fire_switch(Machine* m, Iteration* it, const Node* node) noexcept nogil:
    """Send the data to the chosen output (out of range: the last) and leave the others empty (rules 4 and 5)."""
    cdef int64_t chosen
    if it.slots[node.slot + 1].form != SCALAR:
        m.trouble |= NOT_SCALAR
        return
    chosen = as_integer(it.slots[node.slot + 1], input_type(m.table, node, 1))
    note_outcome(m, node, chosen, False)
    if not 0 <= chosen < node.num_outputs:
        chosen = node.num_outputs - 1
    m.outputs[chosen] = take(&it.slots[node.slot])
    drop_inputs(m, it, node)
    if chosen == 1 and node.flags & DEAD_SILENT:
        emit_output(m, it, node, 1, m.outputs[1])
        drop(m.live, &m.outputs[1])
        emit_controls(m, it, node, False)
    else:
        emit_outputs(m, it, node)


cdef inline void fire_merge(Machine* m, Iteration* it, const Node* node) noexcept nogil:
    """Pass on the live input of the lowest number, and this number (rules 8 and 9)."""
    cdef uint32_t i
    cdef uint32_t chosen = node.num_inputs
    for i in range(node.num_inputs):
        if it.slots[node.slot + i].form == EMPTY:
            continue
        if chosen == node.num_inputs:
            chosen = i
        else:
            m.trouble |= TWO_LIVE
    m.outputs[0] = take(&it.slots[node.slot + chosen])
    if node.num_outputs > 1:
        m.outputs[1] = scalar(chosen)
    drop_inputs(m, it, node)
    emit_outputs(m, it, node)


cdef inline Frame* child_frame(Machine* m, Iteration* it, const Node* node) noexcept nogil:
    """Find or create the child frame of an Enter in this iteration, with its iteration 0 (rules 16 and 23)."""
    cdef FrameType* type = &m.table.frames[node.child]
    cdef Frame* frame = it.children[type.rank]
    if frame != NULL:
        return frame
    frame = open_frame(m.live, type, it)
    if frame == NULL:
        return NULL
    if append_iteration(m.live, frame) == NULL:
        close_frame(m.live, frame)
        return NULL
    if m.gate != NULL:
        frame.window = 0
        begin_iteration(m.gate, frame.oldest)
    it.children[type.rank] = frame
    it.num_children += 1
    return frame


cdef inline void enter_invariant(
        Machine* m, Frame* frame, const Node* node, uint32_t number, Value value, bint dead) noexcept nogil:
    """Keep an invariant for later iterations and deliver the value to all existing iterations (rules 29 and 30)."""
    cdef Deferred* kept = &frame.invariants[frame.num_arrived]
    cdef Iteration* each = frame.oldest
    hold(m.live, &kept.value, value)
    kept.node = number
    kept.dead = dead
    frame.num_arrived += 1
    while each != NULL:
        emit(m, each, node, value, dead)
        each = each.next


cdef inline void fire_enter(Machine* m, Iteration* it, const Node* node, uint32_t number, bint dead) noexcept nogil:
    """Bring a value, live or dead, into the child frame: into iteration 0, or an invariant into all iterations."""
    cdef Frame* frame = child_frame(m, it, node)
    cdef Value value
    if frame == NULL:
        m.trouble |= NO_MEMORY
        return
    value = empty() if dead else it.slots[node.slot]
    if node.flags & INVARIANT:
        enter_invariant(m, frame, node, number, value, dead)
    else:
        emit(m, frame.oldest, node, value, dead)
    drop_inputs(m, it, node)
    frame.enters_pending -= 1
    settle(m, frame)


cdef inline void fire_exit(Machine* m, Iteration* it, const Node* node, bint dead) noexcept nogil:
    """Send a live value to the parent at once, only once in the frame's life; remember a dead value (rules 13 and 15).
    """
    cdef Frame* frame = it.frame
    if frame.exits[node.index] == LEFT:
        drop_inputs(m, it, node)
    elif dead:
        frame.exits[node.index] = max(frame.exits[node.index], it.number)
        drop_inputs(m, it, node)
    else:
        frame.exits[node.index] = LEFT
        forward(m, it, frame.parent, node)


cdef inline void fire_next(Machine* m, Iteration* it, const Node* node, uint32_t number) noexcept nogil:
    """Pass a value to the next iteration, which starts if the window has room, else wait for room (rules 32 and 33)."""
    cdef Frame* frame = it.frame
    cdef Deferred* deferred
    it.advanced += 1
    if it.advanced == frame.type.num_nexts:
        frame.type.last[node.index] += 1
    if it.next == NULL and frame.alive >= frame.window and (m.gate == NULL or not admits_iteration(m.gate, frame)):
        if m.gate != NULL:
            hold_frame(m.gate, frame)
        else:
            frame.type.counts.held_back += frame.num_deferred == 0
        deferred = &frame.deferred[frame.num_deferred]
        deferred.value = take(&it.slots[node.slot])
        deferred.node = number
        frame.num_deferred += 1
        return
    if it.next == NULL:
        start_iteration(m, frame)
    if it.next != NULL:
        forward(m, it, it.next, node)


cdef inline void fire_loop_cond(Machine* m, Iteration* it, const Node* node) noexcept nogil:
    """Pass the predicate on and mark the loop as live."""
    if it.slots[node.slot].form != SCALAR:
        m.trouble |= NOT_SCALAR
        return
    if it.frame.was_live == 0:
        it.frame.was_live = 1
        it.frame.type.counts.runs += 1
        count_start(it.frame)
    forward(m, it, it, node)


cdef inline void fire_fetch(Machine* m, Iteration* it, const Node* node, bint dead) noexcept nogil:
    """Keep a value for the caller; a dead value is kept as such (rule 20)."""
    drop(m.live, &m.fetched[node.index])
    if not dead:
        m.fetched[node.index] = take(&it.slots[node.slot])
    drop_inputs(m, it, node)
    emit_controls(m, it, node, dead)


cdef inline bint fire_recv(Machine* m, Iteration* it, const Node* node, uint32_t number) noexcept nogil:
    """Wait for a message, or forward the value received; return False for an array, which is still to be copied.
    """
    if it.pending[node.place].dead != ARRIVED:
        receive(m, it, number)
    elif it.slots[node.slot].form == OBJECT:
        return False
    else:
        forward(m, it, it, node)
    return True


cdef inline void fire_dead(Machine* m, Iteration* it, const Node* node, uint32_t number) noexcept nogil:
    """Complete a dead instance (rule 2); NextIteration sends nothing (rule 12), Exit waits (rule 13)."""
    if node.kind == ENTER:
        fire_enter(m, it, node, number, True)
    elif node.kind == EXIT:
        fire_exit(m, it, node, True)
    elif node.kind == FETCH:
        fire_fetch(m, it, node, True)
    elif node.kind == SEND:
        send(m, it, number, True)
    elif node.kind == RECV and it.pending[node.place].dead != ARRIVED:
        receive(m, it, number)
    else:
        drop_inputs(m, it, node)
        if node.kind == SWITCH or node.kind == SWITCH_N:
            note_outcome(m, node, 0, True)
        if node.kind != NEXT_ITERATION:
            emit_dead(m, it, node)


cdef inline bint fire_live(Machine* m, Iteration* it, const Node* node, uint32_t number) noexcept nogil:
    """Execute a live primitive; return False if the node is not a primitive."""
    if node.kind == MERGE:
        fire_merge(m, it, node)
    elif node.kind == SWITCH or node.kind == SWITCH_N:
        fire_switch(m, it, node)
    elif node.kind == IDENTITY or node.kind == TRIP_COUNT:
        forward(m, it, it, node)
    elif node.kind == NEXT_ITERATION:
        fire_next(m, it, node, number)
    elif node.kind == LOOP_COND:
        fire_loop_cond(m, it, node)
    elif node.kind == EXIT:
        fire_exit(m, it, node, False)
    elif node.kind == ENTER:
        fire_enter(m, it, node, number, False)
    elif node.kind == CONST:
        emit(m, it, node, m.table.constants[node.index], False)
    elif node.kind == FEED:
        emit(m, it, node, m.feeds[node.index], False)
    elif node.kind == FETCH:
        fire_fetch(m, it, node, False)
    elif node.kind == CONTROL_TRIGGER:
        emit_controls(m, it, node, False)
    elif node.kind == SEND:
        send(m, it, number, False)
    elif node.kind == RECV:
        return fire_recv(m, it, node, number)
    else:
        return False
    return True


cdef inline bint resolve(Machine* m, Ready ready) noexcept nogil:
    """Fire an instance without Python; return False, with nothing done, if the instance needs Python.

    With NOT_SCALAR or NO_MEMORY in `m.trouble` afterwards the instance is still outstanding.
    """
    cdef const Node* node = &m.table.nodes[ready.node]
    if ready.dead:
        fire_dead(m, ready.iteration, node, ready.node)
    elif not fire_live(m, ready.iteration, node, ready.node):
        return False
    if m.waits:
        m.waits = False
    elif not m.trouble & (NO_MEMORY | NOT_SCALAR):
        complete(m, ready.iteration)
    return True
