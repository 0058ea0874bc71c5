"""Putters and takers of a queue, and how they are served.

An element enters or leaves when its instance goes on, not when the instance is woken, so a cancelled wait loses and
doubles nothing (rule 129). Only a large batch is moved piece by piece: at the head of the line if the whole batch has
no room (rule 126), or if the event loop would be held up. Gathered elements go back when the batch is given up.
"""

from asyncio import get_running_loop
from collections import deque
from itertools import islice

cimport numpy as cnp
from libc.stdint cimport int64_t

from tagloom.kernels.queues.queue_lines cimport Attempt, Line
from tagloom.kernels.queues.queue_rings cimport Ring

from tagloom.kernels.memory.contexts import outside

cnp.import_array()


cdef class Rows:

    def __init__(self, tuple columns, Py_ssize_t start, Py_ssize_t stop):
        self.columns, self.start, self.stop = columns, start, stop

    def __len__(self):
        return self.stop - self.start


cdef class Put(Attempt):

    def __init__(self, str operation, elements):
        Attempt.__init__(self, operation, len(elements))
        self.elements = elements if isinstance(elements, Rows) else deque(elements)


cdef class Closing(Put):
    pass


cdef class Take(Attempt):

    def __init__(self, str operation, Py_ssize_t count, bint many, bint up_to):
        Attempt.__init__(self, operation, count)
        self.count, self.many, self.up_to = count, many, up_to
        self.gathered = []

    cpdef list let_go(self):
        entries, self.gathered, self.need = self.gathered, [], self.count
        return entries


cdef class Taken:

    def __init__(self, list entries, make, put_back, int64_t number, bint is_long=False):
        self.entries, self.make, self.put_back, self.number, self.is_long = entries, make, put_back, number, is_long

    def result(self):
        try:
            return self.make(self.entries)
        except BaseException:
            self.give_back()
            raise

    def give_back(self):
        entries, self.entries = self.entries, []
        if entries:
            self.put_back(entries, self.number)


