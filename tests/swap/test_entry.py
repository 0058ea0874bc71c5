"""The states of saved values: which may follow which, and what each must have."""

import itertools

import numpy as np
import pytest
from tagloom.streams import LoopClock
from tagloom.streams.event import Event
from tagloom.swap.entry import HOLDINGS, TRANSITIONS, State, SwapEntry

ARRAY = np.arange(6.0).reshape(2, 3)


def fetch(entry, into):
    into = np.empty_like(entry.location) if into is None else into
    np.copyto(into, entry.location)
    return into


def having(holdings):
    """Return what a state needs."""
    parts = {"array": ARRAY, "location": ARRAY.copy(), "copy": Event()}
    return {name: part for (name, part), has in zip(parts.items(), holdings, strict=True) if has}


def entry_in(state):
    """Return an entry that went to a state the legal way."""
    entry = SwapEntry(ARRAY, LoopClock().now(), fetch)
    states = list(State)  # in the order in which a value goes through them
    for each in states[1 : states.index(state) + 1]:
        entry.enter_state(each, **having(HOLDINGS[each]))
    assert entry.state is state
    return entry


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_transitions(before, after):
    entry = entry_in(before)
    was = entry.array, entry.location, entry.copy
    if after in TRANSITIONS[before]:
        entry.enter_state(after, **having(HOLDINGS[after]))
        assert entry.state is after
        assert (entry.array is not None, entry.location is not None, entry.copy is not None) == HOLDINGS[after]
    else:
        with pytest.raises(RuntimeError, match="internal error: a saved value went from"):
            entry.enter_state(after, **having(HOLDINGS[after]))
        assert entry.state is before
        assert (entry.array, entry.location, entry.copy) == was


@pytest.mark.parametrize(("before", "after"), list(itertools.pairwise(State)))
def test_a_state_has_exactly_what_it_takes(before, after):
    for holdings in itertools.product([False, True], repeat=3):
        if holdings != HOLDINGS[after]:
            entry = entry_in(before)
            with pytest.raises(RuntimeError, match="has not what it takes"):
                entry.enter_state(after, **having(holdings))
            assert entry.state is before


def test_every_state_can_be_left_and_reached():
    assert set(TRANSITIONS) == set(HOLDINGS) == set(State)
    assert all(TRANSITIONS.values())
    assert set().union(*TRANSITIONS.values()) == set(State)


@pytest.mark.parametrize("state", State)
def test_values_can_be_had_at_once(state):
    entry = entry_in(state)
    np.testing.assert_array_equal(entry.now(), ARRAY)
    into = np.empty((2, 3))
    entry.copy_to(into)
    np.testing.assert_array_equal(into, ARRAY)
    assert entry.state is state
    assert entry.nbytes == (ARRAY.nbytes if HOLDINGS[state][0] else 0)
    assert (entry.shape, entry.dtype, entry.size) == ((2, 3), np.float64, 48)


def test_lent_values_begin_elsewhere():
    entry = SwapEntry(ARRAY, 0.0, fetch)
    entry.begin_on_host()
    assert (entry.state, entry.array, entry.host_backed) == (State.SWAPPED_OUT, None, True)
    assert entry.location is ARRAY
    assert entry.now() is not ARRAY
