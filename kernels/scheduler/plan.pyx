"""The compiled form of a plan: C tables shared by all of its steps, and the pools of its frames.

See docs/design/0003-step-machine.md.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

import logging

import numpy as np

from tagloom.base.settings import DEFAULTS
from tagloom.base.tags import name_hash
from tagloom.kernels.core.table import Kind as Kinds
from tagloom.kernels.scheduler.check_plan import check, out_frame

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.convert cimport accept
from tagloom.kernels.core.cost cimport LONG
from tagloom.kernels.core.table cimport (
    AT_ONCE, CONST, DEAD_SILENT, DETACHED, ENTER, EXIT, FETCH, INVARIANT, KERNEL, LAST, HOST_BACKED, MERGE,
    NEXT_ITERATION, RECV, SERIES_EXIT, SERIES_READ, STATEFUL, SWAPPABLE, SWITCH, SWITCH_N, TRIP_COUNT, Edge, FrameType,
    Link, LoopCounts, Node, Pending, Table, Type, describe_type, output_type,
)
from tagloom.kernels.core.values cimport Value, drop
from tagloom.kernels.cpu.choosing cimport choose_kernel


_logger = logging.getLogger("tagloom")

cdef enum:
    MANY = 1000  # iterations of a loop that would have been much faster as a native program

cdef double GUESS = 10  # nanoseconds that a Python kernel takes for a byte, before that is measured


@cython.no_gc_clear  # machines use the tables until their own end
cdef class CompiledPlan:
    """The tables of a plan.

    Parameters
    ----------
    plan : Plan
        Nodes, frames and edges; see ``tagloom.compile.plan.plan``.
    settings : Settings, optional
        Which fast paths its steps take: ``native``, ``loops``, ``reuse``.

    Raises
    ------
    ValueError
        If the plan is not well formed; the text names the node.
    """

    def __init__(self, plan, settings=DEFAULTS):
        check(plan)
        self.plan = plan
        self.arena = Arena()
        self.dtypes, self.kernels, self.told, self._type_index = [], [], set(), {}
        _measure(self)
        _build_outputs(self)
        _build_frames(self)
        for i in range(self.table.num_nodes):
            _build_node(self, i)
        _build_types(self)
        _build_templates(self)
        _build_edges(self)
        _build_constants(self)
        _build_kernels(self, settings.switches)
        self.programs = [each for each in self.kernels if hasattr(each, "forget_counts")]
        self.table.reuse = settings.switches.reuse
        self.table.at_once = min(<double>LONG, 1e9 * settings.offload_seconds)

    def __dealloc__(self):
        # A plan that was refused halfway has the counts already, but not the counted objects.
        for i in range(self.table.num_constants if self.table.constants != NULL else 0):
            drop(&self.held, &self.table.constants[i])
        for i in range(self.table.num_frames if self.table.frames != NULL else 0):
            _free_pool(self.table.frames[i].free_frames)
            _free_pool(self.table.frames[i].free_iterations)


    def loop_counts(self):
        """Return the counters of each frame since the last step which ran alone.

        Returns
        -------
        list of dict
            The fields of LoopCounts; ``last``, how often each NextIteration was its iteration's last; ``native_runs``
            and ``native_starts``, how often the loop ran as a native program, and the iterations begun by these runs;
            ``not_native``, why the last run was not native, or None; ``called``, the operations whose Python kernels
            its program called; ``untraced``, for each of these why the kernel did not become steps; ``traced``, the
            operations whose kernels did.
        """
        native = {name: counts for program in self.programs for name, counts in program.counts.items()}
        names = [frame.name for frame in self.plan.frames]
        notes = {
            each.program.name: {"not_native": each.reason, **_kernels_of(each)} for each in self.programs
        }
        unknown = {"not_native": None, **_kernels_of(None)}
        return [
            _counts(&self.table.frames[i], native.get(names[i], (0, 0)), notes.get(names[i], unknown))
            for i in range(self.table.num_frames)
        ]

    def clusters(self):
        """Return for each cluster its NativeProgram, its runs since the last step which ran alone, and the reason if
        the last run was left to the step machine, or None.
        """
        programs = [each for each in self.programs if each.program.is_cluster]
        return [(each.program, each.runs, each.reason) for each in programs]

    cdef int join(self) except -1:
        """Count a step in; if the step is alone, all loops are counted anew."""
        cdef FrameType* frame
        cdef uint32_t i
        self.running += 1
        for i in range(self.table.num_frames if self.running == 1 else 0):
            frame = &self.table.frames[i]
            memset(&frame.counts, 0, sizeof(LoopCounts))
            memset(frame.last, 0, frame.num_nexts * sizeof(int64_t))
        for program in self.programs if self.running == 1 else ():
            program.forget_counts()
        return 0


    cdef int leave(self) except -1:
        """Count a step out; log, once for each loop, why many iterations ran on the step machine."""
        cdef uint32_t i
        self.running -= 1
        for i in range(1, self.table.num_frames):
            if self.table.frames[i].counts.starts > MANY and i not in self.told:
                self.told.add(i)
                reason = self._not_native(i)
                if reason is not None:
                    _logger.info(
                        "loop %s: %d iterations on the step machine, because %s",
                        self.plan.frames[i].name, self.table.frames[i].counts.starts, reason)
        return 0

    def _not_native(self, frame):
        """Return why a loop did not run natively: the reason of the compiler or of the loop's program; None if unknown.
        """
        for program in self.programs:
            if program.program.name == self.plan.frames[frame].name and program.reason is not None:
                return program.reason
        tests = [node for node in self.plan.nodes if node.kind == Kinds.LOOP_COND and node.frame == frame]
        return next((node.origin.not_native for node in tests if node.origin is not None), None)


cdef dict _kernels_of(program):
    """Return the operations whose Python kernels a program calls, why it does, and those whose kernels are steps."""
    called = getattr(program, "called", ())
    reasons = getattr(program, "untraced", {})
    return {
        "called": called,
        "untraced": tuple([reasons.get(name, "") for name in called]),
        "traced": getattr(program, "traced", ()),
    }


cdef dict _counts(const FrameType* frame, tuple native, dict notes):
    """Return the counters of a frame, with the native runs of its loop, the iterations begun in them, the reason why
    the loop did not run natively, and notes on its Python kernels.
    """
    last = [frame.last[i] for i in range(frame.num_nexts)]
    found = {"last": last, "native_runs": native[0], "native_starts": native[1]}
    return {**frame.counts, **found, **notes}


cdef void _free_pool(Link* block) noexcept:
    """Free a chain of pooled blocks."""
    cdef Link* following
    while block != NULL:
        following = block.next
        free(block)
        block = following


cdef int _measure(CompiledPlan self) except -1:
    """Count the parts of the plan and allocate the arrays of nodes, roots and frames."""
    cdef Table* table = &self.table
    plan = self.plan
    table.nodes = <Node*>self.arena.take(len(plan.nodes), sizeof(Node))
    table.roots = <uint32_t*>self.arena.take(len(plan.nodes), sizeof(uint32_t))
    table.frames = <FrameType*>self.arena.take(len(plan.frames), sizeof(FrameType))
    table.num_nodes = len(plan.nodes)
    table.num_frames = len(plan.frames)
    table.num_feeds = plan.num_feeds
    table.num_fetches = plan.num_fetches
    table.most_inputs = max([1] + [n.num_inputs for n in plan.nodes])
    table.most_outputs = max([1] + [len(n.outputs) for n in plan.nodes])
    return 0


cdef int _type(CompiledPlan self, dtype) except -1:
    """Return the type index of a dtype, or of None."""
    if dtype not in self._type_index:
        self._type_index[dtype] = len(self.dtypes)
        self.dtypes.append(dtype)
    return self._type_index[dtype]


cdef int _build_outputs(CompiledPlan self) except -1:
    """Number the outputs of all nodes and set their types."""
    cdef Table* table = &self.table
    cdef uint32_t at = 0
    table.output_types = <uint16_t*>self.arena.take(sum([len(n.outputs) for n in self.plan.nodes]), sizeof(uint16_t))
    for i, node in enumerate(self.plan.nodes):
        table.nodes[i].output = at
        table.nodes[i].num_outputs = len(node.outputs)
        for dtype in node.outputs:
            table.output_types[at] = _type(self, dtype)
            at += 1
    return 0


cdef int _build_frames(CompiledPlan self) except -1:
    """Describe the frames, except for the fields depending on their nodes."""
    cdef FrameType* frame
    for i, source in enumerate(self.plan.frames):
        frame = &self.table.frames[i]
        frame.name_hash = name_hash(source.name)
        frame.window = min(source.parallel_iterations, 0xFFFFFFFF)
        frame.num_enters = source.num_enters
        frame.num_series = source.num_series
        frame.num_finals = len(source.finals)
        frame.finals = <uint32_t*>self.arena.take(len(source.finals), sizeof(uint32_t))
        for k, final in enumerate(source.finals):
            frame.finals[k] = final
        if i > 0:
            frame.parent = source.parent
            frame.rank = self.table.frames[source.parent].num_children
            self.table.frames[source.parent].num_children += 1
    return 0


cdef int _build_node(CompiledPlan self, uint32_t i) except -1:
    """Fill in node `i` and assign its places in the iterations of its frame."""
    cdef Node* node = &self.table.nodes[i]
    source = self.plan.nodes[i]
    node.kind = source.kind
    node.name = <PyObject*>source.name
    node.index = source.index
    node.child = source.child if node.kind == ENTER else source.frame
    is_final = node.kind == SERIES_EXIT or node.kind == TRIP_COUNT
    node.frame = out_frame(self.plan, source) if is_final else source.frame
    node.num_inputs = 1 if is_final or node.kind == RECV else source.num_inputs
    node.flags = _flags(source)
    cdef FrameType* frame = &self.table.frames[node.frame]
    node.place = frame.num_nodes
    node.slot = frame.num_slots
    frame.num_nodes += 1
    frame.num_slots += node.num_inputs
    frame.backward = frame.backward or node.kind == SERIES_READ
    _rank(self, node, frame)
    if source.num_inputs + source.num_controls == 0:
        self.table.roots[self.table.num_roots] = i
        self.table.num_roots += 1
    return 0


cdef int _flags(source) except -1:
    """Return the NodeFlag bits of a node of the plan."""
    cdef int flags = 0 if source.kind == Kinds.KERNEL else AT_ONCE
    if source.is_constant and source.kind == Kinds.ENTER:
        flags |= INVARIANT
    if source.is_last:
        flags |= LAST
    if source.is_swappable:
        flags |= SWAPPABLE
    if source.is_host_backed:
        flags |= HOST_BACKED
    if source.dead_silent:
        flags |= DEAD_SILENT
    if source.detached:
        flags |= DETACHED
    return flags | (STATEFUL if source.stateful else 0)


cdef int _rank(CompiledPlan self, Node* node, FrameType* frame) except -1:
    """Count the nodes with places of their own in a frame instance, or in the step."""
    if node.kind == ENTER and node.flags & INVARIANT:
        frame = &self.table.frames[node.child]
        node.index = frame.num_invariants
        frame.num_invariants += 1
    elif node.kind == EXIT:
        node.index = frame.num_exits
        frame.num_exits += 1
    elif node.kind == NEXT_ITERATION:
        node.index = frame.num_nexts
        frame.num_nexts += 1
    elif node.kind == SWITCH or node.kind == SWITCH_N:
        node.index = self.table.num_switches if node.frame == 0 else -1
        self.table.num_switches += node.frame == 0
    elif node.kind == CONST:
        node.index = self.table.num_constants
        self.table.num_constants += 1
    return 0


cdef int _build_types(CompiledPlan self) except -1:
    """Set the type of each input to the type of its source output, and describe the types."""
    cdef Table* table = &self.table
    cdef uint32_t at = 0
    cdef uint32_t i
    table.input_types = <uint16_t*>self.arena.take(sum([table.nodes[i].num_inputs for i in range(table.num_nodes)]), 2)
    for i in range(table.num_nodes):
        table.nodes[i].input = at
        at += table.nodes[i].num_inputs
    for i, node in enumerate(self.plan.nodes):
        if node.kind == Kinds.RECV:
            table.input_types[table.nodes[i].input] = _type(self, node.outputs[0])
        for dtype, output in zip(node.outputs, self.plan.data_edges[i]):
            for consumer, index in output:
                if table.nodes[consumer].kind != SERIES_EXIT and table.nodes[consumer].kind != TRIP_COUNT:
                    table.input_types[table.nodes[consumer].input + <uint32_t>index] = _type(self, dtype)
    _build_feed_types(self)
    _build_fetch_types(self)
    table.types = <Type*>self.arena.take(len(self.dtypes), sizeof(Type))
    for k, dtype in enumerate(self.dtypes):
        describe_type(&table.types[k], dtype)
        table.types[k].any_library = self.plan.has_device_arrays
    return 0


cdef int _build_feed_types(CompiledPlan self) except -1:
    """Note the type of each feed: from its FEED node, else from the plan."""
    cdef uint32_t i
    self.table.feed_types = <uint16_t*>self.arena.take(self.table.num_feeds, sizeof(uint16_t))
    for i, dtype in enumerate(self.plan.feed_dtypes):
        self.table.feed_types[i] = _type(self, dtype)
    for node in self.plan.nodes:
        if node.kind == Kinds.FEED:
            i = node.index
            self.table.feed_types[i] = _type(self, node.outputs[0])
    return 0


cdef int _build_fetch_types(CompiledPlan self) except -1:
    """Note which type each fetch has."""
    cdef Node* node
    cdef uint32_t i
    self.table.fetch_types = <uint16_t*>self.arena.take(self.table.num_fetches, sizeof(uint16_t))
    for i in range(self.table.num_nodes):
        node = &self.table.nodes[i]
        if node.kind == FETCH:
            self.table.fetch_types[node.index] = self.table.input_types[node.input]
    return 0


cdef int _build_templates(CompiledPlan self) except -1:
    """Write the pending counts with which an iteration starts (rules 1 and 6), and list each frame's Exits."""
    cdef FrameType* frame
    cdef Node* node
    cdef Pending* pending
    cdef uint32_t i
    for i in range(self.table.num_frames):
        frame = &self.table.frames[i]
        frame.template = <Pending*>self.arena.take(frame.num_nodes, sizeof(Pending))
        frame.exits = <uint32_t*>self.arena.take(frame.num_exits, sizeof(uint32_t))
        frame.last = <int64_t*>self.arena.take(frame.num_nexts, sizeof(int64_t))
    for i, source in enumerate(self.plan.nodes):
        node = &self.table.nodes[i]
        pending = &self.table.frames[node.frame].template[node.place]
        if node.kind == MERGE:
            pending.waiting = 1 + 2 * source.num_controls
        else:
            pending.waiting = source.num_inputs + source.num_controls
        if node.kind == EXIT:
            self.table.frames[node.frame].exits[node.index] = i
    return 0


