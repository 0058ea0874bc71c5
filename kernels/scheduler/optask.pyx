"""OpTask: a waiting operation instance, with the interface of a task for the tools of asyncio.

An instance waiting for a future needs no coroutine and no turn of the event loop. But tools for tasks should still
find such an instance: a debugger to list tasks, ``asyncio.run`` to cancel the rest, a scope to cancel its tasks. They
accept any object with a Task's methods, and a few of its private fields.
"""

import sys
from asyncio import CancelledError, Future, get_running_loop
from asyncio.tasks import _register_task, _unregister_task
from contextvars import copy_context

from tagloom.kernels.core.async_result cimport AsyncResult


class OpTask(Future):
    """An operation instance waiting for a future."""

    __slots__ = (
        "_context",
        "_convert",
        "_finished",
        "_fut_waiter",
        "_give_up",
        "_is_over",
        "_must_cancel",
        "_name",
        "_num_cancels_requested",
        "_source",
    )

    def __init__(self, source, name, convert=None, give_up=None, is_over=None, finished=None):
        Future.__init__(self, loop=source.get_loop())
        self._name = name
        self._convert = convert
        self._give_up = give_up
        self._is_over = is_over
        self._finished = finished
        self._context = copy_context()
        self._num_cancels_requested = 0
        self._must_cancel = False  # asked for when the source was done already
        self._fut_waiter = self._source = source
        source.add_done_callback(self._wake, context=self._context)
        _register_task(self)

    def __repr__(self):
        state = "cancelled" if self.cancelled() else "finished" if self.done() else "waiting"
        return f"<OpTask {self._name} {state}>"

    def get_name(self):
        return self._name

    def set_name(self, value):
        self._name = str(value)

    def get_coro(self):
        return self._source

    def get_context(self):
        return self._context

    def get_stack(self, *, limit=None):
        return []

    def print_stack(self, *, limit=None, file=None):
        print(f"No stack for {self!r}", file=sys.stderr if file is None else file)

    def set_result(self, result):
        raise RuntimeError("OpTask does not support set_result operation")

    def set_exception(self, exception):
        raise RuntimeError("OpTask does not support set_exception operation")

    def cancel(self, msg=None):
        if self.done():
            return False
        self._num_cancels_requested += 1
        if not self._source.cancel(msg):
            self._must_cancel, self._cancel_message = True, msg
        return True

    def cancelling(self):
        return self._num_cancels_requested

    def uncancel(self):
        if self._num_cancels_requested > 0:
            self._num_cancels_requested -= 1
            if self._num_cancels_requested == 0:
                self._must_cancel = False
        return self._num_cancels_requested

    def _wake(self, source):
        """End with the result, error or cancellation of the source."""
        self._fut_waiter = None
        try:
            failure = None if source.cancelled() else source.exception()
            if isinstance(failure, Exception):
                Future.set_exception(self, failure)  # not raised, for the reason below
                return
            result = source.result()
            if self._must_cancel:
                raise CancelledError(self._cancel_message)
            if self._give_up is not None and self._is_over is not None and self._is_over():
                raise CancelledError
            Future.set_result(self, result if self._convert is None else self._convert(result))
        except CancelledError as error:
            if self._give_up is not None:
                self._give_up()
            Future.cancel(self, *error.args[:1])
        except (KeyboardInterrupt, SystemExit) as error:
            Future.set_exception(self, error)
            raise
        except BaseException as error:
            Future.set_exception(self, _storable(error))
        finally:
            finished = self._finished
            self._convert = self._give_up = self._is_over = self._finished = None
            _unregister_task(self)
            if finished is not None:
                finished(self)
            # An error raised here has this frame in its traceback, and these hold the error: it, and all that the
            # frames of a failed kernel hold, would live until the garbage is collected.
            del self, source


def _storable(error):
    """Return an error in a form which a future can hold: any error but StopIteration, which would end a generator
    instead.
    """
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("StopIteration was raised")
    wrapped.__cause__ = error
    return wrapped


def start_task(awaitable, str name, is_over=None, finished=None):
    loop = get_running_loop()
    source, convert, give_up = awaitable, None, None
    if isinstance(awaitable, AsyncResult):
        source = (<AsyncResult>awaitable).source
        convert, give_up = (<AsyncResult>awaitable).convert, (<AsyncResult>awaitable).give_up
    if isinstance(source, Future) and source.get_loop() is loop:
        return OpTask(source, name, convert, give_up, is_over, finished)
    task = loop.create_task(_await(awaitable), name=name)
    if finished is not None:
        task.add_done_callback(finished)
    return task


async def _await(awaitable):
    return await awaitable
