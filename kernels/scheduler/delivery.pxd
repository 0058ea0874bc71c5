"""Delivery: values go to their consumers, and iterations and frames end (rules 1 to 43).

Nothing recurses, except from a Recv to the nodes represented by the Recv. Delivering only counts, stores and pushes
ready instances; the machine takes them off the queue in turn, so a chain of any length needs no stack.

See docs/design/0003-step-machine.md.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tagloom.kernels.core.frames cimport (
    Deferred, Frame, Iteration, append_iteration, close_frame, count_start, remove_oldest,
)
from tagloom.kernels.core.table cimport (
    AT_ONCE, CONTROL_TRIGGER, DEAD_SILENT, MERGE, RECV, SEND, TRIP_COUNT, Edge, Node, Pending, Table,
)
from tagloom.kernels.core.values cimport EMPTY, Counters, Value, drop, empty, hold, object_value, scalar
from tagloom.kernels.scheduler.gate cimport MemoryGate, admits_iteration, begin_iteration, end_iteration
from tagloom.kernels.scheduler.ready cimport Queue, Ready, push

cdef enum Trouble:  # bits of Machine.trouble, which the caller looks at after each instance
    NO_MEMORY = 1
    NOT_SCALAR = 2  # a predicate or index is an array
    TWO_LIVE = 4  # a Merge had several live inputs to choose from (rule 8)


cdef struct Outcome:
    int64_t predicate  # of a Switch: 0 or 1; of a SwitchN: its index, as it came
    uint32_t fired  # 0 or 1
    uint32_t dead  # 0 or 1


cdef struct Machine:
    Table* table  # of the CompiledPlan, which the StepMachine holds
    Counters* live  # of the process
    Queue queue
    Frame* root  # NULL once the root frame is done
    Value* feeds  # table.num_feeds, owned
    Value* fetched  # table.num_fetches, owned; EMPTY if dead or not yet there
    Outcome* outcomes  # table.num_switches
    Value* outputs  # scratch: table.most_outputs, EMPTY between instances
    uint32_t trouble  # Trouble bits
    uint32_t in_flight  # asynchronous instances
    void* rendezvous  # the RendezvousTable that it shares with the other machines of its step; NULL if it is alone
    uint32_t number  # of this machine among the machines of the rendezvous
    bint awake  # it is in the ring of runnable machines, or running
    MemoryGate* gate  # asked before an iteration begins; NULL without a limit of memory
    bint waits  # the instance just resolved stays outstanding


cdef inline void make_ready(Machine* m, Iteration* it, uint32_t node, bint dead, bint at_once) noexcept nogil:
    """Queue an instance with all its inputs present."""
    cdef Ready ready
    ready.iteration = it
    ready.node = node
    ready.dead = dead
    it.outstanding += 1
    if not push(&m.queue, ready, at_once or dead):
        it.outstanding -= 1
        m.trouble |= NO_MEMORY


cdef inline void arrive(Machine* m, Iteration* it, const Edge* edge, bint dead) noexcept nogil:
    """Count an input of an ordinary node; deadness never makes the node ready early (rule 1)."""
    cdef Pending* pending = &it.pending[edge.place]
    if dead and edge.kind == SEND and edge.flags & DEAD_SILENT:
        return  # it has nothing to say
    pending.dead |= dead
    pending.waiting -= 1
    if pending.waiting == 0:
        make_ready(m, it, edge.node, pending.dead and edge.kind != CONTROL_TRIGGER, edge.flags & AT_ONCE)


cdef inline void fire_merge_if(Machine* m, Iteration* it, const Edge* edge, bint ready, bint dead) noexcept nogil:
    """Make a Merge ready once; its counts then exclude a second time (rule 8)."""
    if ready:
        it.pending[edge.place].waiting = 0
        make_ready(m, it, edge.node, dead, True)


cdef inline void merge_live(Machine* m, Iteration* it, const Edge* edge, Value value) noexcept nogil:
    """Deliver a live input to a Merge: the first input makes the Merge ready if no control input is missing (rule 6).
    """
    cdef Pending* pending = &it.pending[edge.place]
    if pending.waiting == 0:
        return
    hold(m.live, &it.slots[edge.slot], value)
    if pending.waiting & 1:
        pending.waiting -= 1
        fire_merge_if(m, it, edge, pending.waiting == 0, False)


cdef inline void merge_dead(Machine* m, Iteration* it, const Edge* edge) noexcept nogil:
    """Deliver a dead input to a Merge: the Merge is dead when all inputs are (rule 7), or when an Enter is (rule 11).
    """
    cdef Pending* pending = &it.pending[edge.place]
    cdef uint32_t inputs = m.table.nodes[edge.node].num_inputs
    if pending.dead < inputs:
        pending.dead = inputs if edge.from_enter else pending.dead + 1
    fire_merge_if(m, it, edge, pending.waiting == 1 and pending.dead == inputs, True)


cdef inline void merge_control(Machine* m, Iteration* it, const Edge* edge) noexcept nogil:
    """Count a control input of a Merge; dead control inputs count as well (rule 7)."""
    cdef Pending* pending = &it.pending[edge.place]
    cdef bint all_dead = pending.dead == m.table.nodes[edge.node].num_inputs
    pending.waiting -= 2
    fire_merge_if(m, it, edge, pending.waiting == 0 or (pending.waiting == 1 and all_dead), pending.waiting == 1)


cdef inline void deliver(Machine* m, Iteration* it, const Edge* edge, Value value) noexcept nogil:
    """Bring a value (EMPTY: a dead token) over a data edge into an iteration."""
    if edge.kind == MERGE:
        if value.form != EMPTY:
            merge_live(m, it, edge, value)
        else:
            merge_dead(m, it, edge)
        return
    if value.form != EMPTY:
        hold(m.live, &it.slots[edge.slot], value)
    arrive(m, it, edge, value.form == EMPTY)


cdef inline void deliver_control(Machine* m, Iteration* it, const Edge* edge, bint dead) noexcept nogil:
    """Bring a signal over a control edge into an iteration; a dead-silent Recv is dead at once, with its leader."""
    if edge.kind == MERGE:
        merge_control(m, it, edge)
    elif dead and edge.kind == RECV and edge.flags & DEAD_SILENT:
        emit_dead(m, it, &m.table.nodes[edge.node])
    else:
        arrive(m, it, edge, dead)


cdef inline void emit_controls(Machine* m, Iteration* it, const Node* node, bint dead) noexcept nogil:
    """Signal all control successors of a node."""
    cdef uint32_t e
    for e in range(node.control, node.control_end):
        deliver_control(m, it, &m.table.controls[e], dead)


cdef inline void emit_output(Machine* m, Iteration* it, const Node* node, uint32_t output, Value value) noexcept nogil:
    """Bring an output of a node to its consumers; EMPTY is dead for each of them (rule 3)."""
    cdef uint32_t e
    cdef const uint32_t* starts = &m.table.starts[node.output + output]
    for e in range(starts[0], starts[1]):
        deliver(m, it, &m.table.edges[e], value)


cdef inline void emit(Machine* m, Iteration* it, const Node* node, Value value, bint dead) noexcept nogil:
    """Deliver the single output of a node and signal its control successors."""
    emit_output(m, it, node, 0, value)
    emit_controls(m, it, node, dead)


cdef inline void emit_dead(Machine* m, Iteration* it, const Node* node) noexcept nogil:
    """Send no value on every output and a dead signal on every control output (rule 2)."""
    cdef uint32_t o
    for o in range(node.num_outputs):
        emit_output(m, it, node, o, empty())
    emit_controls(m, it, node, True)


cdef inline void emit_outputs(Machine* m, Iteration* it, const Node* node) noexcept nogil:
    """Deliver `m.outputs` from a live node and empty them; slots left EMPTY are dead (rule 3)."""
    cdef uint32_t o
    for o in range(node.num_outputs):
        emit_output(m, it, node, o, m.outputs[o])
    for o in range(node.num_outputs):  # after all are delivered: consumers hold references of their own
        drop(m.live, &m.outputs[o])
    emit_controls(m, it, node, False)


cdef inline void drop_inputs(Machine* m, Iteration* it, const Node* node) noexcept nogil:
    """Release the inputs of a finished instance (rule 42)."""
    cdef uint32_t i
    for i in range(node.num_inputs):
        drop(m.live, &it.slots[node.slot + i])


cdef inline void start_iteration(Machine* m, Frame* frame) noexcept nogil:
    """Start the next iteration: deferred values first, then the invariants known so far (rule 32)."""
    cdef Iteration* it = append_iteration(m.live, frame)
    cdef Deferred* deferred
    cdef Deferred* kept
    cdef uint32_t i
    if it == NULL:
        m.trouble |= NO_MEMORY
        return
    if m.gate != NULL:
        begin_iteration(m.gate, it)
    for i in range(frame.num_deferred):
        deferred = &frame.deferred[i]
        emit(m, it, &m.table.nodes[deferred.node], deferred.value, False)
        drop(m.live, &deferred.value)
    frame.num_deferred = 0
    count_start(frame)
    frame.type.counts.queued += m.queue.length
    for i in range(frame.num_arrived):
        kept = &frame.invariants[i]
        emit(m, it, &m.table.nodes[kept.node], kept.value, kept.dead)


cdef inline void report_finals(Machine* m, Frame* frame) noexcept nogil:
    """Pass the values collected by a frame to its finals, which then run in the parent iteration."""
    cdef uint32_t i
    cdef Node* node
    cdef Value value
    for i in range(frame.type.num_finals):
        node = &m.table.nodes[frame.type.finals[i]]
        value = empty()
        if node.kind == TRIP_COUNT:
            value = scalar(<uint64_t>(frame.started - 1))
        elif frame.series[node.index] != NULL:
            value = object_value(frame.series[node.index])
        if frame.was_live:
            hold(m.live, &frame.parent.slots[node.slot], value)
        make_ready(m, frame.parent, frame.type.finals[i], not frame.was_live, True)


cdef inline void report_dead_exits(Machine* m, Frame* frame) noexcept nogil:
    """Send the Exits dead in the last iteration (rules 13 and 14)."""
    cdef uint32_t i
    for i in range(frame.type.num_exits):
        if frame.exits[i] == frame.started - 1:
            emit_dead(m, frame.parent, &m.table.nodes[frame.type.exits[i]])


cdef inline void end_frame(Machine* m, Frame* frame) noexcept nogil:
    """Delete a finished frame, after the reports to the parent iteration (rule 28)."""
    cdef Iteration* parent = frame.parent
    if parent == NULL:
        m.root = NULL
    else:
        report_finals(m, frame)
        report_dead_exits(m, frame)
        parent.children[frame.type.rank] = NULL
        parent.num_children -= 1
    close_frame(m.live, frame)


cdef inline bint is_done(const Iteration* it) noexcept nogil:
    """Return True if the oldest iteration of a frame is done (rule 26)."""
    return it.outstanding == 0 and it.num_children == 0 and it.frame.enters_pending == 0


cdef inline void settle(Machine* m, Frame* frame) noexcept nogil:
    """End all finished iterations at the old end of a frame, then the frame, then look at its parent."""
    cdef Iteration* parent
    while True:
        # Iterations end in the order in which they began, even if younger ones are done earlier: so the chain is the
        # window. Each end makes room for another iteration, which then begins with the deferred values.
        while frame.oldest != NULL and is_done(frame.oldest):
            if m.gate != NULL:
                end_iteration(m.gate, frame.oldest)
            remove_oldest(m.live, frame)
            if frame.num_deferred != 0 and (m.gate == NULL or admits_iteration(m.gate, frame)):
                start_iteration(m, frame)
        if frame.oldest != NULL or m.trouble & NO_MEMORY:
            return
        parent = frame.parent
        end_frame(m, frame)
        if parent == NULL:
            return
        frame = parent.frame  # whose iteration has a child less, and may be done with that


cdef inline void complete(Machine* m, Iteration* it) noexcept nogil:
    """Count an instance as finished; nothing of the instance may be touched afterwards."""
    it.outstanding -= 1
    if it.outstanding == 0 and it == it.frame.oldest:
        settle(m, it.frame)
