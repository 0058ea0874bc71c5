"""AsyncResult: the result of an asynchronous kernel."""

from asyncio import CancelledError


cdef class AsyncResult:

    def __init__(self, source, convert, give_up=None, bint in_order=False):
        self.source = source
        self.convert = convert
        self.give_up = give_up
        self.in_order = in_order

    def then(self, function):
        return AsyncResult(self.source, _Both(self.convert, function), self.give_up, self.in_order)

    def __await__(self):
        return _converted(self).__await__()

    def close(self):
        if self.give_up is not None:
            self.give_up()
        end = getattr(self.source, "close", None) or getattr(self.source, "cancel", None)
        if end is not None:
            end()


async def _converted(AsyncResult self):
    try:
        result = await self.source
    except CancelledError:
        if self.give_up is not None:
            self.give_up()
        raise
    return self.convert(result)


cdef class _Both:
    """Two functions applied in turn."""

    cdef object first
    cdef object second

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __call__(self, result):
        return self.second(self.first(result))
