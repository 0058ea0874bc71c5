"""State of a step: frames and queue, instances on their way outside, and the first error.

An asynchronous instance is handed out by `launches` and comes back by `finish` or `fail`. Instances run in
``machine``, and instances without Python in ``primitives`` and ``delivery``.

See docs/design/0003-step-machine.md.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

import logging

from tagloom.kernels.memory.contexts import outside

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.core.convert cimport accept
from tagloom.kernels.core.frames cimport append_iteration, count_launch, frame_id, open_frame
from tagloom.kernels.core.table cimport AT_ONCE, DETACHED, RECV, Node, Table
from tagloom.kernels.core.values cimport TAGLOOM_DEBUG, Counters, Value, drop, take
from tagloom.kernels.scheduler.awaitable cimport discard, is_awaitable
from tagloom.kernels.scheduler.calls cimport accept_outputs
from tagloom.kernels.core.continuation import Continuation
from tagloom.kernels.scheduler.delivery cimport (
    NOT_SCALAR, NO_MEMORY, TWO_LIVE, Machine, Outcome, complete, drop_inputs, emit_outputs, make_ready, settle,
)
from tagloom.kernels.scheduler.guard cimport (
    drop_outputs, guard_outputs, guarded_bytes, guarded_outputs, made_bytes,
)
from tagloom.kernels.scheduler.lines cimport all_behind, let_next_go_on, open_line
from tagloom.kernels.scheduler.log cimport open_log
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready, close_queue, open_queue, push
from tagloom.kernels.scheduler.rendezvous cimport Rendezvous
from tagloom.kernels.scheduler.report cimport dump_lines, fetched, frame_path_of, free_frames, input_shapes, tag_of
from tagloom.kernels.scheduler.report cimport switch_outcomes as outcomes_of
from tagloom.kernels.scheduler.tracing cimport AWAITED, COMPUTE, COPIED_IN, Recorder, Span
from tagloom.kernels.scheduler.workers cimport PATIENCE, OffloadedWork, Workers

cdef double GUARDING = 0.3  # nanoseconds that a guard takes for a byte, about
cdef Counters _live  # of all machines in the process
_logger = logging.getLogger("tagloom")


def live_counts():
    """Return how many frames, iterations and values all machines of the process hold now.

    A debug build adds how many of them were ever ``allocated`` and ``freed``.
    """
    counts = {"frames": _live.frames, "iterations": _live.iterations, "values": _live.values}
    if TAGLOOM_DEBUG:
        counts.update(allocated=_live.allocated, freed=_live.freed)
    return counts


cdef class PendingInstance:
    """An instance on its way: asynchronous, or with a kernel still at work on its device."""

    def __dealloc__(self):
        self.forget_outputs()
        free(self.outputs)

    cdef int keep_outputs(self, Machine* m, uint32_t count) except -1:
        """Take the machine's outputs until the kernel is over."""
        cdef uint32_t o
        self.outputs = <Value*>calloc(count + 1, sizeof(Value))
        if self.outputs == NULL:
            raise MemoryError()
        self.live, self.num_outputs = m.live, count
        for o in range(count):
            self.outputs[o] = take(&m.outputs[o])
        return 0

    cdef void give_outputs_back(self, Machine* m) noexcept:
        """Move the outputs back to the machine."""
        cdef uint32_t o
        for o in range(self.num_outputs):
            m.outputs[o] = take(&self.outputs[o])

    cdef void forget_outputs(self) noexcept:
        """Drop the outputs of the instance, for which no code waits any more."""
        cdef uint32_t o
        for o in range(self.num_outputs):
            drop(self.live, &self.outputs[o])


