"""The table in which the machines of a step meet: messages go from machine to machine, in the same iteration of the
same frame.

A channel is a Send and its Recv. Of the two instances of an iteration the first to come leaves an Endpoint here, and
both stay outstanding until they meet; so no iteration with an Endpoint here can end, and each channel has at most a
window of iterations of them. An Endpoint owns the value sent and the key of the message, which is the same in every
process. An Endpoint refers to the instance waiting here, never to the sender's memory.

A channel may be remote: its other end is in another process, the *peer*. Its Sends go to the outbox, and are complete
when a transport has taken their messages; messages of its peer are delivered, and wait here for their Recv, which may
come later.

See docs/design/0009-devices.md and docs/design/0054-endpoints.md.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.core.table cimport Node, Type, output_type
from tagloom.kernels.core.values cimport EMPTY, SCALAR, Counters, Value, drop, empty, take
from tagloom.kernels.scheduler.delivery cimport NO_MEMORY, Machine, complete, drop_inputs
from tagloom.kernels.scheduler.ready cimport Ready, push


cdef enum:
    ARRIVED = 0xFFFF  # in Pending.dead of a Recv: its message is there


cdef struct Key:  # of a message; the same in every process
    uint64_t frame  # Frame.id
    uint64_t path  # Frame.path_hash
    int64_t iteration
    uint32_t channel


cdef struct Endpoint:  # one end of a channel that waits for the other
    Endpoint* next  # in its bucket, in the outbox or in the free list
    uint64_t hash  # of the key without `path`; its bucket is hash & mask
    Key key
    Value value  # owned: the value sent; EMPTY if it is dead, and in a Recv
    Machine* machine  # of the instance that waits; NULL for a message of a peer, which has no sending instance here
    Iteration* iteration  # of the instance, alive since the instance is outstanding; NULL with `machine`
    uint32_t node  # of the instance
    bint sends
    bint dead  # the message


cdef struct ChannelTraffic:  # of a channel
    int64_t messages  # sent from here or, where the Send is elsewhere, delivered here; dead ones included
    int64_t dead
    int64_t bytes  # of the values that arrived
    int64_t most  # largest number of messages that waited at once
    int64_t waiting  # messages that wait now
    int64_t late  # messages for which the Recv had to wait


cdef struct RendezvousTable:
    Endpoint** buckets  # owned; `mask` + 1 of them
    uint64_t mask  # the number of buckets is a power of two
    uint64_t count  # of the Endpoints in the buckets
    Endpoint* free_list  # Endpoints neither in a bucket nor in the outbox
    ChannelTraffic* traffic  # by channel, owned
    uint32_t num_channels
    int32_t* peers  # by channel: number of the peer that has the other end, -1 if both are here; owned, NULL without peers
    Endpoint* outbox  # Sends whose messages no transport has taken, the oldest first
    Endpoint* newest_posted  # the last of them
    uint64_t num_posted  # length of the outbox
    uint64_t num_awaited  # Recvs here whose message a peer has to send
    Counters* live  # of the process; NULL before the first machine joins
    bint id_collision  # two different frames have one id
    bint closed  # the step is over: messages delivered later are dropped
    uint32_t* runnable  # ring: numbers of the machines that have ready instances, once each; owned, NULL if unused
    uint32_t first_runnable  # position of the oldest
    uint32_t num_runnable
    uint32_t most_runnable  # length of the ring: one place for each machine


cdef inline void wake_machine(RendezvousTable* rendezvous, Machine* m) noexcept nogil:
    """Schedule a visit of a machine with ready instances, unless a visit is scheduled already."""
    cdef uint32_t place = rendezvous.first_runnable + rendezvous.num_runnable
    if m.awake or rendezvous.runnable == NULL or m.queue.height + m.queue.length == 0:
        return
    rendezvous.runnable[place if place < rendezvous.most_runnable else place - rendezvous.most_runnable] = m.number
    rendezvous.num_runnable += 1
    m.awake = True


cdef inline int64_t next_machine(RendezvousTable* rendezvous) noexcept nogil:
    """Return the number of the machine with the longest wait for a visit, -1 if none waits; the machine stays `awake`.
    """
    cdef uint32_t number
    if rendezvous.num_runnable == 0:
        return -1
    number = rendezvous.runnable[rendezvous.first_runnable]
    rendezvous.first_runnable += 1
    if rendezvous.first_runnable == rendezvous.most_runnable:
        rendezvous.first_runnable = 0
    rendezvous.num_runnable -= 1
    return number


cdef inline Key key_of(uint32_t channel, const Iteration* it) noexcept nogil:
    """Return the key of a channel's message in an iteration."""
    cdef Key key
    key.frame, key.path, key.iteration, key.channel = it.frame.id, it.frame.path_hash, it.number, channel
    return key


