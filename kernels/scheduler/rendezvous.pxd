"""Where the machines of a step meet: what one sends another takes, in the same iteration of the same frame.

A key is (channel, frame id, iteration), where a channel is a Send and its Recv. The instance that comes first leaves an
Endpoint here: a Send with its value, a Recv with nothing. Both instances stay outstanding until they are matched, so no
iteration that has an Endpoint here can end, and there is at most a window of iterations of them for each channel.

See docs/design/0009-devices.md.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from tagloom.kernels.core.frames cimport Frame, Iteration
from tagloom.kernels.core.table cimport Node, output_type
from tagloom.kernels.core.values cimport SCALAR, Value, take
from tagloom.kernels.scheduler.delivery cimport NO_MEMORY, Machine, complete, drop_inputs
from tagloom.kernels.scheduler.ready cimport Ready, push


cdef enum:
    ARRIVED = 0xFFFF  # in Pending.dead of a Recv: its message is there


cdef struct Endpoint:  # one end of a channel that waits for the other
    Endpoint* next  # in its bucket, or in the free list
    uint64_t hash  # of channel, frame id and iteration; its bucket is hash & mask
    Machine* machine
    Iteration* iteration  # alive, since the instance is outstanding
    uint32_t node
    uint32_t channel
    bint sends
    bint dead  # what is sent


cdef struct ChannelTraffic:  # of a channel
    int64_t messages  # taken, dead ones included
    int64_t dead
    int64_t bytes  # of the values that arrived
    int64_t most  # largest number of Sends that waited at once
    int64_t waiting  # Sends that wait now
    int64_t late  # messages for which the Recv had to wait


cdef struct RendezvousTable:
    Endpoint** buckets  # owned; `mask` + 1 of them
    uint64_t mask  # the number of buckets is a power of two
    uint64_t count  # of those in the buckets
    Endpoint* free_list  # those that are in no bucket
    ChannelTraffic* traffic  # by channel, owned
    uint32_t num_channels
    bint id_collision  # two different frames have one id
    uint32_t* runnable  # ring: numbers of the machines that have something ready, once each; owned, NULL if nobody asks
    uint32_t first_runnable  # position of the oldest
    uint32_t num_runnable
    uint32_t most_runnable  # length of the ring: one place for each machine


cdef inline void wake_machine(RendezvousTable* rendezvous, Machine* m) noexcept nogil:
    """Have a machine visited that has ready instances, unless that is so already."""
    cdef uint32_t place = rendezvous.first_runnable + rendezvous.num_runnable
    if m.awake or rendezvous.runnable == NULL or m.queue.height + m.queue.length == 0:
        return
    rendezvous.runnable[place if place < rendezvous.most_runnable else place - rendezvous.most_runnable] = m.number
    rendezvous.num_runnable += 1
    m.awake = True


cdef inline int64_t next_machine(RendezvousTable* rendezvous) noexcept nogil:
    """Return the number of the machine that has waited longest for a visit, -1 if none does; it stays `awake`."""
    cdef uint32_t number
    if rendezvous.num_runnable == 0:
        return -1
    number = rendezvous.runnable[rendezvous.first_runnable]
    rendezvous.first_runnable += 1
    if rendezvous.first_runnable == rendezvous.most_runnable:
        rendezvous.first_runnable = 0
    rendezvous.num_runnable -= 1
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


cdef inline Endpoint* match(
        RendezvousTable* rendezvous, uint32_t channel, const Iteration* it, bint sends) noexcept nogil:
    """Take out the oldest Endpoint that a Send (or, if not `sends`, a Recv) of an iteration meets; NULL for none."""
    cdef uint64_t hash = hash_of(channel, it)
    cdef Endpoint** place = &rendezvous.buckets[hash & rendezvous.mask]
    cdef Endpoint* found
    while place[0] != NULL:
        found = place[0]
        if found.hash == hash and found.channel == channel and found.sends != sends:
            if found.iteration.number == it.number and found.iteration.frame.id == it.frame.id:
                if not same_path(found.iteration.frame, it.frame):
                    rendezvous.id_collision = True
                    return NULL
                place[0] = found.next
                rendezvous.count -= 1
                return found
        place = &found.next
    return NULL


cdef inline bint grow(RendezvousTable* rendezvous) noexcept nogil:
    """Double the number of buckets; say whether there was memory."""
    cdef uint64_t old = rendezvous.mask + 1
    cdef uint64_t i
    cdef Endpoint* each
    cdef Endpoint* following
    cdef Endpoint** place
    cdef Endpoint** before = rendezvous.buckets
    cdef Endpoint** buckets = <Endpoint**>calloc(2 * old, sizeof(void*))
    if buckets == NULL:
        return False
    rendezvous.buckets, rendezvous.mask = buckets, 2 * old - 1
    for i in range(old):
        each = before[i]
        while each != NULL:
            following = each.next
            place = &buckets[each.hash & rendezvous.mask]
            while place[0] != NULL:
                place = &place[0].next
            each.next = NULL
            place[0] = each
            each = following
    free(before)
    return True


cdef inline bint add_endpoint(
        RendezvousTable* rendezvous, Machine* m, Iteration* it, uint32_t node, bint sends, bint dead) noexcept nogil:
    """Let a Send or a Recv wait, behind those that wait for the same; say whether there was memory."""
    cdef Endpoint* made = rendezvous.free_list
    cdef Endpoint** place
    if rendezvous.count > rendezvous.mask and not grow(rendezvous):
        return False
    if made != NULL:
        rendezvous.free_list = made.next
    else:
        made = <Endpoint*>malloc(sizeof(Endpoint))
        if made == NULL:
            return False
    made.next, made.machine, made.iteration, made.node = NULL, m, it, node
    made.channel, made.sends, made.dead = m.table.nodes[node].index, sends, dead
    made.hash = hash_of(made.channel, it)
    place = &rendezvous.buckets[made.hash & rendezvous.mask]
    while place[0] != NULL:
        place = &place[0].next
    place[0] = made
    rendezvous.count += 1
    return True


cdef inline void free_endpoint(RendezvousTable* rendezvous, Endpoint* matched) noexcept nogil:
    """Give back an Endpoint that was matched."""
    matched.next = rendezvous.free_list
    rendezvous.free_list = matched


cdef inline void deliver_received(Machine* m, Iteration* it, uint32_t number, Value value, bint dead) noexcept nogil:
    """Give a Recv, which is outstanding, what was sent, and take it up again."""
    cdef const Node* node = &m.table.nodes[number]
    cdef Ready ready
    if value.form == SCALAR:
        (<RendezvousTable*>m.rendezvous).traffic[node.index].bytes += output_type(m.table, node, 0).size
    it.slots[node.slot] = value
    it.pending[node.place].dead = ARRIVED
    ready.iteration, ready.node, ready.dead = it, number, dead
    if not push(&m.queue, ready, True):
        m.trouble |= NO_MEMORY
    wake_machine(<RendezvousTable*>m.rendezvous, m)


cdef inline void send(Machine* m, Iteration* it, uint32_t number, bint dead) noexcept nogil:
    """Send what an instance has, live or dead; if nobody waits for that, it stays outstanding until somebody does."""
    cdef const Node* node = &m.table.nodes[number]
    cdef RendezvousTable* rendezvous = <RendezvousTable*>m.rendezvous
    cdef ChannelTraffic* traffic = &rendezvous.traffic[node.index]
    cdef Endpoint* matched
    if dead:
        drop_inputs(m, it, node)
    matched = match(rendezvous, node.index, it, True)
    traffic.messages += 1
    traffic.dead += dead
    if matched != NULL:
        traffic.late += 1
        deliver_received(matched.machine, matched.iteration, matched.node, take(&it.slots[node.slot]), dead)
        free_endpoint(rendezvous, matched)
    elif not add_endpoint(rendezvous, m, it, number, True, dead):
        m.trouble |= NO_MEMORY
    else:
        m.waits = True
        traffic.waiting += 1
        traffic.most = max(traffic.most, traffic.waiting)


cdef inline void receive(Machine* m, Iteration* it, uint32_t number) noexcept nogil:
    """Take what was sent, or wait for it; the Recv is taken up again when it is there, as live as that (rule 19)."""
    cdef const Node* node = &m.table.nodes[number]
    cdef RendezvousTable* rendezvous = <RendezvousTable*>m.rendezvous
    cdef Endpoint* matched = match(rendezvous, node.index, it, False)
    cdef Machine* other
    m.waits = True
    if matched == NULL:
        if not add_endpoint(rendezvous, m, it, number, False, False):
            m.trouble |= NO_MEMORY
        return
    # The value moves out of the sender's slot before its instance completes: that may end the iteration with its slots.
    other = matched.machine
    rendezvous.traffic[node.index].waiting -= 1
    deliver_received(m, it, number, take(&matched.iteration.slots[other.table.nodes[matched.node].slot]), matched.dead)
    complete(other, matched.iteration)
    wake_machine(rendezvous, other)
    free_endpoint(rendezvous, matched)


cdef class Rendezvous:
    """Where the machines of a step meet."""

    cdef RendezvousTable table

    cdef int open(self, uint32_t num_channels) except -1
    cdef int track_runnable(self, uint32_t num_machines) except -1
    cdef void clear(self) noexcept
