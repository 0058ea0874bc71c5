"""Where the machines of a step meet: what one sends another takes, in the same iteration of the same frame.

A key is (channel, frame id, iteration), where a channel is a Send and its Recv. Whoever comes first waits here: a Send
with its value, a Recv with nothing. Both instances stay outstanding until they have met, so no iteration in which
something waits can end, and what waits is at most a window of iterations for each channel.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from tagflow.kernels.core.frames cimport Frame, Iteration
from tagflow.kernels.core.table cimport Node, output_type
from tagflow.kernels.core.values cimport SCALAR, Value, take
from tagflow.kernels.scheduler.delivery cimport NO_MEMORY, Machine, complete, drop_inputs
from tagflow.kernels.scheduler.ready cimport Ready, push


cdef enum:
    ARRIVED = 0xFFFF  # in Pending.dead of a Recv: its message is there


cdef struct Waiting:  # one end of a channel that waits for the other
    Waiting* next  # in its bucket, or in the free list
    uint64_t hash  # of channel, frame id and iteration; its bucket is hash & mask
    Machine* machine
    Iteration* iteration  # alive, since the instance is outstanding
    uint32_t node
    uint32_t channel
    bint sends
    bint dead  # what is sent


cdef struct Traffic:  # of a channel
    int64_t messages  # taken, dead ones included
    int64_t dead
    int64_t bytes  # of the values that arrived
    int64_t most  # largest number of Sends that waited at once
    int64_t waiting  # Sends that wait now
    int64_t late  # messages for which the Recv had to wait


cdef struct Exchange:
    Waiting** buckets  # owned; `mask` + 1 of them
    uint64_t mask  # the number of buckets is a power of two
    uint64_t count  # of what waits
    Waiting* spare  # free list
    Traffic* traffic  # by channel, owned
    uint32_t num_channels
    bint broken  # two frames had one id
    uint32_t* calls  # ring: numbers of the machines that have something ready, once each; owned, NULL if nobody asks
    uint32_t first_call  # position of the oldest
    uint32_t num_calls
    uint32_t most_calls  # length of the ring: one place for each machine


cdef inline void call(Exchange* x, Machine* m) noexcept nogil:
    """Have a machine visited that has something ready, unless that is so already."""
    cdef uint32_t place = x.first_call + x.num_calls
    if m.called or x.calls == NULL or m.queue.height + m.queue.length == 0:
        return
    x.calls[place if place < x.most_calls else place - x.most_calls] = m.number
    x.num_calls += 1
    m.called = True


cdef inline int64_t next_call(Exchange* x) noexcept nogil:
    """Return the number of the machine that has waited longest for a visit, -1 if none does; it stays `called`."""
    cdef uint32_t number
    if x.num_calls == 0:
        return -1
    number = x.calls[x.first_call]
    x.first_call = 0 if x.first_call + 1 == x.most_calls else x.first_call + 1
    x.num_calls -= 1
    return number


cdef inline bint same_path(const Frame* a, const Frame* b) noexcept nogil:
    """Say whether two frames stand for the same loop, in the same iterations of the loops around."""
    while a != NULL and b != NULL:
        if a.parent == NULL or b.parent == NULL:
            return a.parent == b.parent
        if a.type.name_hash != b.type.name_hash or a.parent.number != b.parent.number:
            return False
        a, b = a.parent.frame, b.parent.frame
    return a == b


cdef inline uint64_t hash_of(uint32_t channel, const Iteration* it) noexcept nogil:
    """Return what says where ends of a channel wait in an iteration."""
    cdef uint64_t h = it.frame.id ^ (<uint64_t>channel << 32) ^ <uint64_t>it.number
    h = (h ^ (h >> 29)) * <uint64_t>0xBF58476D1CE4E5B9
    return h ^ (h >> 32)


cdef inline Waiting* meet(Exchange* x, uint32_t channel, const Iteration* it, bint sends) noexcept nogil:
    """Take out the end of a channel that has waited longest for one that `sends`, or not; NULL if there is none."""
    cdef uint64_t hash = hash_of(channel, it)
    cdef Waiting** place = &x.buckets[hash & x.mask]
    cdef Waiting* found
    while place[0] != NULL:
        found = place[0]
        if found.hash == hash and found.channel == channel and found.sends != sends:
            if found.iteration.number == it.number and found.iteration.frame.id == it.frame.id:
                if not same_path(found.iteration.frame, it.frame):
                    x.broken = True
                    return NULL
                place[0] = found.next
                x.count -= 1
                return found
        place = &found.next
    return NULL


cdef inline bint grow(Exchange* x) noexcept nogil:
    """Double the number of buckets; say whether there was memory."""
    cdef uint64_t old = x.mask + 1
    cdef uint64_t i
    cdef Waiting* each
    cdef Waiting* following
    cdef Waiting** place
    cdef Waiting** before = x.buckets
    cdef Waiting** buckets = <Waiting**>calloc(2 * old, sizeof(void*))
    if buckets == NULL:
        return False
    x.buckets, x.mask = buckets, 2 * old - 1
    for i in range(old):
        each = before[i]
        while each != NULL:
            following = each.next
            place = &buckets[each.hash & x.mask]
            while place[0] != NULL:
                place = &place[0].next
            each.next = NULL
            place[0] = each
            each = following
    free(before)
    return True


cdef inline bint wait(Exchange* x, Machine* m, Iteration* it, uint32_t node, bint sends, bint dead) noexcept nogil:
    """Let an end of a channel wait, behind those that wait for the same; say whether there was memory."""
    cdef Waiting* made = x.spare
    cdef Waiting** place
    if x.count > x.mask and not grow(x):
        return False
    if made != NULL:
        x.spare = made.next
    else:
        made = <Waiting*>malloc(sizeof(Waiting))
        if made == NULL:
            return False
    made.next, made.machine, made.iteration, made.node = NULL, m, it, node
    made.channel, made.sends, made.dead = m.table.nodes[node].index, sends, dead
    made.hash = hash_of(made.channel, it)
    place = &x.buckets[made.hash & x.mask]
    while place[0] != NULL:
        place = &place[0].next
    place[0] = made
    x.count += 1
    return True


cdef inline void forget(Exchange* x, Waiting* met) noexcept nogil:
    """Give back an end that has met the other."""
    met.next = x.spare
    x.spare = met


cdef inline void land(Machine* m, Iteration* it, uint32_t number, Value value, bint dead) noexcept nogil:
    """Give a Recv, which is outstanding, what was sent, and take it up again."""
    cdef const Node* node = &m.table.nodes[number]
    cdef Ready ready
    if value.form == SCALAR:
        (<Exchange*>m.exchange).traffic[node.index].bytes += output_type(m.table, node, 0).size
    it.slots[node.slot] = value
    it.pending[node.place].dead = ARRIVED
    ready.iteration, ready.node, ready.dead = it, number, dead
    if not push(&m.queue, ready, True):
        m.trouble |= NO_MEMORY
    call(<Exchange*>m.exchange, m)


cdef inline void send(Machine* m, Iteration* it, uint32_t number, bint dead) noexcept nogil:
    """Send what an instance has, live or dead; if nobody waits for that, it stays outstanding until somebody does."""
    cdef const Node* node = &m.table.nodes[number]
    cdef Exchange* x = <Exchange*>m.exchange
    cdef Traffic* traffic = &x.traffic[node.index]
    cdef Waiting* met
    if dead:
        drop_inputs(m, it, node)
    met = meet(x, node.index, it, True)
    traffic.messages += 1
    traffic.dead += dead
    if met != NULL:
        traffic.late += 1
        land(met.machine, met.iteration, met.node, take(&it.slots[node.slot]), dead)
        forget(x, met)
    elif not wait(x, m, it, number, True, dead):
        m.trouble |= NO_MEMORY
    else:
        m.waits = True
        traffic.waiting += 1
        traffic.most = max(traffic.most, traffic.waiting)


cdef inline void receive(Machine* m, Iteration* it, uint32_t number) noexcept nogil:
    """Take what was sent, or wait for it; the instance is taken up again when it is there, as live as that (rule 19)."""
    cdef const Node* node = &m.table.nodes[number]
    cdef Exchange* x = <Exchange*>m.exchange
    cdef Waiting* met = meet(x, node.index, it, False)
    cdef Machine* other
    m.waits = True
    if met == NULL:
        if not wait(x, m, it, number, False, False):
            m.trouble |= NO_MEMORY
        return
    other = met.machine
    x.traffic[node.index].waiting -= 1
    land(m, it, number, take(&met.iteration.slots[other.table.nodes[met.node].slot]), met.dead)
    complete(other, met.iteration)
    call(x, other)
    forget(x, met)


cdef class Rendezvous:
    """Where the machines of a step meet."""

    cdef Exchange exchange

    cdef int open(self, uint32_t num_channels) except -1
    cdef int expect_calls(self, uint32_t num_machines) except -1
    cdef void clear(self) noexcept
