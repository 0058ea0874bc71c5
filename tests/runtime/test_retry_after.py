"""When a refused caller is told to come again."""

import pytest
from tagloom.runtime.scheduling import admission
from tagloom.runtime.scheduling.admission import Admission


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(admission, "monotonic", lambda: self.now)


def busy(monkeypatch, limit, waiting):
    """Return the time, and an admission whose places are taken while some wait."""
    clock, found = Clock(monkeypatch), Admission(limit, 1.0)
    for _ in range(limit):
        found._take_place()
    monkeypatch.setattr(Admission, "_ahead_of", lambda self, level: waiting)
    return clock, found


def leave(clock, found, seconds):
    clock.now += seconds
    found._free_place()
    found._take_place()


def test_a_burst_is_estimated_by_the_rate_of_those_that_leave(monkeypatch):
    clock, found = busy(monkeypatch, 4, 80)
    leave(clock, found, 9.0)  # the first was compiled
    for i in range(15):
        leave(clock, found, 0.0 if i % 4 else 0.15)  # four at a time
    clock.now += 0.15
    assert found._retry_after() == pytest.approx(80 * 0.15 / 4, rel=0.5)


def test_a_change_of_rate_is_followed(monkeypatch):
    clock, found = busy(monkeypatch, 1, 10)
    for seconds in [5.0] * 30 + [0.01] * 16:
        leave(clock, found, seconds)
    assert found._retry_after() == pytest.approx(0.1, rel=0.1)


def test_before_anybody_has_left_those_that_run_say_how_long_it_takes_at_least(monkeypatch):
    clock, found = busy(monkeypatch, 2, 6)
    clock.now += 1.0
    assert found._retry_after() == pytest.approx(3.0)
