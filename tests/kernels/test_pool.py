"""The pool that NumPy takes array data from, and the contexts in which it does."""

import contextvars
import gc
import random
import resource
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name
from tagloom.kernels.memory.contexts import KernelContexts, outside
from tagloom.kernels.memory.pool import Pool, hand_over
from tagloom.kernels.memory.store import block_counts

F32 = np.float32
KEPT = 1 << 24
STATM = Path("/proc/self/statm")


@pytest.fixture
def pool():
    return Pool(KEPT)


@pytest.fixture
def inside(pool):
    return KernelContexts(pool).run


@pytest.fixture(autouse=True)
def every_block_comes_back():
    gc.collect()
    before = block_counts()["blocks"]
    yield
    gc.collect()
    counts = block_counts()
    assert counts["blocks"] == before
    assert counts.get("allocated", 0) - counts.get("freed", 0) in (0, counts["blocks"])


def resident():
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def figures(pool):
    return pool.live_bytes, pool.peak_bytes


# ---- bytes


def test_arrays_count_what_they_ask_for(pool, inside):
    a = inside(np.empty, (3, 5), F32)
    assert figures(pool) == (60, 60)
    b = inside(np.zeros, 1000)
    assert figures(pool) == (8060, 8060)
    del a
    assert figures(pool) == (8000, 8060)
    pool.reset_peak()
    assert figures(pool) == (8000, 8000)
    del b
    assert figures(pool) == (0, 8000)


def test_temporaries_count(pool, inside):
    x = inside(np.ones, 1 << 12)
    inside(lambda: (x + 1.0) - (x + 2.0))
    assert pool.live_bytes == x.nbytes
    assert pool.peak_bytes in (3 * x.nbytes, 4 * x.nbytes)  # NumPy may compute in place in a temporary


def test_a_view_counts_as_its_base(pool, inside):
    view = inside(np.ones, 100)[:10].reshape(2, 5)
    assert pool.live_bytes == 800
    del view
    assert pool.live_bytes == 0


