"""What a fork waits for, and what a child process is told."""

import gc
import os
import threading

import pytest
from tagloom.base import collector, forks

from tests.support.forks import in_child

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def hold():
    hold = forks.Hold(0.05)
    yield hold
    forks._holds.remove(hold)


class Worker:
    """A thread that is inside a hold until it is released."""

    def __init__(self, hold):
        self.inside, self.released = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.work, args=[hold])
        self.thread.start()
        assert self.inside.wait(60)

    def work(self, hold):
        with hold():
            self.inside.set()
            assert self.released.wait(60)

    def end(self):
        self.released.set()
        self.thread.join()


def test_a_fork_waits_for_what_is_held():
    hold = forks.Hold(60.0)
    try:
        worker = Worker(hold)
        timer = threading.Timer(0.02, worker.released.set)
        timer.start()
        assert in_child(lambda: not hold.was_broken and worker.released.is_set())
        worker.end()
        timer.join()
    finally:
        forks._holds.remove(hold)


def test_a_fork_that_waited_too_long_says_so_in_the_child_alone(hold):
    worker = Worker(hold)

    def check():
        with hold():  # nobody holds it there
            return hold.was_broken

    assert in_child(check)
    assert not hold.was_broken
    worker.end()
    assert in_child(lambda: not hold.was_broken)


def test_a_thread_that_forks_inside_does_not_wait_for_itself():
    hold = forks.Hold(3600.0)
    try:
        with hold():
            assert in_child(lambda: not hold.was_broken)

            def check():
                with hold():
                    return True

            assert in_child(check)
        assert in_child(check)
    finally:
        forks._holds.remove(hold)


def test_the_garbage_collector_goes_on_in_a_child_whose_parent_has_paused_it():
    paused, released = threading.Event(), threading.Event()

    def pause():
        with collector.pause_collections():
            paused.set()
            released.wait(60)

    def check():
        with collector.pause_collections():
            inside = gc.isenabled()
        return gc.isenabled() and not inside

    assert gc.isenabled()
    thread = threading.Thread(target=pause)
    thread.start()
    assert paused.wait(60)
    assert in_child(lambda: gc.isenabled())
    assert in_child(check)
    released.set()
    thread.join()
    assert gc.isenabled()
