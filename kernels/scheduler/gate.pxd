"""Iterations begin only while memory allows: as many as the limit of a device's pool has room for.

What an iteration takes is counted on an account of its own. The first of a loop runs alone; the largest so far says
what those after it should need, which is reserved for each from its beginning on. Of a loop that reads what another has
saved the second runs alone as well: the first often finds zeros where others find values. See
docs/design/0011-memory-limits.md.
"""

from libc.stdint cimport int64_t, uint32_t

from tagloom.kernels.core.frames cimport Frame, Iteration
from tagloom.kernels.core.table cimport FrameType
from tagloom.kernels.memory.accounts cimport close_account, open_account, reserved_by
from tagloom.kernels.memory.blocks cimport Account, Store

cdef enum:
    UNKNOWN = -1  # in MemoryGate.iteration_bytes: no iteration has ended yet


cdef struct MemoryGate:
    Store* store  # of the pool whose limit is kept
    FrameType* frames  # of the plan
    int64_t* iteration_bytes  # by frame of the plan: most bytes that an iteration took in this step, or UNKNOWN
    bint* is_representative  # by frame of the plan: whether that is known of one that is not the first of its loop
    Frame* held  # chain of frames with values for an iteration that has not begun
    uint32_t parked  # instances that wait for memory


cdef inline Account* account_of(const Iteration* it) noexcept nogil:
    """Return the account of an iteration, or of the nearest around it; NULL outside loops."""
    while it.account == NULL and it.frame.parent != NULL:
        it = it.frame.parent
    return <Account*>it.account


cdef inline int64_t reserved_around(const Account* account) noexcept nogil:
    """Return what an account and those around it should still need."""
    cdef int64_t total = 0
    while account != NULL:
        total += reserved_by(account)
        account = account.parent
    return total


cdef inline bint is_oldest(const Iteration* it) noexcept nogil:
    """Say whether no iteration of the loops around comes before this one."""
    while it.frame.parent != NULL:
        if it != it.frame.oldest:
            return False
        it = it.frame.parent
    return True


cdef inline bint is_backward(const Iteration* it) noexcept nogil:
    """Say whether it is of a loop that reads, and so gives back, what another has saved."""
    while it.frame.parent != NULL:
        if it.frame.type.backward:
            return True
        it = it.frame.parent
    return False


cdef inline bint admits_iteration(const MemoryGate* gate, const Frame* frame) noexcept nogil:
    """Say whether the next iteration of a frame may begin: there are bytes for one, neither used nor reserved."""
    cdef int64_t need = gate.iteration_bytes[frame.type - gate.frames]
    if frame.alive == 0:
        return True  # a loop without an iteration could never go on, nor give anything back
    if frame.type.backward and not gate.is_representative[frame.type - gate.frames]:
        return False  # iteration 0 may have found zeros, or values that never left: iteration 1 runs alone too
    if frame.alive >= frame.type.window or gate.parked != 0 or need == UNKNOWN:
        return False  # where instances are parked, new iterations must not take what these wait for
    # What the iterations around this loop have reserved is for the work inside them, of which this iteration is a part.
    # So it is left out, or an outer iteration would keep its own inner loop from running.
    need += gate.store.budget.live + gate.store.budget.reserved - reserved_around(account_of(frame.parent))
    return need <= gate.store.budget.limit


cdef inline void hold_frame(MemoryGate* gate, Frame* frame) noexcept nogil:
    """Keep a frame in mind whose next iteration may not begin yet, and count that, for reports."""
    cdef Frame** place = &gate.held
    if frame.is_held:
        return  # all its NextIterations come by here
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
    """Forget a frame whose next iteration begins."""
    cdef Frame** place = &gate.held
    if not frame.is_held:
        return
    while place[0] != frame:
        place = &place[0].next_held
    place[0] = frame.next_held
    frame.is_held = False


cdef inline void begin_iteration(MemoryGate* gate, Iteration* it) noexcept nogil:
    """Count what an iteration takes from now on."""
    cdef int64_t need = gate.iteration_bytes[it.frame.type - gate.frames]
    release_frame(gate, it.frame)
    it.account = open_account(gate.store, account_of(it), max(need, 0))


cdef inline void end_iteration(MemoryGate* gate, Iteration* it) noexcept nogil:
    """Note what an iteration took; one that only found that the loop is over says nothing about others."""
    cdef int64_t* need = &gate.iteration_bytes[it.frame.type - gate.frames]
    if it.account == NULL:
        return
    if it.advanced != 0:
        need[0] = max(need[0], (<Account*>it.account).peak)
        if it.number != 0:
            gate.is_representative[it.frame.type - gate.frames] = True
    close_account(gate.store, <Account*>it.account)
    it.account = NULL
