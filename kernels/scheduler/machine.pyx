"""The step machine: takes ready instances off the queue and runs them until there are none.

Instances without Python run in ``primitives`` and ``delivery``. Here are kernels: by NumPy's inner loops,
written in Python, or asynchronous. Long work of a C kernel goes to the workers, and its results are collected
while draining.

See docs/design/0003-step-machine.md.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from numpy cimport import_array

from tagloom.kernels.core.clock cimport nanoseconds, now
from tagloom.kernels.core.cost cimport LOOP_COST, SLICE, Py_CLEAR, array_cost, cut, do_work, keep, take_result
from tagloom.kernels.core.table cimport KERNEL, RECV, UNFINISHED, Node, Work
from tagloom.kernels.core.values cimport Value
from tagloom.kernels.cpu.ufuncs cimport run_loop
from tagloom.kernels.scheduler.awaitable cimport discard, is_awaitable
from tagloom.kernels.scheduler.calls cimport call_kernel
from tagloom.kernels.scheduler.copying cimport copy_received
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.guard cimport drop_outputs
from tagloom.kernels.scheduler.lines cimport stands_behind
from tagloom.kernels.scheduler.primitives cimport resolve
from tagloom.kernels.scheduler.ready cimport Ready, pop_ring, pop_stack
from tagloom.kernels.scheduler.report cimport frame_path_of
from tagloom.kernels.scheduler.saving cimport run_series
from tagloom.kernels.scheduler.state cimport StepState
from tagloom.kernels.scheduler.tracing cimport COMPUTE, COPIED_IN, OFFLOADED, Span
from tagloom.kernels.scheduler.workers cimport OffloadedWork, Task, new_offloaded_work, unpack

cdef extern from "<fenv.h>" nogil:
    int FE_ALL_EXCEPT
    int feclearexcept(int)

import_array()


cdef class StepMachine(StepState):
    """An execution of a compiled plan; see `StepState` for the parameters."""

    def drain(self, double seconds):
        """Run ready instances until there are none, or for about `seconds`.

        Kernels see the caller's context: call this method by `KernelContexts.run`.

        Returns
        -------
        bool
            True if more are ready.

        Raises
        ------
        RuntimeError
            If called from a kernel, or after `close`.
        BaseException
            Raised by a kernel and no Exception, such as KeyboardInterrupt; the step has then failed.
        """
        try:
            self.visit(now() + seconds, SLICE)
            return self.is_ready()
        finally:
            feclearexcept(FE_ALL_EXCEPT)

    def expect(self, descriptor):
        """Ask workers to write to a descriptor when they have done some work.

        Returns
        -------
        bool
            False, with no request made, if some is done already: drain instead of waiting.
        """
        return not self.offloaded or self.workers.arm(&self.inbox, descriptor)

    cdef int visit(self, double deadline, int budget) except -1:
        """Run ready instances until there are none or the time is `deadline`, looking at the clock when `budget` is
        spent.

        Returns
        -------
        int
            Remainder of the budget, at most SLICE; 0 when the time is over.
        """
        if self.draining or self.closed:
            raise RuntimeError("drain is already running" if self.draining else "the step is closed")
        self.draining = True
        try:
            return self._run(deadline, budget)
        finally:
            self.draining = False
            if self.failure is not None:
                self._stop()

    cdef int _run(self, double deadline, int budget) except -1:
        """Run the loop of `visit`.

        Once in a slice the ring goes first, so that a loop of primitives alone cannot keep kernels waiting.
        """
        cdef Machine* m = &self.machine
        cdef bint found
        cdef Ready ready
        while self.failure is None:
            if budget <= 0:
                self._collect(0, deadline)
                if now() >= deadline:
                    return 0
                budget = SLICE
                found = pop_ring(&m.queue, &ready) or pop_stack(&m.queue, &ready)
            else:
                found = pop_stack(&m.queue, &ready) or pop_ring(&m.queue, &ready)
            if not found:
                if self._collect(self.patience, deadline):
                    continue
                return budget
            if self.log is not None:
                budget -= self._trace(ready)
            elif resolve(m, ready):
                budget -= 1
                if m.trouble:
                    self._look_after(ready)
            else:
                budget -= self._perform(ready)
        return max(budget, 0)

    cdef int _trace(self, Ready ready) except -1:
        """Run an instance and record its time; return its cost in units of the budget."""
        cdef int64_t launched = self.tickets - self.looks
        cdef int cost = 1
        cdef Span span = self.log.begin(ready, nanoseconds(), COMPUTE)
        path = frame_path_of(ready.iteration.frame, self.compiled)
        if not resolve(&self.machine, ready):
            cost = self._perform(ready)
        elif self.machine.trouble:
            self._look_after(ready)
        if self.tickets - self.looks == launched:
            self.log.end(span, path)
        return cost

    cdef int _perform(self, Ready ready) except -1:
        """Run an instance that may call Python; return its cost in units of the budget."""
        try:
            return self._execute(ready)
        except Exception as exception:
            self._give_up(ready, exception)
        except BaseException as exception:
            self._give_up(ready, exception)
            raise
        return SLICE

    cdef int _give_up(self, Ready ready, object exception) except -1:
        """Drop the outputs of a kernel after its exception, and fail the step."""
        self.work.compute = NULL
        Py_CLEAR(self.work.kept)
        drop_outputs(&self.machine, &self.machine.table.nodes[ready.node])
        return self._fail(ready, exception)

    cdef int _execute(self, Ready ready) except -1:
        """Run a live instance of a kernel or of a series operation; return its cost in units of the budget."""
        cdef Machine* m = &self.machine
        cdef Node* node = &m.table.nodes[ready.node]
        cdef Value* inputs = &ready.iteration.slots[node.slot]
        cdef bint prepared = node.kind == RECV
        if prepared:
            copy_received(m, ready.iteration, node, &self.work)
        elif node.kind != KERNEL:
            coming = run_series(m, ready.iteration, node, self.swap)
            if coming is None:
                return self._emit(ready, False) + 1
            self._launch(ready, coming)
            return SLICE
        elif self.lines is not None and stands_behind(self.lines, m, ready):
            return 1
        elif self.declined is not None and self._wants_python(ready):
            prepared = False
        elif node.native != NULL:
            self.goes_on = self.unfinished is not None and self._go_on_with(ready)
            prepared = node.native(m.table, node, inputs, m.live, m.outputs, &self.work)
        elif node.loop != NULL:
            prepared = run_loop(m.table, node, inputs, m.live, m.outputs, &self.work)
        if prepared:
            return self._compute(ready, node)
        return self._run_python(ready)

    cdef int _decline(self, Ready ready) except -1:
        """Run an instance again, by its Python kernel, because its C kernel does not support its inputs."""
        drop_outputs(&self.machine, &self.machine.table.nodes[ready.node])
        self.declined = (self.declined or set()) | {(<uint64_t>ready.iteration, ready.node)}
        return self._run_again(ready)

    cdef bint _wants_python(self, Ready ready) except -1:
        """Return True if the C kernel has declined an instance; later calls return False."""
        key = (<uint64_t>ready.iteration, ready.node)
        found = key in self.declined
        if found:
            self.declined = self.declined - {key} or None
        return found

    cdef int _finish_later(self, Ready ready, object unfinished, bint at_once=True) except -1:
        """Run an instance again, to continue its unfinished work by a C kernel."""
        drop_outputs(&self.machine, &self.machine.table.nodes[ready.node])
        self.unfinished = self.unfinished or {}
        self.unfinished[<uint64_t>ready.iteration, ready.node] = unfinished
        return self._run_again(ready, at_once)

    cdef bint _go_on_with(self, Ready ready) except -1:
        """Pass the unfinished work of an instance to its C kernel; return True if there is some."""
        unfinished = self.unfinished.pop((<uint64_t>ready.iteration, ready.node), None)
        if unfinished is not None:
            keep(&self.work, <PyObject*>unfinished)
        self.unfinished = self.unfinished or None
        return unfinished is not None

    cdef int _run_python(self, Ready ready) except -1:
        """Run an instance by its Python kernel; outputs of a C kernel which has declined are dropped."""
        drop_outputs(&self.machine, &self.machine.table.nodes[ready.node])
        result = self._call(ready)
        if self.failure is None:
            self._conclude(ready, result)
        elif is_awaitable(result):
            discard(result)
        return SLICE

    cdef object _call(self, Ready ready):
        """Call a Python kernel, or its continuation after a wait for inputs."""
        if not self.resumed or (key := (<uint64_t>ready.iteration, ready.node)) not in self.resumed:
            return call_kernel(&self.machine, ready, self.arguments, self.compiled, self.step, self._left())
        result = self.resumed[key]()  # if that is refused memory it is called again
        del self.resumed[key]
        return result

    cdef double _left(self) noexcept:
        """Return the nanoseconds from which on work is left to other threads; -1 where there are none."""
        return -1 if self.workers is None else self.workers.nanoseconds

    cdef int _compute(self, Ready ready, Node* node) except -1:
        """Deliver the outputs of a C kernel when its work is done; return the cost in units of the budget."""
        cdef Work* work = &self.work
        cdef int cost = SLICE
        cdef bint is_last, begins
        if work.compute == NULL:
            cost = array_cost(node, &ready.iteration.slots[node.slot], self.machine.outputs)
            self._deliver(ready)
            return cost
        cut(work, 1 if self.workers is None else self.workers.count)
        unfinished = _unfinished(work)
        if self.workers is not None:
            is_last, begins = self._is_idle(), unfinished is not None and not self.goes_on
            if self.workers.want(work, work.cost * node.pace, is_last or begins):
                return self._hand_over(ready, node)
            if begins:  # after a look at the clock, and at other ready instances, which threads may run meanwhile
                work.compute = NULL
                self._finish_later(ready, unfinished, is_last)
                Py_CLEAR(work.kept)
                return SLICE
        do_work(work, node)
        if unfinished is not None:
            self._finish_later(ready, unfinished)
            return SLICE
        if not take_result(work, self.machine.outputs):
            return self._run_python(ready)
        self._deliver(ready)
        return SLICE

    cdef int _hand_over(self, Ready ready, Node* node) except -1:
        """Submit the work left by a kernel to the workers; return the cost in units of the budget."""
        cdef OffloadedWork offload = new_offloaded_work(&self.machine, ready, node, &self.work, self.compiled)
        self.work.compute = NULL
        self.offloaded.add(offload)
        self.tickets += 1
        self.workers.submit(offload, &self.inbox)
        return LOOP_COST

    cdef bint _collect(self, double seconds, double deadline) except -1:
        """Deliver the results of the workers, waiting for some time if there are none; return True if results came."""
        cdef Task* task
        cdef bint any
        if not self.offloaded:
            return False
        task = self.workers.collect(&self.inbox, min(seconds, deadline - now()))
        any = task != NULL
        while task != NULL and self.failure is None:
            offload = <OffloadedWork>task.offload
            task = task.next
            self._return(offload)
        return any

    cdef int _return(self, OffloadedWork offload) except -1:
        """Deliver the results of a worker's task."""
        unpack(&self.machine, offload)
        self.offloaded.discard(offload)
        try:
            unfinished = _unfinished(&offload.task.work)
            if unfinished is not None:
                self._finish_later(offload.ready, unfinished)
            elif not take_result(&offload.task.work, self.machine.outputs):
                self._decline(offload.ready)
            elif self.submit is not None:
                self._deliver(offload.ready)
            else:
                stream = COPIED_IN if self._stream(offload.ready) == COPIED_IN else OFFLOADED
                self._emit_with_span(offload.ready, offload.task.begin, nanoseconds(), stream)
        except Exception as exception:
            self._fail(offload.ready, exception)
        return 0


cdef inline object _unfinished(const Work* work):
    """Return the object with which a kernel continues when this work is done, or None."""
    return <object><PyObject*>work.arguments[UNFINISHED] if work.arguments[UNFINISHED] else None
