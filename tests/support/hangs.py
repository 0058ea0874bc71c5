"""A limit on the time of each test: tracebacks of all threads are printed, and the process of the tests ends.

pytest's own limit ends with the first failure of a test (`pytest_exception_interact` cancels it), so that a failed test
that hangs while it is taken down would hang for ever, and so would a finalizer between two tests.
"""

import faulthandler
import os
import sys

SECONDS = 400.0  # a slow machine is no hang
_stderr = None


def limit_time():
    """Begin the time anew."""
    global _stderr
    if _stderr is None:
        _stderr = os.dup(sys.__stderr__.fileno())  # the capturing of output replaces the descriptor itself
    faulthandler.dump_traceback_later(SECONDS, file=_stderr, exit=True)


def limit_time_again(config):
    """Begin the time anew after pytest has ended it, unless somebody debugs the failure."""
    if not config.option.usepdb:
        limit_time()


def end_limit():
    """End the limit, at the end of the tests."""
    faulthandler.cancel_dump_traceback_later()