cdef inline uint64_t hash_of(const Key* key) noexcept nogil:
    """Return the hash by which ends of a channel are found; `path` is left out, so that collisions of ids are noticed.
    """
    cdef uint64_t h = key.frame ^ (<uint64_t>key.channel << 32) ^ <uint64_t>key.iteration
    h = (h ^ (h >> 29)) * <uint64_t>0xBF58476D1CE4E5B9
    return h ^ (h >> 32)


cdef inline Endpoint** find(
        RendezvousTable* rendezvous, const Key* key, uint64_t hash, bint sends) noexcept nogil:
    """Return the place of the oldest Endpoint of a key, a message if `sends`, else a Recv; NULL for none."""
    cdef Endpoint** place = &rendezvous.buckets[hash & rendezvous.mask]
    cdef Endpoint* found
    while place[0] != NULL:
        found = place[0]
        if found.hash == hash and found.key.channel == key.channel and found.sends == sends:
            if found.key.iteration == key.iteration and found.key.frame == key.frame:
                if found.key.path == key.path:
                    return place
                rendezvous.id_collision = True
                return NULL
        place = &found.next
    return NULL


cdef inline Endpoint* match(
        RendezvousTable* rendezvous, const Key* key, uint64_t hash, bint sends) noexcept nogil:
    """Take out the oldest Endpoint for a message (or, if not `sends`, a Recv) of a key; NULL for none."""
    cdef Endpoint** place = find(rendezvous, key, hash, not sends)
    cdef Endpoint* found
    if place == NULL:
        return NULL
    found = place[0]
    place[0] = found.next
    rendezvous.count -= 1
    return found


cdef inline bint grow(RendezvousTable* rendezvous) noexcept nogil:
    """Double the number of buckets; return False if there is no memory."""
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


cdef inline Endpoint* new_endpoint(RendezvousTable* rendezvous, const Key* key, uint64_t hash, bint sends) noexcept nogil:
    """Return an Endpoint without a value, of no instance; NULL if there is no memory."""
    cdef Endpoint* made = rendezvous.free_list
    if made != NULL:
        rendezvous.free_list = made.next
    else:
        made = <Endpoint*>malloc(sizeof(Endpoint))
        if made == NULL:
            return NULL
    made.next, made.hash, made.key, made.sends, made.dead = NULL, hash, key[0], sends, False
    made.machine, made.iteration, made.node = NULL, NULL, 0
    made.value.form = EMPTY
    return made


cdef inline void free_endpoint(RendezvousTable* rendezvous, Endpoint* matched) noexcept nogil:
    """Put an Endpoint whose value was taken on the free list."""
    matched.next = rendezvous.free_list
    rendezvous.free_list = matched


