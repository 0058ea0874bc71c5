"""State of a step while it runs."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Work
from tagloom.kernels.core.values cimport Counters, Value
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.log cimport Log
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.rendezvous cimport Rendezvous
from tagloom.kernels.scheduler.workers cimport Inbox, Workers


cdef class PendingInstance:
    cdef Ready ready  # an outstanding instance; iteration NULL once the step has failed
    cdef int64_t begin  # nanoseconds, when it was launched
    cdef Value* outputs  # owned, `num_outputs` of them: outputs of a kernel that is not over; else NULL
    cdef uint32_t num_outputs
    cdef bint looked_at  # the guard looks at the outputs
    cdef Counters* live

    cdef int keep_outputs(self, Machine* m, uint32_t count) except -1
    cdef void give_outputs_back(self, Machine* m) noexcept
    cdef void forget_outputs(self) noexcept


cdef class StepState:
    cdef Machine machine  # its arrays are owned by `arena`, the values in them by this object
    cdef Arena arena
    cdef readonly CompiledPlan compiled  # keeps machine.table alive
    cdef readonly object step  # handed to stateful kernels
    cdef readonly object failure  # None or (node, tag, exception, input shapes)
    cdef PyObject** arguments  # scratch for a call: one slot to spare, the instance, the inputs
    cdef dict pending_instances  # by ticket: asynchronous instances, and those whose kernel is not over on its device
    cdef dict resumed  # (iteration, node) -> continuation of an instance that has waited for its inputs
    cdef bint goes_on  # the C kernel that runs continues unfinished work
    cdef dict unfinished  # (iteration, node) -> unfinished work of a C kernel that has done a slice; or None
    cdef set declined  # (iteration, node) of instances that want their Python kernel, as their C kernel found; or None
    cdef dict lines  # node -> OperationLine of instances that wait for one another, or None
    cdef list launched  # return value of the next `launches`
    cdef Workers workers  # None: all work is done in the drain
    cdef Inbox inbox  # where the workers put finished tasks; open while `workers` is there
    cdef Work work  # scratch: the work that a C kernel leaves
    cdef readonly set offloaded  # OffloadedWork: handed over and not yet delivered
    cdef int64_t tickets  # instances that went on their way so far
    cdef int64_t looks  # of them, instances whose outputs the guard checks
    cdef Rendezvous rendezvous  # None: it is alone
    cdef readonly object guard  # called with floating outputs, or None
    cdef readonly object swap  # keeps saved values and reads them, or None; see tagloom.swap.swapper
    cdef readonly object submit  # returns an awaitable of the end of a kernel on its device, or None
    cdef Log log  # None: nothing is traced
    cdef double patience  # seconds that a drain waits for the workers before it yields to the event loop
    cdef bint draining  # inside a drain; then stopping waits for its end
    cdef bint closed
    cdef list parked  # instances that wait for memory, oldest first, where there is a limit; else None

    cdef bint _is_idle(self) noexcept
    cdef bint is_ready(self) noexcept
    cdef int _open(self, list feeds, object shuffle_seed) except -1
    cdef int _start(self) except -1
    cdef int _dismiss(self) except -1
    cdef int _look_after(self, Ready ready) except -1
    cdef int _conclude(self, Ready ready, object result) except -1
    cdef int _run_again(self, Ready ready, bint at_once=*) except -1
    cdef int _resume(self, PendingInstance instance, object call) except -1
    cdef int _deliver(self, Ready ready) except -1
    cdef int _emit(self, Ready ready, bint guarded) except -1
    cdef int _accept(self, PendingInstance instance, object result) except -1
    cdef int _guard_elsewhere(self, Ready ready) except -1
    cdef int _stream(self, Ready ready) noexcept
    cdef int _emit_with_span(self, Ready ready, int64_t begin, int64_t end, int stream) except -1
    cdef PendingInstance _launch(self, Ready ready, object awaitable)
    cdef int _fail(self, Ready ready, object exception) except -1
    cdef int _stop(self) except -1
