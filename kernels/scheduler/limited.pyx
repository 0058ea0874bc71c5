"""A step machine whose memory has a limit: instances wait for room, and iterations begin as memory allows.

An instance whose allocation is refused has done nothing; it is parked with its inputs where they are, and tried again
when there is room: instances of backward loops first, older iterations before younger iterations. An allocation
of a younger iteration must leave room for the older iterations. See docs/design/0011-memory-limits.md.
"""

from bisect import insort
from functools import partial

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tagloom.kernels.core.cost cimport Py_CLEAR
from tagloom.kernels.core.frames cimport Frame, Iteration
from tagloom.kernels.core.table cimport KERNEL, Node
from tagloom.kernels.core.values cimport drop
from tagloom.kernels.memory.accounts cimport open_account, release_account
from tagloom.kernels.memory.blocks cimport Account, Store
from tagloom.kernels.memory.contexts import outside
from tagloom.kernels.memory.pool cimport Pool
from tagloom.kernels.scheduler.allocations cimport allocations_of
from tagloom.kernels.scheduler.delivery cimport NO_MEMORY, start_iteration
from tagloom.kernels.scheduler.gate cimport (
    UNKNOWN, account_of, admits_iteration, is_backward, is_oldest, reserved_around,
)
from tagloom.kernels.scheduler.machine cimport StepMachine
from tagloom.kernels.scheduler.ready cimport DEPTH_FIRST, Ready, push
from tagloom.kernels.scheduler.report cimport tag_of
from tagloom.kernels.scheduler.state cimport StepState



class NoRoom(MemoryError):
    """The limit of a device's memory leaves no room for an instance's allocation, and nothing can release any.

    Attributes
    ----------
    wanted, live, limit : int
        Bytes: asked for, in use, allowed.
    device : str
        Device of the memory.
    allocations : list of (int, str, str or None, object)
        Holders of memory: bytes, operation, instance, the user's line.
    swaps : bool
        True if saved values might leave the memory.
    """

    def __init__(self, wanted, live, limit, device, allocations, swaps):
        super().__init__(f"{wanted} bytes more do not fit: {live} of {limit} are in use")
        self.wanted, self.live, self.limit, self.device = wanted, live, limit, device
        self.allocations, self.swaps = allocations, swaps


cdef class Parked:
    """An instance waiting for memory."""

    def __lt__(self, Parked other):
        return self.age < other.age


