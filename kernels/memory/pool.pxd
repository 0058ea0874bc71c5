"""Blocks of array data, kept when freed and counted to the byte.

Whoever calls what is here holds the GIL, as NumPy does when it takes or frees the data of an array.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from tagflow.kernels.memory.pages cimport Region

cdef extern from "numpy/arrayobject.h":
    ctypedef struct Allocator "PyDataMemAllocator":
        void* ctx  # first argument of each function: the Store
        void* (*malloc)(void*, size_t) noexcept nogil
        void* (*calloc)(void*, size_t, size_t) noexcept nogil
        void* (*realloc)(void*, void*, size_t) noexcept nogil
        void (*free)(void*, void*, size_t) noexcept nogil
    ctypedef struct Handler "PyDataMem_Handler":
        char name[127]
        uint8_t version
        Allocator allocator

cdef extern from *:
    uint32_t clz "__builtin_clzl"(size_t) nogil

cdef enum:
    STEPS = 8  # kinds of small blocks: multiples of 64 bytes
    KINDS = 168  # behind them each power of two has four
    LARGEST_BIT = 48  # larger sizes are refused

cdef extern from "<stdint.h>":
    const int64_t NO_LIMIT "INT64_MAX"


cdef struct Account:  # what one iteration of a loop takes; freed when it is closed and nothing refers to it
    Account* parent  # of the iteration around its loop, NULL if none is counted; held
    int64_t live  # bytes made in the iteration that are in use
    int64_t peak  # largest `live`
    int64_t expected  # bytes it should need at most; what is missing from `live` up to there is its claim
    int64_t references  # blocks in use and open accounts that refer to it
    bint closed  # the iteration is over and claims nothing


cdef struct Block:  # in front of the data
    size_t size  # bytes asked for
    size_t capacity  # bytes of data there is room for
    Block* next  # free block of the same kind
    uint32_t kind  # which free list it goes to
    uint32_t away  # handed over to the caller: no longer counted
    Account* account  # on which it counts; NULL for none, and in a free block
    uint64_t unused[3]  # the data begins at a multiple of 64 bytes


cdef struct Store:  # freed with the handler's capsule, which every array of the pool holds
    Handler handler
    int64_t live  # bytes of blocks in use, those handed over excepted, and of guests
    int64_t peak  # largest `live` since it was reset
    int64_t cached  # bytes of data in the free lists
    int64_t most_cached  # upper bound of `cached`
    int64_t limit  # bytes that no allocation may take `live` beyond; NO_LIMIT for none
    int64_t current_limit  # the same for who allocates now: less than `limit` where others come first
    int64_t refused  # bytes asked for by the last allocation or guest that was refused
    int64_t short  # what `live` would have been had it not been refused
    int64_t given  # how often anything was given back
    int64_t reserved  # bytes that open accounts should still need
    Account* account  # of who allocates now, or NULL
    int64_t refusals  # how many were
    Block* free[KINDS]  # owned
    Region* region  # that new blocks come from, or NULL


cdef class Pool:
    cdef Store* store  # owned by `handler`
    cdef readonly object handler  # capsule; what NumPy asks for data
    cdef dict guests  # id of an array from elsewhere -> (holds, bytes charged)
    cdef bint closed
    cdef readonly bint is_allocator  # NumPy takes memory from it; else it only counts
    cdef public str name  # of the device, for errors

    cdef Hold _hold(self, object array, bint limited)
    cdef bint _is_charged(self, object owner)
    cdef int _release(self, object owner) except -1


cdef class Hold:
    cdef Pool pool
    cdef object owner  # the array whose memory it is, alive as long as this
    cdef bint whole  # whether a view was adopted in the place of `owner` itself


cdef inline uint32_t kind_of(size_t size) noexcept nogil:
    """Return the kind of the smallest block with room for `size` bytes."""
    cdef uint32_t bit
    if size <= 64 * STEPS:
        return 0 if size == 0 else (size - 1) >> 6
    bit = 63 - clz(size - 1)
    return STEPS + 4 * (bit - 9) + (((size - 1) >> (bit - 2)) & 3)


cdef inline size_t capacity_of(uint32_t kind) noexcept nogil:
    """Return the bytes there is room for in a block of a kind."""
    if kind < STEPS:
        return (<size_t>kind + 1) << 6
    return <size_t>(((kind - STEPS) & 3) + 5) << (7 + ((kind - STEPS) >> 2))


cdef inline bint refuses(Store* store, int64_t size) noexcept nogil:
    """Say whether so many bytes more would pass the limit, and remember it if so."""
    if size <= store.current_limit - store.live:  # negative where guests take it beyond the limit
        return False
    store.refused = size
    store.short = store.live + size
    store.refusals += 1
    return True


cdef inline void charge(Store* store, int64_t size) noexcept nogil:
    """Count bytes in."""
    store.live += size
    if store.live > store.peak:
        store.peak = store.live


cdef inline int64_t reserved_by(const Account* account) noexcept nogil:
    """Return the bytes that an account should still need."""
    return 0 if account.closed else max(0, account.expected - account.live)


cdef inline Account* open_account(Store* store, Account* parent, int64_t expected) noexcept nogil:
    """Begin to count what an iteration takes; NULL if there is no memory to."""
    cdef Account* account = <Account*>calloc(1, sizeof(Account))
    if account != NULL:
        account.parent = parent
        account.expected = expected
        store.reserved += reserved_by(account)
        if parent != NULL:
            parent.references += 1
    return account


cdef inline void let_account_go(Account* account) noexcept nogil:
    """Free an account that nothing refers to any more, and those around it that only it referred to."""
    cdef Account* parent
    while account != NULL and account.closed and account.references == 0:
        parent = account.parent
        free(account)
        account = parent
        if account != NULL:
            account.references -= 1


cdef inline void close_account(Store* store, Account* account) noexcept nogil:
    """Claim nothing more for an iteration; what it made and is still in use counts on around it."""
    store.reserved -= reserved_by(account)
    store.given += 1
    account.closed = True
    let_account_go(account)


cdef inline void book(Store* store, Account* account, int64_t size) noexcept nogil:
    """Count bytes in, or out, of an account and those around it."""
    while account != NULL:
        store.reserved -= reserved_by(account)
        account.live += size
        account.peak = max(account.peak, account.live)
        store.reserved += reserved_by(account)
        account = account.parent


cdef inline void enter_block(Store* store, Block* block) noexcept nogil:
    """Count a block on the account of who allocates now."""
    block.account = store.account
    if block.account != NULL:
        block.account.references += 1
        book(store, block.account, block.size)


cdef inline void discount(Store* store, Block* block) noexcept nogil:
    """Count a block no longer."""
    cdef Account* account = block.account
    store.live -= block.size
    store.given += 1
    if account != NULL:
        block.account = NULL
        book(store, account, -<int64_t>block.size)
        account.references -= 1
        let_account_go(account)
