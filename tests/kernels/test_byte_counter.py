"""ByteCounters: memory that NumPy knows nothing of counts, is refused, and is looked through, as that of a pool."""

import gc

import numpy as np
import pytest
from tagloom.kernels.memory.byte_counter import ByteCounter
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.memory.store import block_counts
from tagloom.kernels.memory.swappable import SwappableArray
from tagloom.kernels.memory.unreserved import allocate_unreserved, charge_reader, is_sole_owner


class Array:
    """An array of some library: what it says of itself, and of what it is a view."""

    def __init__(self, byte_counter, nbytes, base=None):
        self.charge = byte_counter.charge(nbytes) if base is None else None
        self.nbytes, self.base = nbytes, base


def charge_of(array):
    if not isinstance(array, Array):
        return None
    return array.charge or charge_of(array.base)


@pytest.fixture
def byte_counter():
    return ByteCounter(charge_of, 100)


def test_bytes_count_as_long_as_their_charge_lives(byte_counter):
    charge = byte_counter.charge(60)
    assert (charge.nbytes, byte_counter.live_bytes, byte_counter.peak_bytes) == (60, 60, 60)
    other = byte_counter.charge(0)
    del charge
    assert (byte_counter.live_bytes, byte_counter.peak_bytes) == (0, 60)
    del other


def test_what_would_pass_the_limit_is_refused(byte_counter):
    held = byte_counter.charge(60)
    with pytest.raises(MemoryError, match="no room for 41 bytes in its memory: of the limit of 100 bytes 60 are"):
        byte_counter.charge(41)
    assert (byte_counter.live_bytes, byte_counter.refused_bytes, byte_counter.refusals) == (60, 41, 1)
    del held
    assert byte_counter.charge(100).nbytes == 100
    byte_counter.limit = None
    assert byte_counter.charge(1 << 50).nbytes == 1 << 50


def test_a_charge_keeps_its_ledger():
    before = block_counts()["pools"]
    charge = ByteCounter(charge_of).charge(7)
    gc.collect()
    assert block_counts()["pools"] == before + 1
    del charge
    assert block_counts()["pools"] == before


def test_numpy_takes_nothing_from_it(byte_counter):
    array = KernelContexts(byte_counter).run(np.zeros, 1000)
    assert byte_counter.live_bytes == 0
    assert not byte_counter.counts(array)
    assert byte_counter.charge_external([array]) == []
    assert byte_counter.adopt(array) is array


def test_it_counts_its_own_arrays(byte_counter):
    array = Array(byte_counter, 10)
    assert byte_counter.counts(array)
    assert byte_counter.counts(Array(byte_counter, 5, base=array))
    assert not ByteCounter(charge_of).counts(array)


def test_memory_that_is_free_when_its_holder_lets_go(byte_counter):
    holder = SwappableArray(Array(byte_counter, 10))
    assert is_sole_owner(byte_counter, holder)
    array = holder.array
    assert not is_sole_owner(byte_counter, holder)
    del array
    holder = SwappableArray(Array(byte_counter, 10, base=holder.array))
    assert is_sole_owner(byte_counter, holder), "a view of all, whose base nobody else has"
    base = holder.array.base
    assert not is_sole_owner(byte_counter, holder)
    holder = SwappableArray(Array(byte_counter, 5, base=base))
    del base
    assert not is_sole_owner(byte_counter, holder), "a view of something larger"
    assert not is_sole_owner(ByteCounter(charge_of), SwappableArray(Array(byte_counter, 1)))


def test_room_that_nobody_needs(byte_counter):
    contexts = KernelContexts(byte_counter)
    make = lambda shape, dtype: Array(byte_counter, shape[0] * dtype.itemsize)  # noqa: E731
    held = allocate_unreserved(contexts, (60,), np.dtype(np.int8), make)
    assert held.nbytes == 60
    assert allocate_unreserved(contexts, (41,), np.dtype(np.int8), make) is None
    assert byte_counter.refusals == 0


def test_nobody_is_charged_outside_of_iterations(byte_counter):
    array = Array(byte_counter, 10)
    charge_reader(byte_counter, array)
    charge_reader(byte_counter, np.zeros(3))
    assert byte_counter.live_bytes == 10