cdef int _build_edges(CompiledPlan self) except -1:
    """Lay out the edges, except edges into SERIES_EXIT and TRIP_COUNT, which carry nothing."""
    cdef Table* table = &self.table
    cdef uint32_t at = 0
    cdef uint32_t control = 0
    outputs = [edges for node in self.plan.data_edges for edges in node]
    table.starts = <uint32_t*>self.arena.take(len(outputs) + 1, sizeof(uint32_t))
    table.edges = <Edge*>self.arena.take(sum(map(len, outputs)), sizeof(Edge))
    table.controls = <Edge*>self.arena.take(sum(map(len, self.plan.control_edges)), sizeof(Edge))
    for i in range(table.num_nodes):
        for o, edges in enumerate(self.plan.data_edges[i]):
            table.starts[table.nodes[i].output + <uint32_t>o] = at
            for consumer, index in edges:
                at += _edge(table, &table.edges[at], i, consumer, index)
        table.nodes[i].control = control
        for consumer in self.plan.control_edges[i]:
            control += _edge(table, &table.controls[control], i, consumer, 0)
        table.nodes[i].control_end = control
    table.starts[len(outputs)] = at
    return 0


cdef int _edge(Table* table, Edge* edge, uint32_t producer, uint32_t consumer, uint32_t index) noexcept:
    """Write an edge; return how many were written."""
    cdef Node* node = &table.nodes[consumer]
    if node.kind == SERIES_EXIT or node.kind == TRIP_COUNT:
        return 0
    edge.node = consumer
    edge.place = node.place
    edge.slot = node.slot + index
    edge.kind = node.kind
    edge.flags = node.flags
    edge.from_enter = table.nodes[producer].kind == ENTER
    return 1


