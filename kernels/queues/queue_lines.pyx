"""Lines of attempts waiting for a resource, in the order of their arrival."""

from asyncio import get_running_loop
from collections import OrderedDict

from tagloom.kernels.core.async_result cimport AsyncResult


cdef class Attempt:

    def __init__(self, str operation, Py_ssize_t need=1):
        self.operation = operation
        self.future = get_running_loop().create_future()
        self.need = need


cdef class Line:

    def __init__(self, dropped, bint in_order=True):
        self.dropped = dropped
        self.in_order = in_order
        self.woken = OrderedDict()
        self.waiting = OrderedDict()

    def __class_getitem__(cls, kind):
        return cls

    def __len__(self):
        return len(self.woken) + len(self.waiting)

    def __bool__(self):
        return bool(self.waiting) or bool(self.woken)

    cdef Attempt first(self):
        cdef Attempt attempt
        while self.waiting:
            attempt = next(iter(self.waiting))
            if not attempt.future.done():
                return attempt
            del self.waiting[attempt]
            self.dropped(attempt)
        return None

    @property
    def first_waiting(self):
        return self.first()

    cpdef object join(self, Attempt attempt, go_on, give_up):
        self.waiting[attempt] = None
        return AsyncResult(attempt.future, _Later(go_on, attempt), _Later(give_up, attempt), self.in_order)

    def look(self, Attempt attempt):
        self.waiting[attempt] = None
        return AsyncResult(attempt.future, _itself, _Later(self.leave, attempt))

    def alive(self):
        for attempt in [each for each in self.waiting if each.future.done()]:
            del self.waiting[attempt]
            self.dropped(attempt)
        return list(self.waiting)

    cpdef int wake(self, Attempt attempt) except -1:
        del self.waiting[attempt]
        self.woken[attempt] = attempt.need
        self.promised += attempt.need
        attempt.future.set_result(None)
        return 0

    def count_anew(self):
        self.woken.update([(attempt, attempt.need) for attempt in self.woken])
        self.promised = sum(self.woken.values())

    cpdef int end(self, Attempt attempt, error=None, result=None) except -1:
        del self.waiting[attempt]
        if error is None:
            attempt.future.set_result(result)
        else:
            attempt.future.set_exception(error)
        return 0

    cpdef bint leave(self, Attempt attempt) except -1:
        self.waiting.pop(attempt, None)
        promised = self.woken.pop(attempt, None)
        if promised is None:
            return False
        self.promised -= promised
        return True

    def fail(self, error):
        cdef Attempt attempt
        for attempt in self.woken:
            attempt.error = error(attempt)
        attempt = self.first()
        while attempt is not None:
            self.end(attempt, error(attempt))
            attempt = self.first()


cdef class _Later:
    """A call of a function with an attempt; its own argument is ignored."""

    cdef object function
    cdef Attempt attempt

    def __init__(self, function, Attempt attempt):
        self.function, self.attempt = function, attempt

    def __call__(self, result=None):
        return self.function(self.attempt)


def _itself(result):
    return result