cdef class LimitedMachine(StepMachine):
    """An execution of a compiled plan within the limit of the context's pool; see `StepState` for the parameters."""

    def __cinit__(self, *args, **kwargs):
        cdef Pool pool = self.step.contexts.pool
        cdef uint32_t i
        self.pool = pool
        self.parked = []
        self.seen = -1
        self.gate.store = pool.store
        self.gate.frames = self.machine.table.frames
        self.gate.iteration_bytes = <int64_t*>self.arena.take(self.machine.table.num_frames, sizeof(int64_t))
        self.gate.is_representative = <bint*>self.arena.take(self.machine.table.num_frames, sizeof(bint))
        for i in range(self.machine.table.num_frames):
            self.gate.iteration_bytes[i], self.gate.is_representative[i] = UNKNOWN, False
        self.machine.gate = &self.gate
        if self.machine.root != NULL and self.machine.root.oldest != NULL:  # counts memory taken in loops too
            self.account = open_account(self.gate.store, NULL, 0)
            if self.account == NULL:
                raise MemoryError()
            self.account.references += 1
            self.machine.root.oldest.account = self.account
        if self.machine.queue.random == 0:
            self.machine.queue.random = DEPTH_FIRST
        if self.guard is not None:
            self.guard = partial(outside, self.guard)  # nothing may be refused when a result is there

    def __dealloc__(self):
        if self.account != NULL:
            self.account.references -= 1
            release_account(self.account)

    @property
    def held_bytes(self):
        """Bytes in use on the step's account."""
        return 0 if self.account == NULL else self.account.live

    @property
    def most_held_bytes(self):
        """The largest `held_bytes` so far."""
        return 0 if self.account == NULL else self.account.peak

    @property
    def done(self):
        """True if nothing is ready, on its way or parked."""
        return self._is_idle() and not self.parked

    @property
    def blocked_on_memory(self):
        """True if the step waits for memory to be released by others."""
        return self.failure is None and len(self.parked) > 0 and self._is_idle()

    def retry_parked(self):
        """Make ready the oldest fitting parked instance, although others wait for the memory; return False if none
        fits.

        Nothing else can go on at that time.
        """
        cdef Parked each
        for i, each in enumerate(self.parked if self._is_idle() else ()):
            if each.need <= self.gate.store.budget.limit - self.gate.store.budget.live:
                self.forced = each.ready
                return self._unpark(i) == 0
        return False

    def fail_out_of_memory(self):
        """Fail the step, because no memory will be released for its parked instances.

        A native program among them is given up instead: its loop takes memory bit by bit, and may wait for more.
        """
        cdef Parked oldest
        if self.failure is None and self.parked and not self._give_up_program():
            oldest = self.parked[0]
            StepState._fail(self, oldest.ready, self._no_room(oldest.need))

    cdef bint _give_up_program(self) except -1:
        """Make a parked native program ready, to report that the program did not run; return False if no program is
        parked.
        """
        cdef Parked each
        for i, each in enumerate(self.parked):
            if self.compiled.plan.nodes[each.ready.node].type == "Native":
                self.declined = (self.declined or set()) | {(<uint64_t>each.ready.iteration, each.ready.node)}
                return self._unpark(i) == 0
        return False

    cdef bint is_ready(self) noexcept:
        waits = len(self.parked) > 0 or self.gate.held != NULL
        return StepState.is_ready(self) or (self.failure is None and waits and self.seen != self.gate.store.budget.given)

    cdef int _perform(self, Ready ready) except -1:
        """Run an instance on the account of its iteration, within the limit of `_limit_for`."""
        cdef Store* store = self.gate.store
        cdef Account* account = store.account
        cdef int64_t current_limit = store.current_limit
        cdef int64_t room
        cdef int cost
        store.account, store.current_limit = account_of(ready.iteration), self._limit_for(ready)
        room = store.current_limit - store.budget.live
        self.performing, self.refused, self.refusals = True, False, store.refusals
        try:
            cost = StepMachine._perform(self, ready)
        finally:
            self.performing = False
            store.account, store.current_limit = account, current_limit
        if self.refused:
            # Its outputs are dropped by now, so `short - live` is its whole need, temporaries included. At least
            # a byte more than it had room for: a try with the same room would end the same way, again and again.
            self._park(ready, max(store.short - store.live, room + 1))
        return cost

    cdef int _fail(self, Ready ready, object exception) except -1:
        """Park an instance if memory was refused; else keep the error and stop."""
        if self.failure is None and isinstance(exception, MemoryError):
            if self._parks(ready, exception):
                return 0
            if not self.performing and getattr(exception, "wanted_bytes", None) is not None:
                exception = self._no_room(exception.wanted_bytes)
            elif self.performing and self.gate.store.refusals != self.refusals:
                exception = self._no_room(self.gate.store.refused)
        return StepState._fail(self, ready, exception)

    cdef bint _parks(self, Ready ready, object exception) except -1:
        """Return True if an instance can be tried again; the instance is then parked now, or at its end."""
        cdef Node* node = &self.machine.table.nodes[ready.node]
        if node.kind == KERNEL and not self.compiled.plan.nodes[ready.node].retry:
            return False
        if not self.performing:
            need = getattr(exception, "wanted_bytes", self.gate.store.refused)  # of a call in a thread
            return need is not None and self._park(ready, need) == 0
        self.refused = self.gate.store.refusals != self.refusals
        return self.refused

    cdef int _park(self, Ready ready, int64_t need) except -1:
        """Park an instance until there is room; drop its outputs so far."""
        cdef Parked parked = Parked()
        cdef uint32_t o
        for o in range(self.machine.table.nodes[ready.node].num_outputs):
            drop(self.machine.live, &self.machine.outputs[o])
        self.work.compute = NULL
        Py_CLEAR(self.work.kept)
        parked.ready, parked.need, parked.age = ready, need, _age(ready.iteration)
        insort(self.parked, parked)
        self.gate.parked += 1
        self.tickets += 1
        self.seen = -1
        return 0

    cdef int _unpark(self, Py_ssize_t i) except -1:
        """Make a parked instance ready again."""
        cdef Parked parked = self.parked.pop(i)
        self.gate.parked -= 1
        self.seen = -1
        if not push(&self.machine.queue, parked.ready, True):
            raise MemoryError()
        return 0

    cdef int64_t _limit_for(self, Ready ready) except? -1:
        """Return the upper bound of `Budget.live` while an instance runs: the limit, less the bytes kept for
        others.

        Two amounts are for others. First, the bytes reserved by their accounts: the oldest iteration may take even
        these bytes, because everything else waits for this iteration in the end. Second, the largest need of the older
        parked instances: only the largest, as they are tried one after the other and each releases the memory taken.
        """
        cdef Store* store = self.gate.store
        cdef Iteration* it = ready.iteration
        cdef int64_t limit = store.budget.limit
        cdef Parked each
        if self.forced.iteration == it and self.forced.node == ready.node:
            self.forced.iteration = NULL  # once: if it is refused all the same it parks in its order
            return limit
        if not is_oldest(it):
            limit -= store.budget.reserved - reserved_around(account_of(it))
        if self.gate.parked:
            age = _age(it)
            limit -= max([0] + [each.need for each in self.parked if each.age < age])
        return limit

    cdef bint _collect(self, double patience, double deadline) except -1:
        """Make instances ready: parked instances for which memory was released, or consumers of work done by workers.
        """
        if self.failure is not None:
            return False
        if self._find_room() or StepMachine._collect(self, patience, deadline):
            return True
        return self.rendezvous is None and self.retry_parked()

    cdef bint _find_room(self) except -1:
        """Make ready an instance or iteration for which there is room by now; return False if there is none."""
        cdef Parked each
        if self.seen == self.gate.store.budget.given:
            return False  # no memory was freed since the last look
        for i, each in enumerate(self.parked):
            if each.need <= self._limit_for(each.ready) - self.gate.store.budget.live:
                return self._unpark(i) == 0
        if not self.parked and (self._reopen(True) or self._reopen(False)):  # backward loops release memory
            return True
        if not self.parked and self.swap is not None:
            self.swap.prefetch()
        self.seen = self.gate.store.budget.given
        return False

    cdef bint _reopen(self, bint backward) except -1:
        """Start the next iteration of a loop for which there is room by now; return False if there is none."""
        cdef Frame* frame = self.gate.held
        while frame != NULL:
            if is_backward(frame.oldest) == backward and admits_iteration(&self.gate, frame):
                start_iteration(&self.machine, frame)
                if self.machine.trouble & NO_MEMORY:
                    raise MemoryError("no memory for another iteration")
                return True
            frame = frame.next_held
        return False

    cdef int _stop(self) except -1:
        if not self.draining and self.parked is not None:
            self.parked.clear()
            self.gate.parked = 0
        return StepState._stop(self)

    def _no_room(self, wanted):
        cdef Store* store = self.gate.store
        allocations = allocations_of(&self.machine, self.compiled, self.pool, self.step)
        return NoRoom(wanted, store.budget.live, store.budget.limit, self.pool.name, allocations, self.swap is not None)

    def dump(self):
        """Return lines about the waiting, running and held values of each iteration, and about waits for memory."""
        cdef Parked each
        lines = [
            f"{tag_of(each.ready.iteration, each.ready.node, self.compiled)} waits for {each.need} bytes of memory"
            for each in self.parked
        ]
        return lines + StepMachine.dump(self)


cdef tuple _age(Iteration* it):
    """Return the key by which parked instances are ordered: backward loops first, then older iterations."""
    forward = not is_backward(it)
    numbers = []
    while it.frame.parent != NULL:
        numbers.append(it.number)
        it = it.frame.parent
    return forward, tuple(numbers[::-1])
