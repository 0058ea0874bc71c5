"""The bookkeeping of each save and each read of a saved value while nothing has to move; the rest is ``tagloom.swap``.

See docs/design/0012-swap.md.
"""

from libc.stdint cimport int64_t

from collections import deque
from weakref import ref

from tagloom.kernels.memory.pool cimport Pool
from tagloom.kernels.memory.unreserved cimport charge_reader

cdef enum:
    FEW = 4096  # notes that may be there before it is seen which are still of use


cdef class SavedSlots:
    """The slots of series with arrays which may move, in the order of their saving.

    Parameters
    ----------
    pool : Pool
        Counts the arrays.
    buffer : type
        Of movable arrays.
    minimum : int
        Bytes from which on an array may move.
    least : int
        Bytes from which on a smaller array may move, where no larger array can.
    goal : int
        Bytes in use beyond which arrays must leave.
    counts : SwapCounts
        Of the step.
    now : callable
        Returns the time in seconds.
    over_threshold : callable
        Called when arrays must leave.
    prefetch_after : callable
        Called with series and index of each read, if an array may have moved.

    Attributes
    ----------
    queue, small : collections.deque
        Of (weakref to Series, index, seconds), and of weakrefs to the holders of arrays: of the large arrays,
        and of the smaller ones.
    leaving : int
        Bytes in use but on their way out.
    has_moved : bool
        True if an array may have moved.
    """

    cdef Pool pool
    cdef object buffer, counts, now, over_threshold, prefetch_after
    cdef int64_t minimum, least, goal, most
    cdef readonly object queue, small
    cdef public int64_t leaving
    cdef public bint has_moved

    def __init__(
            self, Pool pool, type buffer, int64_t minimum, int64_t least, int64_t goal, counts, now, over_threshold,
            prefetch_after):
        self.pool, self.buffer, self.minimum, self.least, self.goal = pool, buffer, max(minimum, 1), least, goal
        self.counts, self.now, self.over_threshold, self.prefetch_after = counts, now, over_threshold, prefetch_after
        self.queue, self.small, self.most = deque(), deque(), FEW

    cpdef bint is_swappable(self, value) except -1:
        """Return True if a value is large enough to move, and count the value."""
        return self._notes_of(value, self.minimum) is not None

    cdef object _notes_of(self, value, int64_t least):
        """Return the notes of a value of at least `least` bytes, and count the value; None for an immovable value."""
        if type(value) is not self.buffer or value.dtype.hasobject:
            return None
        cdef int64_t nbytes = value.nbytes
        if nbytes < least or not value.flags.c_contiguous:
            self.counts.small += 1
            return None
        self.counts.swappable += 1
        return self.queue if nbytes >= self.minimum else self.small

    def save(self, value, series, int64_t index):
        """Note a value saved in a slot of a series."""
        notes = self._notes_of(value, min(self.least, self.minimum))
        if notes is not None:
            notes.append((ref(series), index, self.now()))
            self.look()

    cdef int _sweep(self) except -1:
        """Forget the slots without an array by now: many, where inner loops end again and again."""
        self.most = FEW
        for notes in (self.queue, self.small):
            kept = [each for each in notes if self._is_of_use(each)]
            notes.clear()
            notes.extend(kept)
            self.most += 2 * len(kept)  # twice the number left, so that sweeps cost little in all

    cdef bint _is_of_use(self, each) except -1:
        if not isinstance(each, tuple):
            return each() is not None
        series, index, _ = each
        series = series()
        return series is not None and type(series.at(index)) is self.buffer

    cpdef look(self):
        """Check whether arrays must leave, after a value was saved."""
        cdef int64_t live = self.pool.store.budget.live
        if len(self.queue) + len(self.small) > self.most:
            self._sweep()
        if live > self.counts.peak:
            self.counts.peak = live
        if live - self.leaving > self.goal:
            self.over_threshold()

    def note_read(self, value, series, int64_t index):
        """Note the read of a value which has not moved; earlier values may have moved."""
        if type(value) is self.buffer:
            charge_reader(self.pool, value)
            if self.has_moved:
                self.prefetch_after(series, index)
