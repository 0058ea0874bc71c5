"""The machines of one step, one for each device, with the face of a single one.

Each has its own queue, frames and windows; they know of each other only through the rendezvous. A drain goes round: a
machine runs until nothing is ready there or the time is over, in a private context of its device.
"""

from tagflow.kernels.cpu.contexts cimport KernelContexts
from tagflow.kernels.scheduler.exchange cimport Rendezvous
from tagflow.kernels.scheduler.machine cimport StepMachine
from tagflow.kernels.scheduler.tracing cimport now
from tagflow.kernels.scheduler.workers cimport PATIENCE


cdef class MachineGroup:
    """One execution of a partitioned step.

    Parameters
    ----------
    machines : list of StepMachine
        One for each device that has something to do; all given `rendezvous`.
    contexts : list of KernelContexts
        Of the devices, in the same order.
    rendezvous : Rendezvous
    fetches : list of (int, int)
        For each fetch the machine and the number it has there.

    Notes
    -----
    Tickets of asynchronous instances are pairs (machine, ticket there).
    """

    cdef list machines, contexts, places
    cdef readonly Rendezvous rendezvous
    cdef StepMachine failed  # the first that failed

    def __init__(self, list machines, list contexts, Rendezvous rendezvous, list fetches):
        self.machines, self.contexts, self.places = machines, contexts, fetches
        self.rendezvous = rendezvous
        for each in machines:
            (<StepMachine>each).patience = 0

    def drain(self, double seconds):
        """Run ready instances of all machines until there are none, or for about `seconds`.

        Returns
        -------
        bool
            Whether more are ready.

        Raises
        ------
        BaseException
            What a kernel raised that is no Exception; the step has then failed.
        """
        cdef double deadline = now() + seconds
        while self.failed is None and now() < deadline:
            if not self._go_round(deadline) and not self._ask_workers(deadline):
                break
        return self.failed is None and any([(<StepMachine>each).is_ready() for each in self.machines])

    cdef bint _go_round(self, double deadline) except -1:
        """Let each machine that has something ready run; say whether there was one."""
        cdef bint any = False
        for i, each in enumerate(self.machines):
            if (<StepMachine>each).is_ready() and now() < deadline:
                self._run(i, deadline)
                any = True
        return any

    cdef bint _ask_workers(self, double deadline) except -1:
        """Deliver what workers have done; if that is nothing, wait for the first of them. Say whether any came."""
        busy = [i for i, each in enumerate(self.machines) if each.errands]
        for patience in (0.0, PATIENCE):
            for i in busy:
                machine = <StepMachine>self.machines[i]
                count = len(machine.errands)
                machine.patience = patience
                self._run(i, deadline)
                machine.patience = 0
                if len(machine.errands) != count:
                    return True
        return False

    cdef int _run(self, int i, double deadline) except -1:
        """Let a machine run."""
        try:
            (<KernelContexts>self.contexts[i]).run(self.machines[i].drain, deadline - now())
        finally:
            self._look_after(self.machines[i])
        return 0

    cdef int _look_after(self, StepMachine machine) except -1:
        """Stop all when one has failed (rule 44); a key that stands for two frames is a failure too."""
        if self.rendezvous.broken:
            machine.abort(RuntimeError("internal error: two frames of different loops or iterations have one id"))
        if machine.failure is not None and self.failed is None:
            self.failed = machine
            self._stop_others(machine.failure[2])
        return 0

    cdef int _stop_others(self, object error) except -1:
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
        """Deliver what an asynchronous instance gave; drain afterwards."""
        i, number = ticket
        (<KernelContexts>self.contexts[i]).run(self.machines[i].finish, number, result)
        self._look_after(self.machines[i])

    def fail(self, ticket, exception):
        """Fail the step with the error of an asynchronous instance."""
        i, number = ticket
        self.machines[i].fail(number, exception)
        self._look_after(self.machines[i])

    def abort(self, exception):
        """Stop the step: drop all ready work and all values. An earlier error stays."""
        if self.failed is None:
            self.failed = self.machines[0]
        self._stop_others(exception)

    def close(self):
        """Release everything; more than once is fine."""
        for each in self.machines:
            each.close()

    @property
    def failure(self):
        """What failed first, as `StepMachine.failure`."""
        return None if self.failed is None else self.failed.failure

    @property
    def compiled(self):
        """The compiled plan that `failure` speaks of."""
        return (<StepMachine>(self.failed or self.machines[0])).compiled

    def switch_outcomes(self):
        """Return which way the Switches of the root frames went, as `StepMachine` does, but by their names."""
        return {
            each.compiled.plan.nodes[i].name: went for each in self.machines for i, went in each.switch_outcomes().items()
        }

    @property
    def done(self):
        """Whether nothing is ready and nothing on its way."""
        return all([each.done for each in self.machines])

    @property
    def stuck(self):
        """Whether a step that is done has instances that wait for messages: an internal error."""
        return self.failed is None and self.done and self.rendezvous.waiting > 0

    @property
    def pending(self):
        """Number of asynchronous instances not finished."""
        return sum([each.pending for each in self.machines])

    @property
    def errands(self):
        """Whether workers have something of this step."""
        return any([each.errands for each in self.machines])

    def expect(self, descriptor):
        """Have a descriptor written to when a worker has done its work; say False if that has happened already."""
        return all([each.expect(descriptor) for each in self.machines])

    @property
    def fetches(self):
        """What was fetched: an array each, DEAD where no value came."""
        found = [each.fetches for each in self.machines]
        return [found[i][k] for i, k in self.places]

    def dump(self):
        """Return lines that say what each iteration waits for, runs and holds, by machine."""
        return [line for each in self.machines for line in each.dump()]
