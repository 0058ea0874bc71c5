"""Where the machines of a step meet."""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free


cdef class Rendezvous:
    """Where the machines of a step meet.

    Parameters
    ----------
    num_channels : int
        Channels are numbered from 0.
    """

    def __cinit__(self, uint32_t num_channels):
        self.open(num_channels)

    def __dealloc__(self):
        self.clear()
        while self.table.free_list != NULL:
            found = self.table.free_list
            self.table.free_list = found.next
            free(found)
        free(self.table.buckets)
        free(self.table.traffic)
        free(self.table.runnable)

    @property
    def id_collision(self):
        """Whether two frames were met that have one id: an internal error."""
        return self.table.id_collision

    @property
    def waiting(self):
        """How many ends of channels wait for the other."""
        return self.table.count

    def traffic(self):
        """Return what went over each channel.

        Returns
        -------
        list of dict
            Fields of ChannelTraffic.
        """
        return [self.table.traffic[i] for i in range(self.table.num_channels)]

    cdef int open(self, uint32_t num_channels) except -1:
        """Take the first blocks."""
        self.table.mask = 63
        self.table.num_channels = num_channels
        self.table.buckets = <Endpoint**>calloc(64, sizeof(void*))
        self.table.traffic = <ChannelTraffic*>calloc(num_channels + 1, sizeof(ChannelTraffic))
        if self.table.buckets == NULL or self.table.traffic == NULL:
            raise MemoryError()
        return 0

    cdef int track_runnable(self, uint32_t num_machines) except -1:
        """Note from now on which machine has something ready."""
        self.table.runnable = <uint32_t*>calloc(num_machines, sizeof(uint32_t))
        self.table.most_runnable = num_machines
        if self.table.runnable == NULL:
            raise MemoryError()
        return 0

    cdef void clear(self) noexcept:
        """Forget all that waits; the values are those of the machines."""
        cdef Endpoint* found
        cdef uint64_t i
        for i in range(self.table.mask + 1 if self.table.count else 0):
            while self.table.buckets[i] != NULL:
                found = self.table.buckets[i]
                self.table.buckets[i] = found.next
                free_endpoint(&self.table, found)
        self.table.count = 0