cdef int _build_constants(CompiledPlan self) except -1:
    """Fetch the values of the CONST nodes, and own them."""
    cdef Table* table = &self.table
    cdef uint32_t count = table.num_constants
    cdef Node* node
    table.num_constants = 0
    table.constants = <Value*>self.arena.take(count, sizeof(Value))
    table.num_constants = count
    for i, source in enumerate(self.plan.nodes):
        node = &table.nodes[i]
        if node.kind == CONST:
            accept(&self.held, source.value, output_type(table, node, 0), &table.constants[node.index])
    return 0


cdef int _build_kernels(CompiledPlan self, switches) except -1:
    """Point the nodes at their kernels, and at C kernels and inner loops where available and allowed."""
    cdef Table* table = &self.table
    cdef Node* node
    for i, source in enumerate(self.plan.nodes):
        node = &table.nodes[i]
        if node.kind != KERNEL:
            continue
        kernel = getattr(np, source.ufunc) if source.kernel is None and source.ufunc else source.kernel
        if not callable(kernel):
            raise ValueError(f"{source.name}: has no kernel")
        self.kernels.append(kernel)
        node.pace, node.python_pace = 1, GUESS
        node.kernel = <PyObject*>kernel
        node.made_bytes = source.made_bytes
        if source.elements is not None:
            self.kernels.append(source.elements)
            node.elements = <PyObject*>source.elements
        if source.has_own_kernel:
            continue  # an outside package has registered `kernel`
        inputs = [self.dtypes[table.input_types[node.input + <uint32_t>k]] for k in range(node.num_inputs)]
        choose_kernel(node, source, inputs, list(source.outputs), switches, self.kernels, self.arena)
    return 0