cdef class QueueBase:

    def __init__(self, order, Ring ring, Py_ssize_t capacity, int64_t capacity_bytes, bint gathers, Py_ssize_t piece):
        self.order, self.ring = order, ring
        self.capacity, self.capacity_bytes, self.gathers = capacity, capacity_bytes, gathers
        self.piece = self.left = piece
        self.putters, self.takers = Line(_nothing), Line(self.bring_back)
        self.settle()

    # ---- methods of the subclass

    def closed_by(self, put):
        raise NotImplementedError

    def insufficient(self, take, got):
        raise NotImplementedError

    def restored(self, take):
        raise NotImplementedError

    def batch(self, entries):
        raise NotImplementedError

    # ---- serving

    cpdef settle(self):
        self.takers_wait, self.putters_wait = bool(self.takers.waiting), bool(self.putters.waiting)
        self.may_put = not (self.putters_wait or self.closed or self.putters.woken)
        self.may_take = not (self.takers_wait or self.takers.woken)

    cpdef serve(self):
        # Elements moved for others do not belong to the caller's step, so its memory limit refuses nothing.
        outside(self.serve_now)

    cdef int serve_if(self, bint changed) except -1:
        """Serve the queue if `changed`: something has changed for a waiting attempt."""
        if changed:
            self.serve()
        else:
            self.settle()
        return 0

    def serve_now(self):
        cdef bint moved = True
        self.left, self.later = self.piece, None
        while moved:
            moved = bool(self.putters.waiting) and self.serve_putters()
            if self.takers.waiting and self.serve_takers():
                moved = True
        self.settle()

    def serve_in_next_turn(self):
        if self.later is None:
            self.later = outside(get_running_loop().call_soon, self.serve_now)

    cdef bint serve_putters(self) except -1:
        """Wake the putters able to go on; return True if something changed for takers."""
        cdef Put put = self.putters.first()
        cdef bint changed = False
        while put is not None:
            if self.closed:
                self.putters.end(put, self.closed_by(put))
            elif isinstance(put, Closing):
                if self.putters.woken:
                    break
                self.closed = changed = True
                self.putters.end(put)
            elif put.need <= self.piece and self.has_room_for(put):
                self.putters.wake(put)
            else:
                if put.need > 1 and not self.putters.woken and self.push_some(put):
                    changed = True
                break
            put = self.putters.first()
        return changed

    cdef bint serve_takers(self) except -1:
        """Wake the takers able to go on; return True if something changed for putters."""
        cdef Take take = self.takers.first()
        cdef bint changed = False
        cdef Py_ssize_t free
        while take is not None:
            free = self.free()
            if take.need <= min(free, self.piece):
                self.takers.wake(take)
            elif self.takers.woken:
                break
            elif self.closed and take.need > free:
                self.take_the_rest(take, free)
            elif take.need > free and not self.gathers:
                break
            else:
                return self.gather_some(take, free) or changed
            take = self.takers.first()
        return changed

    cdef int take_the_rest(self, Take take, Py_ssize_t free) except -1:
        """Serve a taker of more elements than a closed queue has."""
        cdef Py_ssize_t got = take.count - take.need + free
        if take.up_to and got > 0:
            take.count, take.need = got, free
            return 0
        self.bring_back(take)
        return self.takers.end(take, self.insufficient(take, got))

    def take_what_is_left(self, Take take):
        self.take_the_rest(take, self.free())
        self.serve()

    cpdef Py_ssize_t free(self) except -1:
        return self.available() - self.takers.promised

    cdef bint gather_some(self, Take take, Py_ssize_t free) except -1:
        """Gather for a taker the elements movable in this turn; return True if there are any."""
        cdef Py_ssize_t count = max(0, min(free, take.need, self.left))
        self.gather(take, count)
        self.left -= count
        if take.need and count < free:
            self.serve_in_next_turn()
        return count > 0

    cdef int gather(self, Take take, Py_ssize_t count) except -1:
        cdef list entries = self.order.pop_many(count)
        take.gathered += entries
        take.need -= count
        if self.capacity_bytes >= 0:
            self.nbytes -= self.order.nbytes_of(entries)
        return 0

    cpdef bring_back(self, Take take):
        if take.gathered:
            self.back(take.let_go())

    def back(self, list entries):
        if self.capacity_bytes >= 0:
            self.nbytes += self.order.nbytes_of(entries)
        self.order.give_back(entries)

    # ---- putting

    def rows_of(self, columns):
        cdef Py_ssize_t count = -1 if self.ring is None else self.ring.rows_in(columns)
        return None if count < 0 else Rows(tuple(columns), 0, count)

    def put_later(self, elements, str operation, pool=None):
        cdef Put put = Put(operation, elements)
        cdef bint first = not self.putters
        if first and put.need <= self.piece and self.has_room_for(put):
            self.push_all(put)
            if self.takers.waiting:
                self.serve()
            return None
        if isinstance(elements, Rows):  # the arrays of the rows may be written to meanwhile
            (<Rows>elements).columns = kept((<Rows>elements).columns, pool)
            if self.ring is not None and put.need > self.piece:  # once, and not each time that a piece has no place
                self.ring.reserve(self.ring.length + put.need)
        waiting = self.putters.join(put, self.go_on_putting, self.give_up_putting)
        if first:  # else earlier putters wake it, which may have been woken but have not gone on
            self.serve_if(not 0 <= self.capacity <= len(self.order))
        return waiting

    def close_later(self, str operation):
        return self.putters.join(Closing(operation, ()), _nothing, self.give_up_putting)

    def go_on_putting(self, Put put):
        self.putters.leave(put)
        try:
            if put.error is None and self.closed:
                put.error = self.closed_by(put)  # others were restored meanwhile
            if put.error is not None:
                raise put.error
            self.push_all(put)
        finally:
            self.serve_if(self.takers.waiting or self.putters.waiting)

    def give_up_putting(self, Put put):
        self.putters.leave(put)
        self.serve()

    cdef int push_all(self, Put put) except -1:
        if isinstance(put.elements, Rows):
            return self.push_rows(put.elements, put.need)
        while put.elements:
            self.push(put.elements.popleft())
        return 0

    cdef bint push_some(self, Put put) except -1:
        """Put in elements of an attempt, as far as the queue and this turn have room; return True for any.
        """
        cdef Py_ssize_t count = 0, room
        if isinstance(put.elements, Rows):
            room = put.need if self.capacity < 0 else self.capacity - len(self.order)
            count = max(0, min(put.need, room, self.left))  # batches may have gone back, so that there is no room
            self.push_rows(put.elements, count)
        else:
            while put.elements and count < self.left and self.fits(put.elements[0]):
                self.push(put.elements.popleft())
                count += 1
        put.need -= count
        self.left -= count
        if not self.left:
            self.serve_in_next_turn()
        return count > 0

    cdef int push_rows(self, Rows rows, Py_ssize_t count) except -1:
        self.ring.push_rows(rows.columns, rows.start, rows.start + count)
        self.enqueued += count
        rows.start += count
        return 0

    cpdef push(self, tuple element):
        self.order.push(element)
        self.enqueued += 1
        if self.capacity_bytes >= 0:
            self.nbytes += _nbytes_of(element)

    def fits(self, tuple element):
        return self.has_room(1, _nbytes_of(element) if self.capacity_bytes >= 0 else 0)

    cdef bint has_room_for(self, Put put) except -1:
        """Return True if all elements of a putter have room beside the elements of the woken putters."""
        cdef int64_t size = 0
        if not put.need:
            return True  # also of a queue that has more than its capacity, as batches have gone back
        if self.capacity_bytes >= 0:
            for each in (*self.putters.woken, put):
                if not isinstance((<Put>each).elements, Rows):
                    size += sum([_nbytes_of(element) for element in (<Put>each).elements])
        return self.has_room(self.putters.promised + put.need, size)

    cdef bint has_room(self, Py_ssize_t count, int64_t size) except -1:
        if 0 <= self.capacity < len(self.order) + count:
            return False
        return self.capacity_bytes < 0 or self.nbytes + size <= self.capacity_bytes

    # ---- taking

    cdef Py_ssize_t available(self) except -1:
        return self.ring.length if self.ring is not None else self.order.available(self.closed)

    def take_later(self, str operation, Py_ssize_t count, bint many, bint up_to):
        cdef Take take = Take(operation, count, many, up_to)
        cdef bint first = not self.takers
        cdef Py_ssize_t free = self.available() if first else 0
        if first:
            if self.closed and take.need > free:
                if not take.up_to or not free:
                    raise self.insufficient(take, free)
                take.count = take.need = free
            if take.need <= min(free, self.piece):
                taken = self.take_all(take)
                if self.putters.waiting:
                    self.serve()
                return taken
        waiting = self.takers.join(take, self.go_on_taking, self.give_up_taking)
        if first:
            self.serve_if(self.closed or free)
        return waiting

    def take_now(self):
        cdef list entries = [self.order.pop()]
        self.dequeued += 1
        if self.capacity_bytes >= 0:
            self.nbytes -= self.order.nbytes_of(entries)
        if self.putters.waiting:
            self.serve()
        return self.taken(entries, False)

    cdef Taken take_all(self, Take take):
        """Take the elements still missing."""
        self.gather(take, take.need)
        self.dequeued += take.count
        return self.taken(take.gathered, take.many)

    cdef Taken taken(self, list entries, bint many):
        self.takes += 1
        if not many:
            return Taken(entries, self.order.only, self.put_back, self.takes - 1)
        is_long = (self.ring is None or len(entries) > 1) and self.order.is_large(entries)
        return Taken(entries, self.batch, self.put_back, self.takes - 1, is_long)

    def put_back(self, list entries, int64_t number):
        if number < self.oldest:
            return
        for take in (*self.takers.woken, *islice(self.takers.waiting, 1)):  # their entries may be younger
            self.bring_back(take)
        self.takers.count_anew()
        self.dequeued -= len(self.order.elements_of(entries))
        self.back(entries)
        self.serve()

    def go_on_taking(self, Take take):
        self.takers.leave(take)
        try:
            if take.error is None and take.need > self.available():
                # Others were restored meanwhile.
                take.error = self.insufficient(take, len(self.order)) if self.closed else self.restored(take)
            if take.error is not None:
                self.bring_back(take)
                raise take.error
            result = self.take_all(take)
        except BaseException:
            self.serve()
            raise
        # Takers after a woken one were woken already, as far as there are elements for them.
        self.serve_if(self.putters.waiting or (self.takers.waiting and not self.takers.woken))
        return result

    def give_up_taking(self, Take take):
        self.takers.leave(take)
        self.bring_back(take)
        self.serve()

    def forget_gathered(self):
        for take in (*self.takers.woken, *self.takers.waiting):
            (<Take>take).let_go()
        self.takers.count_anew()
        self.oldest = self.takes

    def stop(self):
        if self.later is not None:
            self.later.cancel()


cpdef tuple kept(components, pool=None):
    return tuple([value if is_kept(value, pool) else frozen_copy(value) for value in components])


cpdef bint is_kept(value, pool) except -1:
    if not cnp.PyArray_Check(value):
        return True
    if cnp.PyArray_BASE(value) != NULL:
        return False
    return not cnp.PyArray_CHKFLAGS(value, cnp.NPY_ARRAY_WRITEABLE) or (pool is not None and pool.counts(value))


def frozen_copy(value):
    copy = value.copy()
    copy.flags.writeable = False
    return copy


cdef inline int64_t _nbytes_of(tuple element) except -1:
    cdef int64_t size = 0
    for value in element:
        size += value.nbytes
    return size


def _nothing(attempt):
    pass