cdef inline Endpoint* add_endpoint(
        RendezvousTable* rendezvous, const Key* key, uint64_t hash, bint sends) noexcept nogil:
    """Return a new Endpoint, after Endpoints of the same key in the table; NULL if there is no memory."""
    cdef Endpoint* made = NULL
    cdef Endpoint** place
    if rendezvous.count <= rendezvous.mask or grow(rendezvous):
        made = new_endpoint(rendezvous, key, hash, sends)
    if made == NULL:
        return NULL
    place = &rendezvous.buckets[hash & rendezvous.mask]
    while place[0] != NULL:
        place = &place[0].next
    place[0] = made
    rendezvous.count += 1
    return made


cdef inline void attach(Endpoint* endpoint, Machine* m, Iteration* it, uint32_t number) noexcept nogil:
    """Attach an instance, which stays outstanding, to the Endpoint at which the instance waits."""
    endpoint.machine, endpoint.iteration, endpoint.node = m, it, number
    m.waits = True


cdef inline void count_waiting(ChannelTraffic* traffic) noexcept nogil:
    """Count a waiting message."""
    traffic.waiting += 1
    traffic.most = max(traffic.most, traffic.waiting)


cdef inline bint is_remote(const RendezvousTable* rendezvous, uint32_t channel) noexcept nogil:
    """True if the other end of a channel is in another process."""
    return rendezvous.peers != NULL and rendezvous.peers[channel] >= 0


cdef inline void deliver_received(Machine* m, Iteration* it, uint32_t number, Value value, bint dead) noexcept nogil:
    """Deliver a value to an outstanding Recv, and make the Recv ready again."""
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


cdef inline void post(Machine* m, Iteration* it, uint32_t number, bint dead) noexcept nogil:
    """Put the message of a Send into the outbox; the Send stays outstanding until a transport has taken the message."""
    cdef const Node* node = &m.table.nodes[number]
    cdef RendezvousTable* rendezvous = <RendezvousTable*>m.rendezvous
    cdef Key key = key_of(node.index, it)
    cdef Endpoint* made = new_endpoint(rendezvous, &key, 0, True)
    if made == NULL:
        m.trouble |= NO_MEMORY
        return
    made.value, made.dead = take(&it.slots[node.slot]), dead
    attach(made, m, it, number)
    if rendezvous.outbox == NULL:
        rendezvous.outbox = made
    else:
        rendezvous.newest_posted.next = made
    rendezvous.newest_posted = made
    rendezvous.num_posted += 1
    count_waiting(&rendezvous.traffic[node.index])


cdef inline Endpoint* unpost(RendezvousTable* rendezvous) noexcept nogil:
    """Take the oldest Endpoint out of the outbox, which is not empty; its Send stays outstanding."""
    cdef Endpoint* taken = rendezvous.outbox
    rendezvous.outbox = taken.next
    rendezvous.num_posted -= 1
    rendezvous.traffic[taken.key.channel].waiting -= 1
    return taken


cdef inline Endpoint* next_end(const RendezvousTable* rendezvous, const Endpoint* end) noexcept nogil:
    """Return the next of all Endpoints, with the outbox last; NULL begins, and is returned at the end."""
    cdef uint64_t bucket = 0
    if end != NULL:
        if end.next != NULL or (end.machine != NULL and end.sends and is_remote(rendezvous, end.key.channel)):
            return end.next  # in its bucket, or in the outbox
        bucket = (end.hash & rendezvous.mask) + 1
    while bucket <= rendezvous.mask:
        if rendezvous.buckets[bucket] != NULL:
            return rendezvous.buckets[bucket]
        bucket += 1
    return rendezvous.outbox


