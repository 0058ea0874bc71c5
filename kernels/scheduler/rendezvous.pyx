"""The table in which the machines of a step meet, and its face for transports to other processes."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from collections import namedtuple

from tagloom.base.tags import DEAD

from tagloom.kernels.core.convert cimport accept, box
from tagloom.kernels.core.table cimport describe_type
from tagloom.kernels.core.values cimport drop
from tagloom.kernels.scheduler.delivery cimport Machine, complete


class RemoteChannel(namedtuple("RemoteChannel", "number peer dtype name is_sent", defaults=("", False))):
    """A channel whose other end is in another process.

    Attributes
    ----------
    number : int
    peer : str
        Name of the task with the other end.
    dtype : numpy.dtype
        Of the messages.
    name : str
        Name of the tensor carried, for reports.
    is_sent : bool
        True if the Send is here.
    """

    __slots__ = ()

    def __str__(self):
        return f"channel {self.number}" + (f" ({self.name})" if self.name else "")


class MessageKey(namedtuple("MessageKey", "channel frame path iteration")):
    """The key of a message: four integers, the same in every process.

    Attributes
    ----------
    channel : int
    frame, path : int
        Frame id and path hash, two hashes of the path of frames and iterations to the frame.
    iteration : int
    """

    __slots__ = ()


class MessageRefused(ValueError):
    """A delivered message refused by its step: a fault of the peer or of the transport; nothing has changed."""


cdef class Rendezvous:
    """The table in which the machines of a step meet.

    Parameters
    ----------
    num_channels : int
        Channels are numbered from 0.
    remote : iterable of RemoteChannel, optional
        Channels whose other end is in another process.

    Raises
    ------
    ValueError
        If a number is not below `num_channels`, or is given twice.
    """

    def __cinit__(self, uint32_t num_channels, remote=()):
        self.remote, self.peers, self.failure, self.group = {}, (), None, None
        self.open(num_channels)
        self._open_remote(list(remote))

    def __dealloc__(self):
        self.clear()
        while self.table.free_list != NULL:
            found = self.table.free_list
            self.table.free_list = found.next
            free(found)
        free(self.table.buckets)
        free(self.table.traffic)
        free(self.table.runnable)
        free(self.table.peers)
        free(self.channel_types)

    @property
    def id_collision(self):
        """True if two different frames have the same id: an internal error."""
        return self.table.id_collision

    @property
    def waiting(self):
        """Number of channel ends waiting for their other end in the table; messages in the outbox do not count."""
        return self.table.count

    @property
    def awaits_peers(self):
        """True if a Recv waits for a message of a peer, or a message for its transport."""
        return self.table.num_awaited + self.table.num_posted != 0

    def traffic(self):
        """Return the traffic counts of each channel.

        Returns
        -------
        list of dict
            Fields of ChannelTraffic.
        """
        return [self.table.traffic[i] for i in range(self.table.num_channels)]

    def take_outbox(self):
        """Take all messages for peers, the oldest first; their Sends are complete now, so drain afterwards.

        Returns
        -------
        list of (MessageKey, value)
            Each value is an array, which no receiver may change, or DEAD.
        """
        cdef Endpoint* taken
        cdef Machine* m
        messages = []
        while self.table.outbox != NULL:
            taken = self.table.outbox
            # Boxed before the Endpoint leaves the outbox: if there is no memory for it, the message is not lost.
            value = DEAD if taken.dead else box(taken.value, &self.channel_types[taken.key.channel])
            messages.append((MessageKey(taken.key.channel, taken.key.frame, taken.key.path, taken.key.iteration), value))
            taken = unpost(&self.table)
            m = taken.machine
            drop(self.table.live, &taken.value)
            complete(m, taken.iteration)
            wake_machine(&self.table, m)
            free_endpoint(&self.table, taken)
        return messages

    def deliver(self, key, value):
        """Deliver a message of a peer to the waiting Recv; else the message waits for its Recv. Drain afterwards.

        Messages of different keys may come in any order. A message for a finished step is dropped.

        Parameters
        ----------
        key : MessageKey
            Or any tuple of its four integers.
        value : numpy.ndarray or DEAD
            Of the channel's dtype; held without a copy until the Recv has copied it, so the caller must not change the
            array.

        Raises
        ------
        MessageRefused
            If the channel is not received from a peer here, the value has another dtype (rule 122), a message of this
            key is here already, or another frame has the key's frame id. The step goes on; `fail` ends the step.
        """
        cdef Key wanted
        cdef Value held
        if self.table.closed:
            return
        if self.table.live == NULL:
            raise RuntimeError("no machine has joined this rendezvous, so no step takes messages")
        channel = self._read_key(key, &wanted)
        if reason := self._why_refused(&wanted):
            raise MessageRefused(f"{channel} from {channel.peer}: {reason}: {tuple(key)}")
        held.form = EMPTY
        try:
            if value is not DEAD:
                accept(self.table.live, value, &self.channel_types[wanted.channel], &held)
        except TypeError as error:
            raise MessageRefused(f"{channel} from {channel.peer}: {error}") from error
        if not arrive(&self.table, &wanted, held, value is DEAD):
            drop(self.table.live, &held)
            raise MemoryError()

    def fail(self, peer, exception):
        """End the step with the error of a peer, unless already ended: all values and messages are dropped.

        Parameters
        ----------
        peer : str
            One of `peers`.
        exception : BaseException
            Becomes `failure` of the group; an earlier failure stays (rule 44).

        Raises
        ------
        ValueError
            If there is no such peer.
        """
        if peer not in self.peers:
            raise ValueError(f"wanted a peer of this step, {', '.join(self.peers) or 'which has none'}; got {peer!r}")
        if self.table.closed or self.failure is not None:
            return
        self.failure = exception
        group = None if self.group is None else self.group()
        if group is not None:
            group.abort(exception)

    cdef int open(self, uint32_t num_channels) except -1:
        """Take the first blocks."""
        self.table.mask = 63
        self.table.num_channels = num_channels
        self.table.buckets = <Endpoint**>calloc(64, sizeof(void*))
        self.table.traffic = <ChannelTraffic*>calloc(num_channels + 1, sizeof(ChannelTraffic))
        if self.table.buckets == NULL or self.table.traffic == NULL:
            raise MemoryError()
        return 0

    cdef int _open_remote(self, list remote) except -1:
        """Describe the remote channels; without any, `peers` of the table is NULL, which marks all channels as local.
        """
        cdef uint32_t i, count = self.table.num_channels
        if not remote:
            return 0
        self.table.peers = <int32_t*>calloc(count + 1, sizeof(int32_t))
        self.channel_types = <Type*>calloc(count + 1, sizeof(Type))
        if self.table.peers == NULL or self.channel_types == NULL:
            raise MemoryError()
        for i in range(count):
            self.table.peers[i] = -1
        names = {}
        self.types = []
        for channel in remote:
            if not 0 <= channel.number < count or channel.number in self.remote:
                raise ValueError(f"wanted remote channels below {count}, each once; got {channel}")
            self.remote[channel.number] = channel
            self.table.peers[<uint32_t>channel.number] = names.setdefault(channel.peer, len(names))
            self.types.append(channel.dtype)  # outlives its description
            describe_type(&self.channel_types[<uint32_t>channel.number], channel.dtype)
        self.peers = tuple(names)
        return 0

    cdef object _read_key(self, object key, Key* wanted):
        """Read a key and return its RemoteChannel; MessageRefused if there is none, or if its Send is here."""
        try:
            wanted.channel, wanted.frame, wanted.path, wanted.iteration = key
        except (TypeError, ValueError, OverflowError) as error:
            raise MessageRefused(f"wanted the key of a message, four integers; got {key!r}") from error
        channel = self.remote.get(wanted.channel)
        if channel is None or channel.is_sent:
            kind = "has no peer" if channel is None else "is sent to a peer, not received"
            raise MessageRefused(f"channel {wanted.channel} {kind} here: got a message of key {tuple(key)}")
        return channel

    cdef str _why_refused(self, const Key* key):
        """Return why no message of a key may come, or None: the message is here already, or its frame id is another
        frame's.
        """
        cdef bint collision = self.table.id_collision
        cdef uint64_t hash = hash_of(key)
        cdef bint is_here
        self.table.id_collision = False
        is_here = find(&self.table, key, hash, True) != NULL
        find(&self.table, key, hash, False)  # for its look at the path
        # The step has met no such frame itself, so it can go on without the message.
        self.table.id_collision, collision = collision, self.table.id_collision
        if collision:
            return "another frame has this id"
        return "a message of this key is here already" if is_here else None

    cdef int track_runnable(self, uint32_t num_machines) except -1:
        """Keep a ring of the machines with ready instances from now on."""
        self.table.runnable = <uint32_t*>calloc(num_machines, sizeof(uint32_t))
        self.table.most_runnable = num_machines
        if self.table.runnable == NULL:
            raise MemoryError()
        return 0

    cdef void clear(self) noexcept:
        """Drop all waiting messages, because the step is over; messages delivered later are dropped too."""
        cdef Endpoint* found
        cdef uint64_t i
        self.table.closed = True
        while self.table.outbox != NULL:
            found = unpost(&self.table)
            drop(self.table.live, &found.value)
            free_endpoint(&self.table, found)
        for i in range(self.table.mask + 1 if self.table.count else 0):
            while self.table.buckets[i] != NULL:
                found = self.table.buckets[i]
                self.table.buckets[i] = found.next
                self.table.count -= 1
                drop(self.table.live, &found.value)
                free_endpoint(&self.table, found)
        self.table.num_awaited = 0
