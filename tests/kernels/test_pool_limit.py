"""The limit of a pool: what would pass it is refused before anything is done."""

import gc

import numpy as np
import pytest
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.memory.pool import MemoryLimitError, Pool, hand_over

KEPT = 1 << 24


def figures(pool):
    return pool.live_bytes, pool.peak_bytes


@pytest.fixture
def bounded():
    return Pool(KEPT, limit=1000)


@pytest.mark.parametrize("make", [np.empty, np.zeros])
def test_what_would_pass_the_limit_is_refused(bounded, make):
    inside = KernelContexts(bounded).run
    a = inside(make, 600, np.uint8)
    with pytest.raises(MemoryError):
        inside(make, 401, np.uint8)
    assert figures(bounded) == (600, 600)
    assert (bounded.refused_bytes, bounded.refusals) == (401, 1)
    b = inside(make, 400, np.uint8)
    assert figures(bounded) == (1000, 1000)
    with pytest.raises(MemoryError):
        inside(make, 1, np.uint8)
    del a
    assert inside(make, 1, np.uint8).size == 1
    assert (bounded.refused_bytes, bounded.refusals) == (1, 2)
    assert b.size == 400


def test_a_refused_result_of_a_ufunc_changes_nothing(bounded):
    inside = KernelContexts(bounded).run
    a = inside(np.full, 100, 1.0)
    bounded.reset_peak()
    with pytest.raises(MemoryError, match="Unable to allocate"):
        inside(np.add, a, a)
    assert figures(bounded) == (800, 800)
    assert bounded.refused_bytes == 800
    inside(np.add, a, a, out=a)
    assert a.tolist() == [2.0] * 100


def test_free_blocks_are_not_in_the_way_of_the_limit(bounded):
    inside = KernelContexts(bounded).run
    inside(np.empty, 900, np.uint8)
    assert bounded.cached_bytes == 1024
    assert inside(np.empty, 1000, np.uint8).size == 1000


@pytest.mark.parametrize("size", [1 << 12, 1 << 15, 1 << 17])
def test_free_blocks_do_not_grow_far_beyond_the_limit(size):
    limit = 32 * size
    pool = Pool(1 << 30, limit)
    inside = KernelContexts(pool).run
    for each in range(size, limit, size):  # of many kinds
        inside(np.empty, each, np.uint8)
        assert pool.cached_bytes <= limit * 5 // 4
    assert pool.cached_bytes > limit // 2


@pytest.mark.parametrize("size", [1 << 12, 1 << 15, 1 << 17])
def test_free_blocks_beside_those_in_use_do_not_grow_far_beyond_the_limit(size):
    limit = 32 * size
    pool = Pool(1 << 30, limit)
    inside = KernelContexts(pool).run
    for each in range(size, limit, size // 2):
        arrays = [inside(np.empty, each, np.uint8) for _ in range(limit // each)]
        assert pool.live_bytes + pool.cached_bytes <= limit * 3 // 2, "a quarter more, in blocks up to a quarter larger"
        del arrays
    assert pool.cached_bytes > limit // 2


@pytest.mark.parametrize("limit", [1000, 1 << 62, (1 << 63) - 2, (1 << 63) - 1])
def test_free_blocks_are_kept_under_limits_of_every_size(limit):
    pool = Pool(1 << 30, limit)
    for size in (1, 100, 200):
        KernelContexts(pool).run(np.empty, size, np.uint8)
    assert pool.cached_bytes == 64 + 128 + 256


def test_resizing_keeps_the_limit(bounded):
    inside = KernelContexts(bounded).run
    a, b = inside(np.zeros, 970, np.uint8), inside(np.zeros, 5, np.uint8)
    with pytest.raises(MemoryError):
        b.resize(31, refcheck=False)  # in its own block
    with pytest.raises(MemoryError):
        b.resize(300, refcheck=False)
    assert bounded.live_bytes == 975
    assert b.tolist() == [0] * 5
    b.resize(30, refcheck=False)
    assert figures(bounded) == (1000, 1000)
    b = hand_over(b)
    b.resize(3000, refcheck=False)
    assert figures(bounded) == (970, 1000)
    assert a.size == 970


def test_guests_over_the_limit_are_refused_together(bounded):
    small, large = np.ones(50), np.ones(100)
    with pytest.raises(MemoryLimitError) as caught:
        bounded.charge_external([small, large])
    assert (caught.value.wanted, caught.value.live, caught.value.limit) == (800, 400, 1000)
    caught = None
    gc.collect()
    assert (bounded.live_bytes, bounded.refused_bytes) == (0, 800)
    holds = bounded.charge_external([small])
    assert bounded.live_bytes == 400
    del holds


def test_an_adopted_array_may_pass_the_limit(bounded):
    a = bounded.adopt(np.ones(200))
    assert figures(bounded) == (1600, 1600)
    with pytest.raises(MemoryError):
        KernelContexts(bounded).run(np.empty, 1, np.uint8)
    assert bounded.charge_external([a]) == []
    del a
    assert bounded.live_bytes == 0


def test_a_limit_can_be_changed():
    pool = Pool(KEPT)
    inside = KernelContexts(pool).run
    assert pool.limit is None
    a = inside(np.ones, 1000)
    pool.limit = 4000
    assert pool.limit == 4000
    with pytest.raises(MemoryError):
        inside(np.empty, 0)
    del a
    assert inside(np.empty, 500).size == 500
    pool.limit = None
    assert inside(np.empty, 501).size == 501