cdef inline void send(Machine* m, Iteration* it, uint32_t number, bint dead) noexcept nogil:
    """Send the input of an instance, live or dead; if no Recv waits for the input, the instance stays outstanding
    until a Recv comes.
    """
    cdef const Node* node = &m.table.nodes[number]
    cdef RendezvousTable* rendezvous = <RendezvousTable*>m.rendezvous
    cdef ChannelTraffic* traffic = &rendezvous.traffic[node.index]
    cdef Endpoint* endpoint
    cdef Key key
    cdef uint64_t hash
    if dead:
        drop_inputs(m, it, node)
    traffic.messages += 1
    traffic.dead += dead
    if is_remote(rendezvous, node.index):
        post(m, it, number, dead)
        return
    key = key_of(node.index, it)
    hash = hash_of(&key)
    endpoint = match(rendezvous, &key, hash, True)
    if endpoint != NULL:
        traffic.late += 1
        deliver_received(endpoint.machine, endpoint.iteration, endpoint.node, take(&it.slots[node.slot]), dead)
        free_endpoint(rendezvous, endpoint)
        return
    endpoint = add_endpoint(rendezvous, &key, hash, True)
    if endpoint == NULL:
        m.trouble |= NO_MEMORY
        return
    endpoint.value, endpoint.dead = take(&it.slots[node.slot]), dead
    attach(endpoint, m, it, number)
    count_waiting(traffic)


cdef inline void receive(Machine* m, Iteration* it, uint32_t number) noexcept nogil:
    """Take the value sent, or wait for the value; the Recv becomes ready when the value is there, live or dead like
    the value (rule 19).
    """
    cdef const Node* node = &m.table.nodes[number]
    cdef RendezvousTable* rendezvous = <RendezvousTable*>m.rendezvous
    cdef Key key = key_of(node.index, it)
    cdef uint64_t hash = hash_of(&key)
    cdef Endpoint* endpoint = match(rendezvous, &key, hash, False)
    cdef Machine* other
    if endpoint == NULL:
        endpoint = add_endpoint(rendezvous, &key, hash, False)
        if endpoint == NULL:
            m.trouble |= NO_MEMORY
            m.waits = True
            return
        attach(endpoint, m, it, number)
        rendezvous.num_awaited += is_remote(rendezvous, node.index)
        return
    m.waits = True
    rendezvous.traffic[node.index].waiting -= 1
    deliver_received(m, it, number, take(&endpoint.value), endpoint.dead)
    other = endpoint.machine
    if other != NULL:  # a Send here, which is complete now; a peer's was when its message was taken
        complete(other, endpoint.iteration)
        wake_machine(rendezvous, other)
    free_endpoint(rendezvous, endpoint)


cdef inline bint arrive(
        RendezvousTable* rendezvous, const Key* key, Value value, bint dead) noexcept nogil:
    """Deliver the message of a peer, whose value is owned by the table from here on; False if there is no memory."""
    cdef uint64_t hash = hash_of(key)
    cdef ChannelTraffic* traffic = &rendezvous.traffic[key.channel]
    cdef Endpoint* endpoint = match(rendezvous, key, hash, True)
    if endpoint != NULL:
        traffic.late += 1
        rendezvous.num_awaited -= 1
        deliver_received(endpoint.machine, endpoint.iteration, endpoint.node, value, dead)
        free_endpoint(rendezvous, endpoint)
    else:
        endpoint = add_endpoint(rendezvous, key, hash, True)
        if endpoint == NULL:
            return False
        endpoint.value, endpoint.dead = value, dead
        count_waiting(traffic)
    traffic.messages += 1
    traffic.dead += dead
    return True


cdef class Rendezvous:
    """The table in which the machines of a step meet, and its face for transports."""

    cdef RendezvousTable table
    cdef list types  # DTypes of NumPy by channel, None where both ends are here
    cdef Type* channel_types  # by channel, owned; described for remote channels only
    cdef readonly dict remote  # RemoteChannel by number
    cdef readonly tuple peers  # names, by number
    cdef readonly object failure  # the first error that a peer reported, or None
    cdef object group  # weak reference to the MachineGroup, None before there is one

    cdef int open(self, uint32_t num_channels) except -1
    cdef int _open_remote(self, list remote) except -1
    cdef object _read_key(self, object key, Key* wanted)
    cdef str _why_refused(self, const Key* key)
    cdef int track_runnable(self, uint32_t num_machines) except -1
    cdef void clear(self) noexcept