@pytest.mark.parametrize("size", [1, 63, 64, 65, 511, 512, 513, 640, 641, 1024, 1025, 99_999, (5 << 20) + 1])
def test_blocks_of_every_size(pool, inside, size):
    a = inside(np.empty, size, np.uint8)
    a.fill(7)
    assert a.ctypes.data % 64 == 0
    assert (a == 7).all()
    assert pool.live_bytes == size
    where = a.ctypes.data
    del a
    assert size <= pool.cached_bytes <= max(64, size + 63, size * 5 // 4)
    again = inside(np.empty, size, np.uint8)
    assert again.ctypes.data == where
    assert pool.cached_bytes == 0


def test_the_capacities_of_all_kinds_follow_each_other(pool, inside):
    """Just above the capacity of one kind begins the next: no size finds a block that is too small."""
    seen = []
    while len(seen) < 36:
        size = seen[-1] + 1 if seen else 1
        inside(np.empty, size, np.uint8)
        seen.append(pool.cached_bytes)
        assert seen[-1] >= size
        pool.trim()
    assert seen == sorted(set(seen))
    assert seen[:9] == [*range(64, 513, 64), 640]


def test_zeros_are_zero_in_a_used_block(pool, inside):
    inside(np.full, 1000, 5.0)
    assert not inside(np.zeros, 1000).any()


def test_a_resized_array(pool, inside):
    a = inside(np.arange, 10.0)
    for length in (11, 5, 5000, 20):
        a.resize(length, refcheck=False)
        assert pool.live_bytes == 8 * length
        assert a[:5].tolist() == [0, 1, 2, 3, 4]
    a = hand_over(a)
    for length in (21, 9000, 8):
        a.resize(length, refcheck=False)
        assert pool.live_bytes == 0
    assert a[:5].tolist() == [0, 1, 2, 3, 4]


def test_what_is_too_large_is_refused(pool, inside):
    with pytest.raises(MemoryError):
        inside(np.empty, 1 << 49, np.uint8)
    with pytest.raises(MemoryError):
        inside(np.empty, 1 << 47, np.uint8)
    assert figures(pool) == (0, 0)


# ---- what is kept


def test_no_more_is_kept_than_agreed():
    pool = Pool(1000)
    inside = KernelContexts(pool).run
    arrays = [inside(np.empty, 256, np.uint8) for _ in range(3)]
    inside(np.empty, 2000, np.uint8)
    assert pool.cached_bytes == 0
    while arrays:
        arrays.pop()
        assert pool.cached_bytes <= 1000
    assert pool.cached_bytes == 768
    inside(np.empty, 300, np.uint8)  # no room for another: one makes room
    assert pool.cached_bytes == 832
    pool.trim()
    assert pool.cached_bytes == 0


def test_arrays_outlive_their_pool():
    before = block_counts()
    pool = Pool(KEPT)
    a = KernelContexts(pool).run(np.arange, 1000)
    pool.close()
    del pool
    gc.collect()
    assert block_counts()["pools"] == before["pools"] + 1
    assert a.sum() == 499_500
    assert get_handler_name(a) == "tagloom"
    del a
    assert block_counts() == before or "allocated" in before
    assert block_counts()["pools"] == before["pools"]


def test_arrays_may_die_in_other_threads(pool, inside):
    arrays = [inside(np.ones, n) for n in range(1, 200)]
    halves = [arrays[::2], arrays[1::2]]
    del arrays
    threads = [threading.Thread(target=half.clear) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.live_bytes == 0


def test_many_threads_make_and_drop(pool):
    contexts = KernelContexts(pool)

    def work(seed):
        random, kept = np.random.default_rng(seed), []
        for size in random.integers(1, 5000, 300):
            kept.append(contexts.run(np.full, size, seed))
            assert len(kept) < 20 or (kept.pop(0) == seed).all()

    threads = [threading.Thread(target=work, args=[k]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.live_bytes == 0
    assert pool.peak_bytes > 0


# ---- handing over


def test_what_is_handed_over_no_longer_counts(pool, inside):
    a = inside(np.empty, 100)
    where = a.ctypes.data
    a = hand_over(a)
    assert (a.ctypes.data, pool.live_bytes) == (where, 0)
    assert hand_over(a) is a
    assert pool.live_bytes == 0
    del a
    assert (pool.live_bytes, pool.cached_bytes) == (0, 896)
    assert inside(np.empty, 100).ctypes.data == where


def test_a_view_is_copied(pool, inside):
    a = inside(np.arange, 10)[::2]
    b = hand_over(a)
    assert b.base is None
    assert b.tolist() == [0, 2, 4, 6, 8]
    assert get_handler_name(b) == "default_allocator"
    a = inside(np.arange, 10)
    a.flags.writeable = False
    assert hand_over(a) is not a


# ---- guests


def test_a_guest_counts_once_while_it_is_held(pool):
    a = np.ones(100)
    first = pool.charge_external([a, "no array", np.float32(1), np.ones(())])
    assert figures(pool) == (800, 800)
    second = pool.charge_external([a[5:], a])
    assert figures(pool) == (800, 800)
    first.clear()
    assert pool.live_bytes == 800
    second.clear()
    assert figures(pool) == (0, 800)


def test_arrays_of_the_pool_are_no_guests_until_they_have_left(pool, inside):
    a = inside(np.ones, 100)
    assert pool.charge_external([a, a[1:]]) == []
    a = hand_over(a)
    holds = pool.charge_external([a])
    assert pool.live_bytes == 800
    del a
    holds.clear()
    assert pool.live_bytes == 0


def test_arrays_of_another_pool_are_guests(pool):
    other = Pool(KEPT)
    a = KernelContexts(other).run(np.ones, 100)
    holds = pool.charge_external([a])
    assert (pool.live_bytes, other.live_bytes) == (800, 800)
    del a, holds
    assert (pool.live_bytes, other.live_bytes) == (0, 0)


@pytest.mark.parametrize("order", "CF")
def test_an_adopted_array_counts_until_its_last_view_is_gone(pool, order):
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], order=order)
    b = pool.adopt(a)
    assert b is not a
    assert np.shares_memory(a, b)
    assert b.strides == a.strides
    assert b.flags.writeable
    assert b.flags.c_contiguous == a.flags.c_contiguous
    assert pool.adopt(b) is b
    assert pool.adopt(b[1:]).base is b
    view = b[:, 1:]
    del b
    assert pool.live_bytes == 48
    assert view.tolist() == [[2, 3], [5, 6]]
    del view
    assert pool.live_bytes == 0


def test_an_adopted_array_is_given_back_as_it_came(pool):
    a = pool.adopt(np.ones(5))
    where = a.ctypes.data
    a = hand_over(a)
    assert a.base is None
    assert a.ctypes.data == where
    assert pool.live_bytes == 0


def test_an_adopted_array_that_others_have_is_copied(pool):
    mine = np.ones(5)
    assert not np.shares_memory(hand_over(pool.adopt(mine)), mine)
    assert not np.shares_memory(hand_over(pool.adopt(mine[1:])), mine)
    assert pool.live_bytes == 0


def test_what_can_not_change_is_copied(pool):
    a = np.ones(5)
    a.flags.writeable = False
    adopted = pool.adopt(a)
    assert not adopted.flags.writeable
    del a
    assert hand_over(adopted).flags.writeable


def test_strings_are_adopted(pool):
    a = np.array(["one", "a text that is longer than what fits beside it"], np.dtypes.StringDType())
    b = pool.adopt(a)
    del a
    assert b.tolist() == ["one", "a text that is longer than what fits beside it"]
    assert pool.live_bytes == 32
    assert hand_over(b).tolist()[0] == "one"


def test_a_closed_pool_has_no_guests(pool, inside):
    a, g = inside(np.ones, 100), np.ones(10)
    holds = pool.charge_external([g])
    b = pool.adopt(np.ones(20))
    assert pool.live_bytes == 800 + 80 + 160
    pool.close()
    assert pool.live_bytes == 800
    assert pool.charge_external([g]) == []
    assert pool.adopt(g) is g
    del holds, b, a
    assert (pool.live_bytes, pool.cached_bytes) == (0, 0)


# ---- contexts


def test_the_handler_stays_inside(inside):
    assert inside(get_handler_name) == "tagloom"
    assert get_handler_name() == "default_allocator"
    assert inside(outside, get_handler_name) == "default_allocator"
    assert outside(get_handler_name) == "default_allocator"


def test_without_a_pool_there_is_numpys_memory():
    assert KernelContexts().run(get_handler_name) == "default_allocator"


def test_the_users_context_is_seen_and_can_be_changed_outside(inside):
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("user's")

    def function():
        seen = variable.get()
        variable.set("changed")
        return seen, np.geterr()["divide"]

    assert inside(variable.get) == "none"
    assert inside(outside, function) == ("user's", "warn")
    assert variable.get() == "changed"
    assert inside(np.geterr)["divide"] == "ignore"
    assert np.geterr()["divide"] == "warn"


def test_inside_outside_inside(pool):
    contexts, other = KernelContexts(pool), KernelContexts()
    names = []

    def note(*rest):
        names.append(get_handler_name())
        if rest:
            rest[0](note, *rest[1:])
        names.append(get_handler_name())

    contexts.run(note, outside, contexts.run, contexts.run, other.run, outside, outside)
    ours, numpys = "tagloom", "default_allocator"
    way = [ours, numpys, ours, ours, numpys, ours, ours]
    assert names == [*way, *reversed(way)]
    assert get_handler_name() == numpys


def test_errors_go_through_and_nothing_stays(pool):
    contexts = KernelContexts(pool)
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            contexts.run(outside, _raise, error)
        assert contexts.run(get_handler_name) == "tagloom"
        assert get_handler_name() == "default_allocator"


def _raise(error):
    raise error


def test_threads_are_inside_on_their_own(pool):
    contexts, names = KernelContexts(pool), []
    both = threading.Barrier(2)

    def work():
        both.wait()
        names.append((get_handler_name(), outside(get_handler_name)))
        both.wait()
        names.append(get_handler_name())

    threads = [threading.Thread(target=contexts.run, args=[work]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == [("tagloom", "default_allocator")] * 2 + ["tagloom"] * 2


def test_free_blocks_do_not_pile_up_beyond_the_peak():
    pool = Pool(1 << 30)
    slack = 80 << 20

    def sizes_in_turn():
        for megabytes in (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64):
            np.empty(megabytes << 20, np.uint8)

    KernelContexts(pool).run(sizes_in_turn)
    assert pool.peak_bytes == 64 << 20
    assert 64 << 20 <= pool.cached_bytes <= (64 << 20) + slack


def take_together(pool, *megabytes):
    """Make arrays that live at the same time, in a new step; then drop them."""

    def step():
        pool.charge_external([])
        return [np.empty(size << 20, np.uint8) for size in megabytes]

    KernelContexts(pool).run(step)


def test_blocks_that_no_step_takes_any_more_go_first():
    pool = Pool(1 << 30)
    often, rarely = (64, 28, 24), (20, 16, 14, 12, 10)
    take_together(pool, *rarely)
    for _ in range(5):
        take_together(pool, *often)
    assert pool.cached_bytes == (116 + 72) << 20
    take_together(pool, 80)  # more than the peak and what is kept beyond it
    assert pool.cached_bytes == (116 + 80) << 20


@pytest.mark.parametrize("limit", [None, 1 << 30])
def test_a_larger_block_is_taken_where_a_new_one_would_push_it_out(limit):
    pool = Pool(1 << 30, limit)
    take_together(pool, 64, 24, 20, 16)
    take_together(pool, 28, 32, 40)  # there is room for two more blocks, then the 64 MB are there
    assert pool.live_bytes == 0
    if limit is None:
        assert pool.cached_bytes == (64 + 24 + 20 + 16 + 28 + 32) << 20
    else:  # the bytes that were not asked for would count
        assert pool.cached_bytes == (24 + 20 + 16 + 28 + 32 + 40) << 20


def test_unused_bytes_of_larger_blocks_count_as_kept():
    pool = Pool(1 << 30)
    run = KernelContexts(pool).run
    take_together(pool, 64, 24, 20, 16)
    arrays = [run(np.empty, size << 20, np.uint8) for size in (28, 32, 40)]
    assert pool.live_bytes == 100 << 20
    assert pool.cached_bytes == (24 + 20 + 16 + 64 - 40) << 20
    arrays[-1].resize(38 << 20, refcheck=False)  # in its block
    arrays[-1].resize(60 << 20, refcheck=False)
    del arrays
    assert pool.live_bytes == 0
    pool.trim()
    assert pool.cached_bytes == 0


def test_blocks_much_larger_than_an_array_are_not_taken():
    pool = Pool(1 << 30)
    run = KernelContexts(pool).run
    take_together(pool, 128)
    arrays = [run(np.empty, size << 20, np.uint8) for size in (20, 24, 28, 16)]
    assert pool.cached_bytes == 0  # the 128 MB made room for the last one
    del arrays


@pytest.mark.parametrize("size", [(1 << k) + more for k in (14, 17, 20, 22) for more in (-64, 0, 1)] + [5 << 22])
def test_blocks_with_pages_of_their_own(size):
    pool = Pool(0)

    def fill(number):
        array = np.empty(size, np.uint8)
        array[:] = number
        assert array.ctypes.data % 64 == 0
        return array

    arrays = [KernelContexts(pool).run(fill, k) for k in range(5)]
    for k in (2, 0, 4, 1, 3):
        assert arrays[k].sum(dtype=np.int64) == k * size
        arrays[k] = None
    assert pool.live_bytes == pool.cached_bytes == 0


@pytest.mark.skipif(not STATM.exists(), reason="the system does not say what is resident")
@pytest.mark.parametrize("size", [1 << 15, 100_000, 1 << 17, 1 << 20, 5 << 20])
def test_pages_go_back_though_blocks_around_them_stay(size):
    """Half of them are freed: what is left has its bytes, and little more is resident."""
    pool, count = Pool(0), (1 << 26) // size
    before = resident()
    arrays = [KernelContexts(pool).run(np.full, size, k % 100, np.uint8) for k in range(count)]
    assert resident() - before > 0.95 * count * size
    assert resident() - before < 1.05 * count * size
    del arrays[::2]
    assert resident() - before < 0.65 * count * size
    assert all(array.min() == array.max() == (2 * k + 1) % 100 for k, array in enumerate(arrays))
    del arrays
    assert resident() - before < 0.05 * count * size


def test_pages_are_those_of_one_pool():
    """Blocks of two pools by turns, freed in another order than they were made."""
    insides = [KernelContexts(Pool(0)).run for _ in range(2)]
    arrays = [insides[k % 2](np.full, 40_000, k % 100, np.uint8) for k in range(500)]
    random.Random(0).shuffle(arrays)
    for _ in range(400):
        array = arrays.pop()
        assert (array == array[0]).all()
    arrays += [insides[k % 2](np.full, 50_000, k % 100, np.uint8) for k in range(500)]
    assert all((array == array[0]).all() for array in arrays)
