"""Frame instances and their iterations: one block each, pooled by frame.

The iterations of a frame are a chain from the oldest alive to the newest. They start and end in order, so the
chain is the window; nothing ever looks an iteration up by its number.

See docs/design/0003-step-machine.md.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset

from tagloom.kernels.core.table cimport FrameType, Link, LoopCounts, Pending
from tagloom.kernels.core.values cimport EMPTY, Counters, Py_XDECREF, Value, count_in, count_out, drop

cdef enum:
    NEVER = -1  # in Frame.exits: this Exit has not fired
    LEFT = -2  # in Frame.exits: this Exit has sent a live value


cdef struct Deferred:
    Value value  # owned; EMPTY if dead
    uint32_t node  # NextIteration or constant Enter that sent it
    uint32_t dead  # 0 or 1


cdef struct Frame:
    Frame* next_free  # in the pool; must be the first field, as in Link
    FrameType* type
    Iteration* parent  # in which its Enters fired; NULL for the root. It outlives this frame
    uint64_t id  # tags.frame_id of parent frame, parent iteration and name; 0 for the root
    uint64_t path_hash  # a second hash of the same path, which tells frames of one id apart; 0 for the root
    Iteration* oldest  # first of the chain of iterations alive; NULL when none is
    Iteration* newest  # last of the chain
    int64_t started  # iterations ever started; the newest has number started - 1
    uint32_t alive  # length of the chain, <= type.window
    uint32_t window  # type.window; 0 where the gate is to be asked for each iteration
    bint is_held  # in the gate's chain of frames whose next iteration may not begin yet
    Frame* next_held  # in that chain
    uint32_t enters_pending  # Enters that have not arrived yet
    uint32_t num_deferred  # used part of `deferred`
    uint32_t num_arrived  # used part of `invariants`
    uint32_t was_live  # 1 once LoopCond was live in some iteration
    PyObject* path  # str, owned; NULL until its first use
    Deferred* deferred  # NextIterations that wait for room in the window, in order of arrival; type.num_nexts
    Deferred* invariants  # constant Enters that have arrived, in order of arrival; type.num_invariants
    int64_t* exits  # by rank: iteration in which the Exit was dead last, NEVER or LEFT
    PyObject** series  # Series, owned; NULL until the first push


cdef struct Iteration:
    Iteration* next  # the following iteration of the frame; in the pool: next free block
    Frame* frame
    int64_t number  # from 0
    uint32_t outstanding  # instances that became ready and have not completed (rule 27)
    uint32_t num_children  # child frames alive
    uint32_t advanced  # live NextIterations that fired
    void* account  # an Account of the iteration's memory, held; NULL without a limit
    Frame** children  # by rank: child frame alive, or NULL
    Value* slots  # inputs that have arrived and were not consumed, owned; EMPTY otherwise
    Pending* pending  # counts of the inputs for which each node still waits


@cython.overflowcheck(False)
cdef inline uint64_t frame_id(uint64_t parent, int64_t iteration, uint64_t name) noexcept nogil:
    """Return the id of a frame; the same function as tags.frame_id (rule 23)."""
    cdef uint64_t x = parent * 0x9E3779B97F4A7C15u + <uint64_t>iteration * 0xD1B54A32D192ED03u + name
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu
    x ^= x >> 31
    return x if x != 0 else 1


@cython.overflowcheck(False)
cdef inline uint64_t path_hash(uint64_t parent, int64_t iteration, uint64_t name) noexcept nogil:
    """Return the path hash of a frame: other constants and another order of mixing than `frame_id`."""
    cdef uint64_t x = (parent ^ <uint64_t>iteration) * 0xFF51AFD7ED558CCDu + name * 0xC4CEB9FE1A85EC53u
    x = (x ^ (x >> 33)) * 0x9FB21C651E98DF25u
    return x ^ (x >> 28)


cdef inline Iteration* new_iteration_block(const FrameType* type) noexcept nogil:
    """Return a block for iterations of a frame with all slots EMPTY, or NULL."""
    cdef size_t children = sizeof(Iteration)
    cdef size_t slots = children + type.num_children * sizeof(void*)
    cdef size_t pending = slots + type.num_slots * sizeof(Value)
    cdef char* block = <char*>calloc(1, pending + type.num_nodes * sizeof(Pending))
    cdef Iteration* iteration = <Iteration*>block
    if block != NULL:
        iteration.children = <Frame**>(block + children)
        iteration.slots = <Value*>(block + slots)
        iteration.pending = <Pending*>(block + pending)
    return iteration


cdef inline Iteration* iteration_of(const FrameType* type, const Value* slots) noexcept nogil:
    """Return the iteration of a frame that `slots` belong to."""
    return <Iteration*>(<char*>slots - type.num_children * sizeof(void*) - sizeof(Iteration))


cdef inline Iteration* append_iteration(Counters* live, Frame* frame) noexcept nogil:
    """Start the next iteration of a frame, with fresh counts; NULL if there is no memory."""
    cdef FrameType* type = frame.type
    cdef Iteration* iteration = <Iteration*>type.free_iterations
    if iteration != NULL:
        type.free_iterations = <Link*>iteration.next
    else:
        iteration = new_iteration_block(type)
        if iteration == NULL:
            return NULL
    iteration.next = NULL
    iteration.frame = frame
    iteration.number = frame.started
    iteration.outstanding = iteration.num_children = iteration.advanced = 0
    iteration.account = NULL
    memcpy(iteration.pending, type.template, type.num_nodes * sizeof(Pending))
    frame.started += 1
    frame.alive += 1
    if frame.oldest == NULL:
        frame.oldest = iteration
    else:
        frame.newest.next = iteration
    frame.newest = iteration
    count_in(live, &live.iterations)
    return iteration


cdef inline void count_start(Frame* frame) noexcept nogil:
    """Count an iteration, for reports."""
    cdef LoopCounts* counts = &frame.type.counts
    counts.starts += 1
    counts.alive += frame.alive
    counts.most = max(counts.most, <int64_t>frame.alive)


cdef inline void count_launch(Frame* frame, uint32_t in_flight) noexcept nogil:
    """Count an asynchronous instance in all loops it is in."""
    while frame.parent != NULL:
        frame.type.counts.launches += 1
        frame.type.counts.awaited += in_flight
        frame = frame.parent.frame


cdef inline void remove_oldest(Counters* live, Frame* frame) noexcept nogil:
    """End the oldest iteration: drop the inputs of its waiting nodes and return the block to the pool."""
    cdef Iteration* iteration = frame.oldest
    cdef FrameType* type = frame.type
    cdef uint32_t i
    frame.oldest = iteration.next
    frame.alive -= 1
    if frame.oldest == NULL:
        frame.newest = NULL
    for i in range(type.num_slots):
        if iteration.slots[i].form != EMPTY:
            drop(live, &iteration.slots[i])
    iteration.next = <Iteration*>type.free_iterations
    type.free_iterations = <Link*>iteration
    count_out(live, &live.iterations)


cdef inline Frame* new_frame_block(const FrameType* type) noexcept nogil:
    """Return a block for instances of a frame, or NULL."""
    cdef size_t deferred = sizeof(Frame)
    cdef size_t invariants = deferred + type.num_nexts * sizeof(Deferred)
    cdef size_t exits = invariants + type.num_invariants * sizeof(Deferred)
    cdef size_t series = exits + type.num_exits * sizeof(int64_t)
    cdef char* block = <char*>calloc(1, series + type.num_series * sizeof(void*))
    cdef Frame* frame = <Frame*>block
    if block != NULL:
        frame.deferred = <Deferred*>(block + deferred)
        frame.invariants = <Deferred*>(block + invariants)
        frame.exits = <int64_t*>(block + exits)
        frame.series = <PyObject**>(block + series)
    return frame


cdef inline Frame* open_frame(Counters* live, FrameType* type, Iteration* parent) noexcept nogil:
    """Return a new instance of a frame, with no iteration yet; NULL if there is no memory."""
    cdef Frame* frame = <Frame*>type.free_frames
    if frame != NULL:
        type.free_frames = <Link*>frame.next_free
    else:
        frame = new_frame_block(type)
        if frame == NULL:
            return NULL
    frame.type = type
    frame.parent = parent
    frame.id = frame.path_hash = 0
    if parent != NULL:
        frame.id = frame_id(parent.frame.id, parent.number, type.name_hash)
        frame.path_hash = path_hash(parent.frame.path_hash, parent.number, type.name_hash)
    frame.oldest = frame.newest = NULL
    frame.started = 0
    frame.enters_pending = type.num_enters
    frame.window = type.window
    frame.is_held = False
    frame.alive = frame.num_deferred = frame.num_arrived = frame.was_live = 0
    memset(frame.exits, 0xFF, type.num_exits * sizeof(int64_t))  # all NEVER
    count_in(live, &live.frames)
    return frame


cdef inline void close_frame(Counters* live, Frame* frame) noexcept nogil:
    """Drop the values of a frame without iterations and return the block to the pool."""
    cdef FrameType* type = frame.type
    cdef PyObject* owned
    cdef uint32_t i
    for i in range(frame.num_deferred):
        drop(live, &frame.deferred[i].value)
    for i in range(frame.num_arrived):
        drop(live, &frame.invariants[i].value)
    for i in range(type.num_series):
        owned = frame.series[i]
        frame.series[i] = NULL
        Py_XDECREF(owned)
    owned = frame.path
    frame.path = NULL
    Py_XDECREF(owned)
    frame.next_free = <Frame*>type.free_frames
    type.free_frames = <Link*>frame
    count_out(live, &live.frames)
