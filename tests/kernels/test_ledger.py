"""Ledgers: memory that NumPy knows nothing of counts, is refused, and is looked through, as that of a pool."""

import gc

import numpy as np
import pytest
from tagflow.kernels.memory.byte_counter import Ledger
from tagflow.kernels.memory.contexts import KernelContexts
from tagflow.kernels.memory.pool import block_counts
from tagflow.kernels.memory.swappable import SwappableArray
from tagflow.kernels.memory.unreserved import charge_reader, frees, spare_array


class Array:
    """An array of some library: what it says of itself, and of what it is a view."""

    def __init__(self, ledger, nbytes, base=None):
        self.charge = ledger.charge(nbytes) if base is None else None
        self.nbytes, self.base = nbytes, base


def charge_of(array):
    if not isinstance(array, Array):
        return None
    return array.charge or charge_of(array.base)


@pytest.fixture
def ledger():
    return Ledger(charge_of, 100)


def test_bytes_count_as_long_as_their_charge_lives(ledger):
    charge = ledger.charge(60)
    assert (charge.nbytes, ledger.live_bytes, ledger.peak_bytes) == (60, 60, 60)
    other = ledger.charge(0)
    del charge
    assert (ledger.live_bytes, ledger.peak_bytes) == (0, 60)
    del other


def test_what_would_pass_the_limit_is_refused(ledger):
    held = ledger.charge(60)
    with pytest.raises(MemoryError, match="no room for 41 bytes in its memory: of the limit of 100 bytes 60 are"):
        ledger.charge(41)
    assert (ledger.live_bytes, ledger.refused_bytes, ledger.refusals) == (60, 41, 1)
    del held
    assert ledger.charge(100).nbytes == 100
    ledger.limit = None
    assert ledger.charge(1 << 50).nbytes == 1 << 50


def test_a_charge_keeps_its_ledger():
    before = block_counts()["pools"]
    charge = Ledger(charge_of).charge(7)
    gc.collect()
    assert block_counts()["pools"] == before + 1
    del charge
    assert block_counts()["pools"] == before


def test_numpy_takes_nothing_from_it(ledger):
    array = KernelContexts(ledger).run(np.zeros, 1000)
    assert ledger.live_bytes == 0
    assert not ledger.counts(array)
    assert ledger.hold([array]) == []
    assert ledger.adopt(array) is array


def test_it_counts_its_own_arrays(ledger):
    array = Array(ledger, 10)
    assert ledger.counts(array)
    assert ledger.counts(Array(ledger, 5, base=array))
    assert not Ledger(charge_of).counts(array)


def test_memory_that_is_free_when_its_holder_lets_go(ledger):
    holder = SwappableArray(Array(ledger, 10))
    assert frees(ledger, holder)
    array = holder.array
    assert not frees(ledger, holder)
    del array
    holder = SwappableArray(Array(ledger, 10, base=holder.array))
    assert frees(ledger, holder), "a view of all, whose base nobody else has"
    base = holder.array.base
    assert not frees(ledger, holder)
    holder = SwappableArray(Array(ledger, 5, base=base))
    del base
    assert not frees(ledger, holder), "a view of something larger"
    assert not frees(Ledger(charge_of), SwappableArray(Array(ledger, 1)))


def test_room_that_nobody_needs(ledger):
    contexts = KernelContexts(ledger)
    make = lambda shape, dtype: Array(ledger, shape[0] * dtype.itemsize)  # noqa: E731
    held = spare_array(contexts, (60,), np.dtype(np.int8), make)
    assert held.nbytes == 60
    assert spare_array(contexts, (41,), np.dtype(np.int8), make) is None
    assert ledger.refusals == 0


def test_nobody_is_charged_outside_of_iterations(ledger):
    array = Array(ledger, 10)
    charge_reader(ledger, array)
    charge_reader(ledger, np.zeros(3))
    assert ledger.live_bytes == 10
