"""Queue of ready instances: a stack for instances resolved at once, a ring for instances with a kernel.

With a seed everything goes through the ring and leaves it in random order (rule 51). Where memory is short the ring is
left depth first, older iterations before younger iterations: values used sooner are released sooner.

See docs/design/0003-step-machine.md.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc

from tagloom.kernels.core.frames cimport Iteration


cdef struct Ready:
    Iteration* iteration  # alive, since this instance counts among its outstanding
    uint32_t node
    uint32_t dead  # 0 or 1


cdef enum:
    DEPTH_FIRST = 1  # in Queue.random


cdef struct Queue:
    Ready* stack  # last in, first out; owned
    uint64_t height  # instances on the stack
    uint64_t stack_capacity
    Ready* ring  # first in, first out; owned
    uint64_t head  # position of the oldest, below `mask + 1`
    uint64_t length  # instances in the ring
    uint64_t mask  # capacity of the ring - 1; the capacity is a power of two
    uint64_t random  # state of the generator that picks from the ring; 0: take the oldest; DEPTH_FIRST


cdef inline bint open_queue(Queue* queue, uint64_t random) noexcept nogil:
    """Allocate the first blocks; return False if there is no memory."""
    queue.stack_capacity = 64
    queue.mask = 63
    queue.random = random
    queue.stack = <Ready*>malloc(queue.stack_capacity * sizeof(Ready))
    queue.ring = <Ready*>malloc((queue.mask + 1) * sizeof(Ready))
    return queue.stack != NULL and queue.ring != NULL


cdef inline void close_queue(Queue* queue) noexcept nogil:
    """Free the blocks; the queue may never have been opened."""
    free(queue.stack)
    free(queue.ring)
    queue.stack = queue.ring = NULL
    queue.height = queue.length = 0


cdef inline bint grow_stack(Queue* queue) noexcept nogil:
    """Double the stack; return False if there is no memory."""
    cdef Ready* grown = <Ready*>realloc(queue.stack, 2 * queue.stack_capacity * sizeof(Ready))
    if grown == NULL:
        return False
    queue.stack = grown
    queue.stack_capacity *= 2
    return True


cdef inline bint grow_ring(Queue* queue) noexcept nogil:
    """Double the ring, oldest first; return False if there is no memory."""
    cdef Ready* grown = <Ready*>malloc(2 * (queue.mask + 1) * sizeof(Ready))
    cdef uint64_t i
    if grown == NULL:
        return False
    for i in range(queue.length):
        grown[i] = queue.ring[(queue.head + i) & queue.mask]
    free(queue.ring)
    queue.ring = grown
    queue.head = 0
    queue.mask = 2 * queue.mask + 1
    return True


cdef inline bint push(Queue* queue, Ready ready, bint at_once) noexcept nogil:
    """Add an instance; return False if there is no memory."""
    if at_once and queue.random <= DEPTH_FIRST:
        if queue.height == queue.stack_capacity and not grow_stack(queue):
            return False
        queue.stack[queue.height] = ready
        queue.height += 1
        return True
    if queue.length == queue.mask + 1 and not grow_ring(queue):
        return False
    queue.ring[(queue.head + queue.length) & queue.mask] = ready
    queue.length += 1
    return True


@cython.overflowcheck(False)
cdef inline void bring_forward(Queue* queue) noexcept nogil:
    """Exchange the oldest instance of the ring with a random instance (xorshift)."""
    queue.random ^= queue.random << 13
    queue.random ^= queue.random >> 7
    queue.random ^= queue.random << 17
    cdef uint64_t chosen = (queue.head + queue.random % queue.length) & queue.mask
    queue.ring[chosen], queue.ring[queue.head] = queue.ring[queue.head], queue.ring[chosen]


cdef inline uint32_t depth_of(const Iteration* it) noexcept nogil:
    """Return how many loops are around."""
    cdef uint32_t depth = 0
    while it.frame.parent != NULL:
        it = it.frame.parent
        depth += 1
    return depth


cdef inline bint is_younger(const Iteration* a, const Iteration* b) noexcept nogil:
    """Return True if iteration `a`, or its ancestor in the outermost loop where the two differ, comes later than `b`'s.
    """
    cdef int64_t deeper = <int64_t>depth_of(a) - <int64_t>depth_of(b)
    cdef bint younger = False
    while deeper > 0:
        a = a.frame.parent
        deeper -= 1
    while deeper < 0:
        b = b.frame.parent
        deeper += 1
    while a.frame.parent != NULL:  # the outermost loop decides
        if a.number != b.number:
            younger = a.number > b.number
        a, b = a.frame.parent, b.frame.parent
    return younger


cdef inline Ready* newest(const Queue* queue) noexcept nogil:
    return &queue.ring[(queue.head + queue.length - 1) & queue.mask]


cdef inline void prefer_older(Queue* queue) noexcept nogil:
    """Exchange the two newest instances if the newest is of a younger iteration."""
    cdef Ready* last = newest(queue)
    cdef Ready* other = &queue.ring[(queue.head + queue.length - 2) & queue.mask]
    if queue.length > 1 and is_younger(last.iteration, other.iteration):
        last[0], other[0] = other[0], last[0]


cdef inline bint pop_ring(Queue* queue, Ready* ready) noexcept nogil:
    """Take an instance off the ring; return False for an empty ring."""
    if queue.length == 0:
        return False
    if queue.random > DEPTH_FIRST:
        bring_forward(queue)
    elif queue.random == DEPTH_FIRST:
        prefer_older(queue)
        if not is_younger(newest(queue).iteration, queue.ring[queue.head].iteration):
            ready[0] = newest(queue)[0]
            queue.length -= 1
            return True
    ready[0] = queue.ring[queue.head]
    queue.head = (queue.head + 1) & queue.mask
    queue.length -= 1
    return True


cdef inline bint pop_stack(Queue* queue, Ready* ready) noexcept nogil:
    """Take an instance off the stack; return False for an empty stack."""
    if queue.height == 0:
        return False
    queue.height -= 1
    ready[0] = queue.stack[queue.height]
    return True
