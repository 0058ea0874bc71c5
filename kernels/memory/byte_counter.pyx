"""Exact counts, and a limit, for a device with arrays allocated by another library.

The library's allocator asks for a Charge before taking memory, and keeps the Charge as long as the memory. So its
arrays are counted, refused and charged to the accounts of iterations like NumPy's arrays in a Pool.

See docs/design/0016-other-arrays.md.
"""

cimport cython
from libc.stdint cimport int64_t

from tagloom.kernels.memory.accounts cimport charge, enter_block, refuses, uncharge
from tagloom.kernels.memory.pool cimport Pool


@cython.no_gc
cdef class ByteCounter(Pool):
    """Counts the memory of a device, allocated and freed by a library.

    Parameters
    ----------
    find : callable
        Returns the Charge of an array in this memory, or of the base array of a view; None for anything else.
    limit : int, optional
        Upper bound of `live_bytes`.
    """

    def __init__(self, find, limit=None):
        Pool.__init__(self, 0, limit)
        self.is_allocator = False
        self.find = find

    def charge(self, int64_t nbytes, str what="its memory"):
        """Count bytes as long as the returned Charge lives, on the account of the running instance.

        Parameters
        ----------
        nbytes : int
        what : str
            Name of the memory, for the error.

        Raises
        ------
        MemoryError
            If the limit leaves no room for them.
        """
        if refuses(self.store, nbytes):
            used = f"of the limit of {self.limit} bytes {self.used_bytes} are in use"
            raise MemoryError(f"no room for {nbytes} bytes in {what}: {used}")
        cdef Charge made = Charge.__new__(Charge)
        made.byte_counter = self
        made.block.size = nbytes
        charge(self.store, nbytes)
        enter_block(self.store, &made.block)
        return made

    def refuse(self, int64_t nbytes):
        """Note a failed allocation within the limit, whose charge has been dropped."""
        self.store.refused, self.store.short = nbytes, self.store.live + nbytes
        self.store.refusals += 1

    def charge_external(self, arrays):
        """Count nothing: arrays from elsewhere are in the host's memory."""
        return []

    def adopt(self, array):
        """Return the array, which is in the host's memory."""
        return array

    def counts(self, array):
        """Return whether an array is in the device's memory."""
        return self.charge_of(array) is not None

    cdef Charge charge_of(self, object array):
        """Return the Charge of an array, None for an array in another memory."""
        cdef Charge found = self.find(array)
        return found if found is not None and found.byte_counter is self else None


@cython.no_gc  # its end needs the ledger
cdef class Charge:
    """Bytes of a device's memory, counted as long as the Charge lives; made by `ByteCounter.charge`."""

    @property
    def nbytes(self):
        """Number of bytes."""
        return self.block.size

    def __dealloc__(self):
        if self.byte_counter is not None:
            uncharge(self.byte_counter.store, &self.block)
