"""Group of the step machines of a partitioned step, one for each device, with the interface of a single StepMachine.

Each machine has its own queue, frames and windows; machines communicate only through the rendezvous. A message wakes
the machine of an instance made ready. A drain visits awake machines in the order in which they were woken: each
runs, in a private context of its device, until nothing is ready there or the time is over.

See docs/design/0009-devices.md.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from collections import namedtuple
from weakref import ref

from tagloom.kernels.core.clock cimport now
from tagloom.kernels.core.cost cimport SLICE
from tagloom.kernels.memory.contexts cimport KernelContexts, enter, leave
from tagloom.kernels.scheduler.machine cimport StepMachine
from tagloom.kernels.scheduler.rendezvous cimport Endpoint, Rendezvous, next_end, next_machine, wake_machine
from tagloom.kernels.scheduler.report cimport tag_of, text_of
from tagloom.kernels.scheduler.workers cimport PATIENCE

cdef extern from "<fenv.h>" nogil:
    int FE_ALL_EXCEPT
    int feclearexcept(int)


class PeerWait(namedtuple("PeerWait", "tag channel peer is_sent")):
    """An instance waiting for a peer: a Recv for its message, or a Send for the transport to take its message.

    Attributes
    ----------
    tag : str
        ``node@frame/iteration``.
    channel : RemoteChannel
    peer : str
    is_sent : bool
        True for a Send.
    """

    __slots__ = ()

    def __str__(self):
        way = "to" if self.is_sent else "from"
        return f"{self.tag}, a message over {self.channel} {way} {self.peer}"


cdef class MachineGroup:
    """An execution of a partitioned step.

    Parameters
    ----------
    machines : list of StepMachine
        A machine for each device with operations of the step; all share `rendezvous`.
    contexts : list of KernelContexts
        Of the devices, in the same order.
    rendezvous : Rendezvous
    fetches : list of (int, int)
        The machine of each fetch, and its number among the fetches of the machine.

    Notes
    -----
    Tickets of asynchronous instances are pairs (machine, ticket there).

    If the rendezvous has remote channels, the group is a task's part of a step, and not done while waiting for peers.
    """

    cdef object __weakref__

    cdef list machines, contexts
    cdef list places  # of the fetches: (machine, number there)
    cdef list private  # by machine: the context that it runs in, None before its first visit
    cdef list limited  # numbers of the machines whose memory has a limit
    cdef readonly Rendezvous rendezvous
    cdef StepMachine failed  # the first that failed

    def __init__(self, list machines, list contexts, Rendezvous rendezvous, list fetches):
        self.machines, self.contexts, self.places = machines, contexts, fetches
        self.rendezvous = rendezvous
        self.private = [None] * len(machines)
        rendezvous.track_runnable(len(machines))
        for i, each in enumerate(machines):
            (<StepMachine>each).patience = 0  # seconds to wait for workers in a visit: the group waits itself
            (<StepMachine>each).machine.number = i
        self.limited = [i for i, each in enumerate(machines) if (<StepMachine>each).machine.gate != NULL]
        rendezvous.group = ref(self)
        if rendezvous.failure is not None:  # a peer failed before this part began
            self.abort(rendezvous.failure)

    def drain(self, double seconds):
        """Run ready instances of all machines until there are none, or for about `seconds`.

        Returns
        -------
        bool
            True if more instances are ready.

        Raises
        ------
        BaseException
            An error of a kernel outside the class Exception, such as KeyboardInterrupt; the step has then failed.
        """
        cdef double deadline = now() + seconds
        cdef int budget = SLICE  # instances until a look at the clock; shared by all visits, most of which are short
        cdef int64_t i
        self._wake_ready(deadline)
        try:
            while self.failed is None and budget > 0:
                i = next_machine(&self.rendezvous.table)
                if i >= 0:
                    budget = self._visit(i, deadline, budget)
                elif not (self._find_room(deadline) or self._ask_workers(deadline) or self._retry_parked()):
                    break
        finally:
            feclearexcept(FE_ALL_EXCEPT)
        return self.failed is None and any([(<StepMachine>each).is_ready() for each in self.machines])

    cdef int _wake_ready(self, double deadline) except -1:
        """Wake the machines with ready instances; visit the others with work at workers, which may have ended."""
        cdef StepMachine machine
        for i, each in enumerate(self.machines):
            machine = <StepMachine>each
            wake_machine(&self.rendezvous.table, &machine.machine)
            if machine.offloaded and not machine.machine.awake:
                self._visit(i, deadline, SLICE)
        return 0

    cdef bint _ask_workers(self, double deadline) except -1:
        """Deliver the results of workers; if there are none, wait a while for some. Return True if any was delivered.
        """
        busy = [i for i, each in enumerate(self.machines) if each.offloaded]
        for patience in (0.0, PATIENCE):
            for i in busy:
                machine = <StepMachine>self.machines[i]
                count = len(machine.offloaded)
                machine.patience = patience
                self._visit(i, deadline, SLICE)
                machine.patience = 0
                if len(machine.offloaded) != count or self.rendezvous.table.num_runnable != 0:
                    return True
        return False

    cdef bint _find_room(self, double deadline) except -1:
        """Visit a machine whose parked instances may find released memory; return False if there is none."""
        for i in self.limited:
            if (<StepMachine>self.machines[i]).is_ready():
                self._visit(i, deadline, SLICE)
                return True
        return False

    cdef bint _retry_parked(self) except -1:
        """Retry a parked instance of a machine if no machine has other work under way; return False if none fits."""
        if not self.limited or self.offloaded or self.pending:
            return False
        for i in self.limited:
            if self.machines[i].retry_parked():
                wake_machine(&self.rendezvous.table, &(<StepMachine>self.machines[i]).machine)
                return True
        return False

    cdef int _visit(self, int i, double deadline, int budget) except -1:
        """Run a machine by `StepMachine.visit`, in its context, and wake the machine again if instances are left."""
        cdef StepMachine machine = <StepMachine>self.machines[i]
        context = self.private[i]
        if context is None:
            context = self.private[i] = (<KernelContexts>self.contexts[i]).take()
        cdef PyObject* around = enter(context)
        try:
            return machine.visit(deadline, budget)
        finally:
            leave(context, around)
            machine.machine.awake = False
            wake_machine(&self.rendezvous.table, &machine.machine)
            self._look_after(machine)

    cdef int _look_after(self, StepMachine machine) except -1:
        """Stop all machines after a failure (rule 44). Two frames with the same id are a failure too."""
        if self.rendezvous.table.id_collision:
            machine.abort(RuntimeError("internal error: two frames of different loops or iterations have one id"))
        if machine.failure is not None and self.failed is None:
            self.failed = machine
            self._stop_others(machine.failure[2])
        return 0

    cdef int _stop_others(self, object error) except -1:
        """Abort all machines without a failure."""
        for each in self.machines:
            if (<StepMachine>each).failure is None:
                each.abort(error)
        return 0

    def launches(self):
        """Return the asynchronous instances started since the last call, as `StepMachine.launches` does."""
        found = []
        for i, each in enumerate(self.machines):
            found += [((i, ticket), *rest) for ticket, *rest in each.launches()]
        return found

    def finish(self, ticket, result):
        """Deliver the result of an asynchronous instance; to be followed by a drain."""
        i, number = ticket
        (<KernelContexts>self.contexts[i]).run(self.machines[i].finish, number, result)
        self._look_after(self.machines[i])

    def fail(self, ticket, exception):
        """Fail the step with the error of an asynchronous instance."""
        i, number = ticket
        self.machines[i].fail(number, exception)
        self._look_after(self.machines[i])

    def abort(self, exception):
        """Stop the step: drop all ready instances and all values. An earlier error stays its failure."""
        if self.failed is None:
            self.failed = self.machines[0]
        self._stop_others(exception)

    def close(self):
        """Release everything; closing twice is allowed."""
        for each in self.machines:
            each.close()
        for i, context in enumerate(self.private):
            if context is not None:
                (<KernelContexts>self.contexts[i]).give(context)
                self.private[i] = None

    @property
    def failure(self):
        """The first failure, as `StepMachine.failure`, or None."""
        return None if self.failed is None else self.failed.failure

    @property
    def compiled(self):
        """The compiled plan of the machine with `failure`; of the first machine if there is none."""
        return (<StepMachine>(self.failed or self.machines[0])).compiled

    def switch_outcomes(self):
        """Return the outcomes of the root frames' Switches, as `StepMachine.switch_outcomes`, but by name."""
        return {
            each.compiled.plan.nodes[i].name: outcome
            for each in self.machines for i, outcome in each.switch_outcomes().items()
        }

    @property
    def submits(self):
        """The `submit` callback of each machine."""
        return [(<StepMachine>each).submit for each in self.machines]

    @property
    def swaps(self):
        """Swappers of the machines with a swapper."""
        return [(<StepMachine>each).swap for each in self.machines if (<StepMachine>each).swap is not None]

    @property
    def done(self):
        """True if nothing is ready, on its way or awaited from peers."""
        return all([each.done for each in self.machines]) and not self.rendezvous.awaits_peers

    @property
    def can_progress(self):
        """True if a drain would find ready instances, or parked instances for which memory may have been released."""
        return any([(<StepMachine>each).is_ready() for each in self.machines])

    @property
    def blocked_on_memory(self):
        """True if the step waits for memory to be released by others; a message of a peer may release some too.
        """
        if self.failed is not None or self.offloaded or self.pending or self.rendezvous.awaits_peers:
            return False
        return any([self.machines[i].blocked_on_memory for i in self.limited])

    def fail_out_of_memory(self):
        """Fail the step, because no memory will be released for its parked instances."""
        for i in self.limited:
            if self.machines[i].blocked_on_memory:
                self.machines[i].fail_out_of_memory()
                self._look_after(self.machines[i])
                return

    @property
    def bytes_held(self):
        """Bytes in use by arrays of each machine, and their maximum so far; zeros for a machine without a limit."""
        return [
            (each.held_bytes, each.most_held_bytes) if i in self.limited else (0, 0)
            for i, each in enumerate(self.machines)
        ]

    @property
    def stuck(self):
        """True if a finished step has Recvs or messages left over, which is an internal error.

        A part of a step waiting for a silent peer is not done, so never stuck.
        """
        return self.failed is None and self.done and self.rendezvous.waiting > 0

    @property
    def pending(self):
        """Number of asynchronous instances not finished."""
        return sum([each.pending for each in self.machines])

    @property
    def offloaded(self):
        """True if workers have work of this step."""
        return any([each.offloaded for each in self.machines])

    def expect(self, descriptor):
        """Ask workers to write to a descriptor when they have done some work; return False if some is done already."""
        return all([each.expect(descriptor) for each in self.machines])

    @property
    def fetches(self):
        """The fetched values, in the order of the step's fetches: arrays, or DEAD for a dead value."""
        found = [each.fetches for each in self.machines]
        return [found[i][k] for i, k in self.places]

    def peer_waits(self):
        """Return the instances waiting for peers.

        Returns
        -------
        list of PeerWait
        """
        remote = self.rendezvous.remote
        return [
            PeerWait(tag, remote[channel], remote[channel].peer, remote[channel].is_sent)
            for tag, channel, _, _ in self._ends()
            if tag and channel in remote
        ]

    cdef list _ends(self):
        """Return (tag, channel, sends, text of the value) of all Endpoints; the tag is empty for a message of a peer.
        """
        cdef Endpoint* end = next_end(&self.rendezvous.table, NULL)
        found = []
        while end != NULL:
            found.append(self._describe_end(end))
            end = next_end(&self.rendezvous.table, end)
        return sorted(found)

    cdef tuple _describe_end(self, const Endpoint* end):
        """Return the item of an end in the list of `_ends`."""
        cdef StepMachine machine
        tag = ""
        if end.machine != NULL:
            machine = <StepMachine>self.machines[end.machine.number]
            tag = tag_of(end.iteration, end.node, machine.compiled)
        text = "" if not end.sends else "a dead value" if end.dead else text_of(end.value)
        return tag, <int>end.key.channel, bool(end.sends), text

    cdef list _channel_lines(self):
        """Return a line for each channel end waiting for its other end."""
        lines = []
        for tag, channel, sends, text in self._ends():
            remote = self.rendezvous.remote.get(channel)
            over = f"over {remote or f'channel {channel}'}"
            if not tag:
                lines.append(f"{text} from {remote.peer} {over} waits for its Recv")
            elif sends:
                lines.append(f"{tag} waits, sending {text} {over}" + (f" to {remote.peer}" if remote else ""))
            else:
                lines.append(f"{tag} waits for a message {over}" + (f" from {remote.peer}" if remote else ""))
        return lines

    def dump(self):
        """Return lines about the waits at channels, and about each iteration's waiting, running and held values."""
        found = self._channel_lines()  # first, since a timeout quotes the first lines only
        for each in self.machines:
            lines = each.dump()
            if lines:
                found += [f"on {each.compiled.plan.device}:", *lines]
        return found
