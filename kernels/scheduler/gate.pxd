"""Admission of loop iterations under a memory limit: as many run at once as a device's pool has room for.

The bytes of an iteration are counted on an account of its own. The first iteration of a loop runs alone. From then on
the largest iteration so far is the estimate of a further iteration, and is reserved when that iteration begins. In a
backward loop, which reads the values saved by another loop, the second iteration runs alone as well: the first often
finds zeros where others find values. See docs/design/0011-memory-limits.md.
"""

from libc.stdint cimport int64_t, uint32_t

from tagloom.kernels.core.frames cimport Frame, Iteration
from tagloom.kernels.core.table cimport FrameType
from tagloom.kernels.memory.accounts cimport close_account, open_account, reserved_by
from tagloom.kernels.memory.blocks cimport Account, Store

cdef enum:
    UNKNOWN = -1  # in MemoryGate.iteration_bytes: no iteration has ended yet


cdef struct MemoryGate:
    Store* store  # of the pool with the limit
    FrameType* frames  # of the plan
    int64_t* iteration_bytes  # by frame type: most bytes of an iteration that ended in this step, or UNKNOWN
    bint* is_representative  # by frame type: an iteration has ended, not counting the first of its loop
    Frame* held  # first of the frames whose next iteration waits, linked by `next_held`, oldest first
    uint32_t parked  # number of instances that wait for memory


cdef inline Account* account_of(const Iteration* it) noexcept nogil:
    """Return the account of an iteration, or of the nearest enclosing iteration with an account; NULL outside loops."""
    while it.account == NULL and it.frame.parent != NULL:
        it = it.frame.parent
    return <Account*>it.account


cdef inline int64_t reserved_around(const Account* account) noexcept nogil:
    """Return the bytes reserved for an account and all its parents."""
    cdef int64_t total = 0
    while account != NULL:
        total += reserved_by(account)
        account = account.parent
    return total


cdef inline bint is_oldest(const Iteration* it) noexcept nogil:
    """Return True if an iteration is the oldest of its frame, as are all iterations around it."""
    while it.frame.parent != NULL:
        if it != it.frame.oldest:
            return False
        it = it.frame.parent
    return True


cdef inline bint is_backward(const Iteration* it) noexcept nogil:
    """Return True for an iteration in a backward loop, which reads, and so releases, values saved by another loop."""
    while it.frame.parent != NULL:
        if it.frame.type.backward:
            return True
        it = it.frame.parent
    return False


cdef inline bint admits_iteration(const MemoryGate* gate, const Frame* frame) noexcept nogil:
    """Return True if the next iteration of a frame may begin: the estimate fits beside the used and the reserved bytes.
    """
    cdef int64_t need = gate.iteration_bytes[frame.type - gate.frames]
    if frame.alive == 0:
        return True  # without a running iteration the loop would never go on, nor release memory
    if frame.type.backward and not gate.is_representative[frame.type - gate.frames]:
        return False  # iteration 0 may have found zeros, or values that were never swapped out: 1 runs alone too
    if frame.alive >= frame.type.window or gate.parked != 0 or need == UNKNOWN:
        return False  # new iterations must not take the memory that parked instances wait for
    # The reservations of the enclosing iterations are for work inside of them, of which this iteration is a part. They
    # do not count here, otherwise an outer iteration would keep its own inner loop from running.
    need += gate.store.budget.live + gate.store.budget.reserved - reserved_around(account_of(frame.parent))
    return need <= gate.store.budget.limit


cdef inline void hold_frame(MemoryGate* gate, Frame* frame) noexcept nogil:
    """Append a frame whose next iteration has to wait to the held ones; count the cause for reports."""
    cdef Frame** place = &gate.held
    if frame.is_held:
        return  # each NextIteration of the frame calls this
    if frame.alive >= frame.type.window:
        frame.type.counts.held_back += 1
    else:
        frame.type.counts.blocked_on_memory += 1
    while place[0] != NULL:
        place = &place[0].next_held
    place[0] = frame
    frame.is_held = True
    frame.next_held = NULL


cdef inline void release_frame(MemoryGate* gate, Frame* frame) noexcept nogil:
    """Remove a frame whose next iteration begins from the held ones."""
    cdef Frame** place = &gate.held
    if not frame.is_held:
        return
    while place[0] != frame:
        place = &place[0].next_held
    place[0] = frame.next_held
    frame.is_held = False


cdef inline void begin_iteration(MemoryGate* gate, Iteration* it) noexcept nogil:
    """Open the account of an iteration at its begin, with the estimate as its expected bytes."""
    cdef int64_t need = gate.iteration_bytes[it.frame.type - gate.frames]
    release_frame(gate, it.frame)
    it.account = open_account(gate.store, account_of(it), max(need, 0))


cdef inline void end_iteration(MemoryGate* gate, Iteration* it) noexcept nogil:
    """Close the account of an iteration, and update the estimate.

    The last iteration only finds the loop over, so its bytes are no estimate of others.
    """
    cdef int64_t* need = &gate.iteration_bytes[it.frame.type - gate.frames]
    if it.account == NULL:
        return
    if it.advanced != 0:
        need[0] = max(need[0], (<Account*>it.account).peak)
        if it.number != 0:
            gate.is_representative[it.frame.type - gate.frames] = True
    close_account(gate.store, <Account*>it.account)
    it.account = NULL