@cython.no_gc_clear  # closing needs the plan and the arena
cdef class StepState:
    """An execution of a compiled plan, run by a `StepMachine`.

    Parameters
    ----------
    compiled : CompiledPlan
        The plan to run.
    step_context : object
        Attribute ``step`` of the instance passed to stateful kernels.
    feeds : list of numpy.ndarray
        Values of the feeds, of the plan's dtypes; used without a copy.
    shuffle_seed : int, optional
        Seed of a random ready order; None keeps first in, first out.
    guard : callable, optional
        Called with each floating array made by a kernel; an exception of the guard fails the step.
    recorder : Recorder, optional
        Gets a span for each instance.
    workers : Workers, optional
        Do the work of long kernels.
    rendezvous : Rendezvous, optional
        Meeting point with the other machines of the step.
    submit : callable, optional
        Called when a kernel, or the copy of a received value, has been computed, with its node and the bytes made;
        returns an awaitable of its end on its device, or None. Its result is (begin, end),
        times there in seconds.
    swap : object, optional
        Told of the values saved by loops under swap (``save``; ``save_host_backed`` where only values in host memory
        may move) and of reads of saved arrays which never moved (``note_read``); asked for a slot without an array of
        the device (``read``).

    Raises
    ------
    ValueError
        If the number of feeds is wrong.
    TypeError
        If a feed has another dtype than declared.
    """

    def __cinit__(self, CompiledPlan compiled not None, step_context, feeds, shuffle_seed=None, guard=None,
                  Recorder recorder=None, Workers workers=None, Rendezvous rendezvous=None, submit=None, swap=None):
        self.compiled = compiled
        self.step = step_context
        self.arena = Arena()
        self.pending_instances, self.resumed, self.launched = {}, {}, []
        self.offloaded = set()
        self.guard, self.submit, self.swap = guard, submit, swap
        self.patience = PATIENCE
        self.log = open_log(recorder, compiled, step_context, &self.machine)
        self.rendezvous, self.machine.rendezvous = rendezvous, NULL if rendezvous is None else &rendezvous.table
        if rendezvous is not None:
            rendezvous.table.live = &_live
        self._open(list(feeds), shuffle_seed)
        if workers is not None:
            workers.open_inbox(&self.inbox)
            self.workers = workers
        self._start()

    def __dealloc__(self):
        if self.machine.table != NULL:
            self.close()

    def launches(self):
        """Return the asynchronous instances started since the last call.

        Returns
        -------
        list of (int, awaitable, int, str)
            Ticket for `finish` or `fail`, awaitable, node, tag as ``node@frame/iteration``.
        """
        launched, self.launched = self.launched, []
        return launched

    def finish(self, ticket, result):
        """Deliver the result of an asynchronous instance; to be followed by a drain. KeyError for an unknown ticket."""
        cdef PendingInstance instance = self.pending_instances.pop(ticket)
        self.machine.in_flight -= 1
        if instance.ready.iteration == NULL or self.failure is not None:
            return
        try:
            if instance.looked_at:
                instance.give_outputs_back(&self.machine)
                self._emit(instance.ready, True)
            elif isinstance(result, Continuation):
                self._resume(instance, result.call)
            elif instance.outputs == NULL:
                self._accept(instance, result)
            else:
                instance.give_outputs_back(&self.machine)
                began, ended = result
                self._emit_with_span(instance.ready, <int64_t>(1e9 * began), <int64_t>(1e9 * ended), self._stream(instance.ready))
        except Exception as exception:
            self._fail(instance.ready, exception)

    def fail(self, ticket, exception):
        """Fail the step with the error of an asynchronous instance. KeyError for an unknown ticket."""
        cdef PendingInstance instance = self.pending_instances.pop(ticket)
        self.machine.in_flight -= 1
        if instance.ready.iteration != NULL:
            if instance.looked_at:
                StepState._fail(self, instance.ready, exception)  # its kernel is over, so it does not begin again
                return
            if self.log is not None:
                self.log.put(instance.ready, instance.begin, AWAITED)
            self._fail(instance.ready, exception)

    def abort(self, exception):
        """Stop the step: drop all ready work and all values. An earlier error stays (rule 44)."""
        if self.failure is None:
            self.failure = (-1, "", exception, [])
        self._stop()

    def close(self):
        """Release everything; closing twice is allowed.

        Raises
        ------
        RuntimeError
            If called from a kernel of this step.
        """
        if self.draining:
            raise RuntimeError("a step can not be closed by its own kernel; abort it")
        if not self.closed:
            self.compiled.leave()
        self.closed = True
        self._stop()
        self.pending_instances.clear()
        close_queue(&self.machine.queue)

    @property
    def done(self):
        """True if nothing is ready and nothing on its way."""
        return self._is_idle()

    cdef bint _is_idle(self) noexcept:
        """Return True if nothing is ready or on its way."""
        queue = &self.machine.queue
        return queue.height + queue.length == 0 and not self.pending_instances and not self.offloaded

    @property
    def pending(self):
        """Number of asynchronous instances not finished."""
        return len(self.pending_instances)

    @property
    def fetches(self):
        """The fetched values: arrays, or DEAD where no value came."""
        return fetched(&self.machine)

    @property
    def can_progress(self):
        """True if a drain would find ready instances, or parked instances for which memory may have been released."""
        return self.is_ready()

    @property
    def blocked_on_memory(self):
        """True if the step waits for memory to be released by others."""
        return False

    def retry_parked(self):
        """Make ready a parked instance, because nothing else can go on; return False if there is none."""
        return False

    @property
    def swaps(self):
        """The swapper, if the step has one."""
        return [] if self.swap is None else [self.swap]

    def switch_outcomes(self):
        """Return the outcomes of the Switches of the root frame.

        Returns
        -------
        dict of int to bool, int or None
            By node: the predicate of a Switch, the index of a SwitchN, None if dead; only Switches that fired.
        """
        return outcomes_of(&self.machine)

    def dump(self):
        """Return lines about the waiting, running and held values of each iteration (rule 50)."""
        active = [_who((<PendingInstance>each).ready) for each in self.pending_instances.values()]
        active += [_who((<OffloadedWork>each).ready) for each in self.offloaded]
        return dump_lines(&self.machine, self.compiled, active + all_behind(self.lines))

    cdef bint is_ready(self) noexcept:
        """Return True if a drain would find something to run."""
        return self.failure is None and self.machine.queue.height + self.machine.queue.length != 0

    cdef int _open(self, list feeds, object shuffle_seed) except -1:
        """Take the arrays and the feeds."""
        cdef Machine* m = &self.machine
        cdef Table* table = &self.compiled.table
        cdef uint64_t seed = 0 if shuffle_seed is None else frame_id(hash(shuffle_seed) & 0xFFFFFFFF, 0, 1)
        if len(feeds) != table.num_feeds:
            raise ValueError(f"wanted {table.num_feeds} feeds, got {len(feeds)}")
        m.feeds = <Value*>self.arena.take(table.num_feeds, sizeof(Value))
        m.fetched = <Value*>self.arena.take(table.num_fetches, sizeof(Value))
        m.outcomes = <Outcome*>self.arena.take(table.num_switches, sizeof(Outcome))
        m.outputs = <Value*>self.arena.take(table.most_outputs, sizeof(Value))
        self.arguments = <PyObject**>self.arena.take(table.most_inputs + 2, sizeof(PyObject*))
        m.live = &_live
        m.table = table  # from here on there is something to close
        self.compiled.join()
        if not open_queue(&m.queue, seed):
            raise MemoryError()
        for i in range(table.num_feeds):
            accept(m.live, feeds[i], &table.types[table.feed_types[i]], &m.feeds[i])
        return 0

    cdef int _start(self) except -1:
        """Open the root frame and make the roots ready (rule 21)."""
        cdef Machine* m = &self.machine
        cdef uint32_t node
        m.root = open_frame(m.live, &m.table.frames[0], NULL)
        if m.root == NULL or append_iteration(m.live, m.root) == NULL:
            raise MemoryError()
        for i in range(m.table.num_roots):
            node = m.table.roots[i]
            make_ready(m, m.root.oldest, node, False, m.table.nodes[node].flags & AT_ONCE)
        if m.trouble & NO_MEMORY:
            raise MemoryError()
        if m.table.num_roots == 0:
            settle(m, m.root)
        return 0

    cdef int _dismiss(self) except -1:
        """Take back tasks not begun by the workers; the results of the others are dropped."""
        if self.workers is not None:
            self.workers.close_inbox(&self.inbox, self.offloaded)
            self.workers = None
            self.offloaded.clear()
        return 0

    cdef int _look_after(self, Ready ready) except -1:
        """Turn trouble met by the primitives into an error, or a warning."""
        cdef uint32_t trouble = self.machine.trouble
        name = self.compiled.plan.nodes[ready.node].name
        self.machine.trouble = 0
        if trouble & NO_MEMORY:
            if self.failure is None:
                self.failure = (ready.node, "", MemoryError("no memory for another iteration"), [])
        elif trouble & NOT_SCALAR:
            self._fail(ready, TypeError(f"{name}: the predicate must be a scalar"))
        elif trouble & TWO_LIVE:
            _logger.warning("%s: more than one input of a Merge is live; the first is taken", name)
        return 0

    cdef int _conclude(self, Ready ready, object result) except -1:
        """Process the result of a Python kernel: deliver its outputs, or launch an awaitable."""
        if is_awaitable(result):
            self._launch(ready, result)
            return 0
        accept_outputs(&self.machine, &self.machine.table.nodes[ready.node], result)
        return self._deliver(ready)

    cdef int _resume(self, PendingInstance instance, object call) except -1:
        """Make an instance ready again after its wait for inputs."""
        if self.log is not None:
            self.log.put(instance.ready, instance.begin, AWAITED)
        self.resumed[<uint64_t>instance.ready.iteration, instance.ready.node] = call
        return self._run_again(instance.ready)

    cdef int _run_again(self, Ready ready, bint at_once=True) except -1:
        """Make an instance ready again."""
        if not push(&self.machine.queue, ready, at_once):
            raise MemoryError()
        return 0

    cdef int _deliver(self, Ready ready) except -1:
        """Deliver the outputs of a kernel, or keep them until the kernel counts as done on its device."""
        if self.submit is None:
            return self._emit(ready, False)
        cdef Machine* m = &self.machine
        cdef const Node* node = &m.table.nodes[ready.node]
        cdef PendingInstance instance
        try:
            awaitable = self.submit(ready.node, made_bytes(m, node))
        except BaseException:
            drop_outputs(m, node)
            raise
        if awaitable is None:
            return self._emit(ready, False)
        instance = self._launch(ready, awaitable)
        return instance.keep_outputs(m, node.num_outputs)

    cdef int _emit(self, Ready ready, bint guarded) except -1:
        """Deliver the outputs of an instance and complete the instance; first the guard checks them, unless `guarded`.
        """
        cdef Machine* m = &self.machine
        cdef const Node* node = &m.table.nodes[ready.node]
        cdef int64_t size
        if self.guard is not None and not guarded:
            size = guarded_bytes(m, node)
            if self.workers is not None and size != 0 and size * GUARDING >= self.workers.nanoseconds:
                return self._guard_elsewhere(ready)
            guard_outputs(m, node, self.guard)
        drop_inputs(m, ready.iteration, node)
        emit_outputs(m, ready.iteration, node)
        if self.lines is not None:
            self.lines = let_next_go_on(self.lines, m, ready)
        complete(m, ready.iteration)
        if m.trouble:
            self._look_after(ready)
        return 0

    cdef int _guard_elsewhere(self, Ready ready) except -1:
        """Run the guard on large outputs in a thread, in the context of the step's caller."""
        cdef Machine* m = &self.machine
        cdef const Node* node = &m.table.nodes[ready.node]
        cdef PendingInstance instance
        try:
            looking = outside(self.step.long_calls, _look, self.guard, guarded_outputs(m, node))
        except BaseException:
            drop_outputs(m, node)
            raise
        instance = self._launch(ready, looking)
        instance.looked_at = True
        self.looks += 1
        return instance.keep_outputs(m, node.num_outputs)

    cdef int _accept(self, PendingInstance instance, object result) except -1:
        """Deliver the result of an asynchronous instance; a result computed in a thread is treated like a result
        computed here.
        """
        cdef Machine* m = &self.machine
        cdef const Node* node = &m.table.nodes[instance.ready.node]
        cdef int64_t tickets = self.tickets
        cdef Span span
        accept_outputs(m, node, result)
        if self.submit is None or not node.flags & DETACHED:
            return self._emit_with_span(instance.ready, instance.begin, nanoseconds(), AWAITED)
        if self.log is None:
            return self._deliver(instance.ready)
        span = self.log.begin(instance.ready, instance.begin, AWAITED)
        path = frame_path_of(instance.ready.iteration.frame, self.compiled)
        self._deliver(instance.ready)
        if self.tickets == tickets:
            self.log.end(span, path)
        return 0

    cdef int _stream(self, Ready ready) noexcept:
        """Return the trace stream of an instance: COPIED_IN for the copy of a received value, COMPUTE for a kernel."""
        return COPIED_IN if self.machine.table.nodes[ready.node].kind == RECV else COMPUTE

    cdef int _emit_with_span(self, Ready ready, int64_t begin, int64_t end, int stream) except -1:
        """Deliver the outputs of an instance begun at `begin`, and record its span."""
        if self.log is None:
            return self._emit(ready, False)
        cdef Span span = self.log.begin(ready, begin, stream)
        span.end = end
        path = frame_path_of(ready.iteration.frame, self.compiled)
        self._emit(ready, False)
        return self.log.end(span, path)

    cdef PendingInstance _launch(self, Ready ready, object awaitable):
        """Register an instance that finishes later; its inputs stay until then."""
        cdef PendingInstance instance = PendingInstance()
        instance.ready = ready
        instance.begin = nanoseconds()
        self.tickets += 1
        self.machine.in_flight += 1
        count_launch(ready.iteration.frame, self.machine.in_flight)
        self.pending_instances[self.tickets] = instance
        if self.log is None and getattr(awaitable, "in_order", False):  # a trace shows every wait
            self.lines = open_line(self.lines, &self.machine, ready)
        self.launched.append((self.tickets, awaitable, ready.node, tag_of(ready.iteration, ready.node, self.compiled)))
        return instance

    cdef int _fail(self, Ready ready, object exception) except -1:
        """Keep the first error (rule 44) and stop."""
        cdef Machine* m = &self.machine
        if self.failure is None:
            tag = tag_of(ready.iteration, ready.node, self.compiled)
            self.failure = (ready.node, tag, exception, input_shapes(m, ready.iteration, ready.node))
        return self._stop()

    cdef int _stop(self) except -1:
        """Drop all work and all values, unless a drain is running, which does the same at its end."""
        cdef Machine* m = &self.machine
        if self.draining:
            return 0
        m.queue.height = m.queue.length = 0
        if self.rendezvous is not None:
            self.rendezvous.clear()
        self._dismiss()
        self.resumed.clear()
        self.declined = self.unfinished = self.lines = None
        for instance in self.pending_instances.values():
            (<PendingInstance>instance).ready.iteration = NULL
            (<PendingInstance>instance).forget_outputs()
        for ticket, awaitable, _, _ in self.launches():
            del self.pending_instances[ticket]
            discard(awaitable)
        free_frames(m)
        for i in range(m.table.num_feeds):
            drop(m.live, &m.feeds[i])
        for i in range(m.table.num_fetches):
            drop(m.live, &m.fetched[i])
        return 0


def _look(guard, list arrays):
    """Show arrays to a guard."""
    for array in arrays:
        guard(array)


cdef tuple _who(Ready ready):
    """Return the pair by which `dump_lines` identifies an instance: node and address of the iteration."""
    return ready.node, <uint64_t>ready.iteration
