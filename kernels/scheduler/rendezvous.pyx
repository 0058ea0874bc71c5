"""Where the machines of a step meet."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
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
        while self.exchange.spare != NULL:
            found = self.exchange.spare
            self.exchange.spare = found.next
            free(found)
        free(self.exchange.buckets)
        free(self.exchange.traffic)
        free(self.exchange.calls)

    @property
    def broken(self):
        """Whether two frames were met that have one id: an internal error."""
        return self.exchange.broken

    @property
    def waiting(self):
        """How many ends of channels wait for the other."""
        return self.exchange.count

    def traffic(self):
        """Return what went over each channel.

        Returns
        -------
        list of dict
            Fields of Traffic.
        """
        return [self.exchange.traffic[i] for i in range(self.exchange.num_channels)]

    cdef int open(self, uint32_t num_channels) except -1:
        """Take the first blocks."""
        self.exchange.mask = 63
        self.exchange.num_channels = num_channels
        self.exchange.buckets = <Waiting**>calloc(64, sizeof(void*))
        self.exchange.traffic = <Traffic*>calloc(num_channels + 1, sizeof(Traffic))
        if self.exchange.buckets == NULL or self.exchange.traffic == NULL:
            raise MemoryError()
        return 0

    cdef int expect_calls(self, uint32_t num_machines) except -1:
        """Note from now on which machine has something ready."""
        self.exchange.calls = <uint32_t*>calloc(num_machines, sizeof(uint32_t))
        self.exchange.most_calls = num_machines
        if self.exchange.calls == NULL:
            raise MemoryError()
        return 0

    cdef void clear(self) noexcept:
        """Forget all that waits; the values are those of the machines."""
        cdef Waiting* found
        cdef uint64_t i
        for i in range(self.exchange.mask + 1 if self.exchange.count else 0):
            while self.exchange.buckets[i] != NULL:
                found = self.exchange.buckets[i]
                self.exchange.buckets[i] = found.next
                forget(&self.exchange, found)
        self.exchange.count = 0
