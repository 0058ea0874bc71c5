"""Blocks of array data: taken from free lists and returned there, or to the operating system when there are too many.

A freed block goes to the free list of its size class and is taken from there next time: no search, no page faults.
With a limit, a request is refused before anything is done if the count of bytes would exceed the limit.

See docs/design/0008-memory.md.
"""

from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport abort, calloc, free
from libc.string cimport memcpy, memset, strncpy

from tagloom.kernels.core.values cimport TAGLOOM_DEBUG
from tagloom.kernels.memory.accounts cimport charge, charge_account, enter_block, refuses, uncharge
from tagloom.kernels.memory.blocks cimport NO_LIMIT, Block, Budget, Handler, Store
from tagloom.kernels.memory.pages cimport LARGE, free_pages, new_pages
from tagloom.kernels.memory.size_classes cimport LARGEST_BIT, NUM_CLASSES, capacity_of, size_class_of

cdef enum:
    SLACK = 80 << 20  # bytes that live and kept blocks together may exceed the peak by
    MOST_ROOM = 4  # times the bytes asked for that a kept block may have which is taken in place of a new one
    FORGOTTEN = 3  # steps after which a block that was not taken is of no use

cdef extern from *:
    """
    #ifdef __SANITIZE_ADDRESS__
    #include <sanitizer/asan_interface.h>
    #define REDZONE 64
    #else
    #define REDZONE 0
    #define ASAN_POISON_MEMORY_REGION(start, size) ((void)0)
    #define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)0)
    #endif
    """
    const size_t REDZONE  # bytes after each block that nobody may touch, in a build with AddressSanitizer
    void poison "ASAN_POISON_MEMORY_REGION"(void*, size_t) nogil
    void unpoison "ASAN_UNPOISON_MEMORY_REGION"(void*, size_t) nogil

cdef extern from "Python.h":
    int PyGILState_Check() nogil
    void* PyEval_SaveThread() nogil
    void PyEval_RestoreThread(void*) nogil


cdef struct Counts:
    int64_t pools
    int64_t blocks  # in use
    int64_t allocated  # debug build: blocks ever put to use
    int64_t freed  # debug build: blocks that no longer are

cdef Counts _all  # of the process


def block_counts():
    """Return how many pools and blocks in use the process has now.

    A pool lives as long as its last array. A debug build adds how many blocks were ever ``allocated`` and ``freed``.
    """
    counts = {"pools": _all.pools, "blocks": _all.blocks}
    if TAGLOOM_DEBUG:
        counts.update(allocated=_all.allocated, freed=_all.freed)
    return counts


cdef object new_handler(Store** store):
    """Return NumPy's data-memory handler over a new store, in a capsule, the owner of the store."""
    cdef Store* made = _new_store()
    try:
        handler = PyCapsule_New(&made.handler, "mem_handler", _free_store)
    except BaseException:
        free(made)
        raise
    _all.pools += 1
    store[0] = made
    return handler


cdef Store* store_of(PyObject* handler) noexcept:
    """Return the store of a data-memory handler, NULL if the handler is no pool's."""
    cdef Handler* found = NULL
    if handler != NULL:
        found = <Handler*>PyCapsule_GetPointer(<object>handler, "mem_handler")
    return <Store*>found if found != NULL and found.allocator.malloc == &_take else NULL


cdef Store* _new_store() except NULL:
    """Return a new store with its handler."""
    cdef Store* store = <Store*>calloc(1, sizeof(Store))
    if store == NULL:
        raise MemoryError("no memory for a pool")
    store.budget = &store.own
    store.own.limit = store.current_limit = NO_LIMIT
    strncpy(store.handler.name, "tagloom", 127)
    store.handler.version = 1
    store.handler.allocator.ctx = store
    store.handler.allocator.malloc = &_take
    store.handler.allocator.calloc = &_take_zeroed
    store.handler.allocator.realloc = &_resize
    store.handler.allocator.free = &_give
    return store


cdef void _free_store(object capsule) noexcept:
    """Free a store; its last array is gone."""
    cdef Store* store = <Store*>PyCapsule_GetPointer(capsule, "mem_handler")
    trim_store(store)
    leave_budget(store)
    free(store)
    _all.pools -= 1


cdef void* _take(void* ctx, size_t size) noexcept nogil:
    """Return room for `size` bytes, which count; NULL if there is none."""
    cdef Store* store = <Store*>ctx
    if size >> LARGEST_BIT or refuses(store, size):
        return NULL
    cdef void* data = _find(store, size)
    if data != NULL:
        charge(store, size)
        enter_block(store, <Block*>data - 1)
    return data


cdef void* _find(Store* store, size_t size) noexcept nogil:
    """Return room for `size` bytes without counting them, NULL if there is none."""
    cdef Block* block
    if TAGLOOM_DEBUG and not PyGILState_Check():
        abort()
    cdef uint32_t size_class = size_class_of(size)
    block = store.free[size_class]
    if block != NULL:
        _unlink(store, block)
    else:
        block = _larger_block(store, size_class)
        if block == NULL:
            block = _new_block(store, size_class)
        if block == NULL:
            return NULL
    _resize_block(block, size)
    block.handed_over = False
    block.account = NULL
    _all.blocks += 1
    if TAGLOOM_DEBUG:
        _all.allocated += 1
    return block + 1


cdef Block* _larger_block(Store* store, uint32_t size_class) noexcept nogil:
    """Take a larger block from the free lists where a new one would push others out; NULL if there is none.

    Else a step whose sizes differ from those of the last steps would unmap their blocks, and have its own pages from the
    system, as would the next step. The bytes that are not asked for count as kept, since the system lacks them. With a
    limit, which live and kept bytes may exceed by a quarter only, there would be too many of them.
    """
    cdef int64_t capacity = capacity_of(size_class)
    cdef Block* block
    if capacity < LARGE or store.budget.limit != NO_LIMIT or _excess(store, capacity, NO_LIMIT) <= 0:
        return NULL
    for size_class in range(size_class + 1, NUM_CLASSES):
        block = store.free[size_class]
        if <int64_t>capacity_of(size_class) > MOST_ROOM * capacity:
            return NULL
        if block != NULL:
            _unlink(store, block)
            store.cached += block.capacity - capacity
            return block
    return NULL


cdef inline int64_t _excess(Store* store, int64_t size, int64_t most) noexcept nogil:
    """Return the kept bytes that are too many if a block of `size` bytes is made, with at most `most` bytes in all."""
    cdef Budget* budget = store.budget
    return budget.live + store.cached + size - min(most, max(budget.peak, budget.live + size) + SLACK)


cdef inline int64_t _unasked(const Block* block) noexcept nogil:
    """Return the bytes of a block in use that are more than those of its size class: see `_larger_block`."""
    return block.capacity - capacity_of(size_class_of(block.size))


cdef Block* _new_block(Store* store, uint32_t size_class) noexcept nogil:
    """Return a block from the operating system, for which kept ones make room if need be; NULL if there is none."""
    cdef size_t capacity = capacity_of(size_class)
    cdef Block* block
    if capacity >= LARGE or store.budget.limit != NO_LIMIT:
        _make_room(store, capacity)
    block = <Block*>new_pages(&store.region, _bytes_of(capacity))
    if block == NULL:  # the system has none: free blocks of other size classes may hold the memory
        trim_store(store)
        block = <Block*>new_pages(&store.region, _bytes_of(capacity))
    if block != NULL:
        block.size_class = size_class
        block.capacity = capacity
    return block


cdef inline size_t _bytes_of(size_t capacity) noexcept nogil:
    """Return the length of a block with room for `capacity` bytes of data."""
    return sizeof(Block) + capacity + REDZONE


cdef inline void _resize_block(Block* block, size_t size) noexcept nogil:
    """Note how many bytes of a block's data are in use; AddressSanitizer reports accesses to the bytes after them."""
    block.size = size
    unpoison(block + 1, size)
    poison(<char*>(block + 1) + size, block.capacity + REDZONE - size)


cdef inline void _free_block(Store* store, Block* block) noexcept nogil:
    """Return the memory of a block to the operating system."""
    unpoison(block + 1, block.capacity + REDZONE)
    free_pages(&store.region, block, _bytes_of(block.capacity))


cdef void _make_room(Store* store, int64_t size) noexcept nogil:
    """Free blocks before the process grows well beyond the bytes ever in use, or beyond the limit."""
    # A quarter beyond the limit, for blocks are larger than the arrays in them. With less, a step that nearly fills its
    # limit would map its largest blocks anew each time.
    cdef Budget* budget = store.budget
    cdef int64_t most = budget.limit + min(budget.limit // 4, NO_LIMIT - budget.limit)
    if budget != &store.own:
        _make_others_give(store, size, most)
    _evict(store, _excess(store, size, most))


cdef void _make_others_give(Store* store, int64_t size, int64_t most) noexcept nogil:
    """Make the stores with a shared limit free blocks, so that all their blocks stay within the limit."""
    cdef Store* each = store.budget.stores
    cdef int64_t excess = store.budget.live + size - most
    cdef int64_t cached
    while each != NULL:
        excess += each.cached
        each = each.next_sharer
    each = store.budget.stores
    while each != NULL and excess > 0:
        if each != store:
            cached = each.cached
            _evict(each, min(excess, cached))
            excess -= cached - each.cached
        each = each.next_sharer


cdef void _evict(Store* store, int64_t excess) noexcept nogil:
    """Return `excess` bytes of free blocks to the system, large ones first, because they cost the least."""
    cdef uint32_t size_class = NUM_CLASSES
    if excess > 0:
        excess -= _evict_forgotten(store, excess)
    while excess > 0 and size_class > 0:
        size_class -= 1
        while excess > 0 and store.free[size_class] != NULL:
            excess -= _give_back(store, store.free[size_class])


cdef int64_t _evict_forgotten(Store* store, int64_t excess) noexcept nogil:
    """Free the blocks not taken by any step for a while; return their bytes.

    Else blocks of a plan no longer in use would stay, and the largest blocks of the running plan would be mapped in
    each step.
    """
    cdef int64_t freed = 0
    cdef Block* block
    cdef uint32_t size_class
    for size_class in range(size_class_of(LARGE), NUM_CLASSES):
        block = store.oldest[size_class]
        while freed < excess and block != NULL and store.steps - block.freed_at > FORGOTTEN:
            freed += _give_back(store, block)
            block = store.oldest[size_class]
    return freed


cdef size_t _give_back(Store* store, Block* block) noexcept nogil:
    """Return a free block to the system; return the bytes of its capacity."""
    cdef size_t capacity = block.capacity
    _unlink(store, block)
    _free_block(store, block)
    return capacity


cdef inline void _unlink(Store* store, Block* block) noexcept nogil:
    """Take a block out of its free list."""
    store.cached -= block.capacity
    if block.newer == NULL:
        store.free[block.size_class] = block.next
    else:
        block.newer.next = block.next
    if block.capacity < LARGE:
        return
    if block.next == NULL:
        store.oldest[block.size_class] = block.newer
    else:
        block.next.newer = block.newer


cdef inline void _keep(Store* store, Block* block) noexcept nogil:
    """Put a block into the free list of its size class."""
    cdef Block* newest = store.free[block.size_class]
    block.next, block.newer = newest, NULL
    store.free[block.size_class] = block
    store.cached += block.capacity
    poison(block + 1, block.capacity)
    if block.capacity < LARGE:
        return  # small ones are looked at from one end only
    block.freed_at = store.steps
    if newest == NULL:
        store.oldest[block.size_class] = block
    else:
        newest.newer = block


cdef void* _take_zeroed(void* ctx, size_t count, size_t size) noexcept nogil:
    """Return room for `count` elements of `size` bytes, all zero."""
    if size != 0 and count > <size_t>-1 / size:
        return NULL
    cdef void* data = _take(ctx, count * size)
    if data != NULL and count * size < LARGE:
        memset(data, 0, count * size)
    elif data != NULL:
        _clear(data, count * size)
    return data


cdef void _clear(void* data, size_t size) noexcept nogil:
    """Write zeros to a large new block, whose pages may not be mapped yet."""
    cdef void* thread = PyEval_SaveThread()
    memset(data, 0, size)
    PyEval_RestoreThread(thread)


cdef void* _resize(void* ctx, void* data, size_t size) noexcept nogil:
    """Return room for `size` bytes with the contents of `data`, which is freed; NULL with nothing done if there is
    none.
    """
    cdef Store* store = <Store*>ctx
    cdef Block* old = <Block*>data - 1
    if data == NULL:
        return _take(ctx, size)
    if size_class_of(size) == size_class_of(old.size):
        return data if _recount(store, old, size) else NULL
    if size >> LARGEST_BIT:
        return NULL
    cdef void* new = _find(store, size) if old.handed_over else _take(ctx, size)
    if new == NULL:
        return NULL
    memcpy(new, data, min(size, old.size))
    (<Block*>new - 1).handed_over = old.handed_over
    _give(ctx, data, old.size)
    return new


cdef bint _recount(Store* store, Block* block, size_t size) noexcept nogil:
    """Change the counted size of a block, if within the limit."""
    cdef int64_t more = <int64_t>size - <int64_t>block.size
    if not block.handed_over:
        if more > 0 and refuses(store, more):
            return False
        charge(store, more)
        charge_account(store, block.account, more)
    _resize_block(block, size)
    return True


cdef void _give(void* ctx, void* data, size_t size) noexcept nogil:
    """Free a block for NumPy, whose `size` is not always right."""
    cdef Store* store = <Store*>ctx
    cdef Block* block = <Block*>data - 1
    if TAGLOOM_DEBUG and not PyGILState_Check():
        abort()
    if data == NULL:
        return
    if not block.handed_over:
        uncharge(store, block)
    _all.blocks -= 1
    if TAGLOOM_DEBUG:
        _all.freed += 1
    store.cached -= _unasked(block)
    if <int64_t>block.capacity > store.most_cached:
        _free_block(store, block)
        return
    _evict(store, store.cached + <int64_t>block.capacity - store.most_cached)
    _keep(store, block)


cdef void join_budget(Store* store, Budget* budget) noexcept nogil:
    """Count the bytes of a store against a shared limit from now on, beside its own counts."""
    leave_budget(store)
    budget.references += 1
    budget.live += store.live
    budget.peak = max(budget.peak, budget.live)
    budget.reserved += store.own.reserved
    store.next_sharer, budget.stores = budget.stores, store
    store.budget, store.current_limit = budget, budget.limit


cdef void leave_budget(Store* store) noexcept nogil:
    """Count the bytes of a store no longer against a shared limit, but against an equal limit of its own."""
    cdef Budget* budget = store.budget
    cdef Store** place = &budget.stores
    if budget == &store.own:
        return
    while place[0] != store:
        place = &place[0].next_sharer
    place[0] = store.next_sharer
    store.own.live, store.own.peak, store.own.limit, store.own.reserved = store.live, store.peak, budget.limit, 0
    store.budget, store.next_sharer, store.current_limit = &store.own, NULL, budget.limit
    budget.live -= store.live
    budget.given += 1
    release_budget(budget)


cdef void release_budget(Budget* budget) noexcept nogil:
    """Release a reference to a shared budget; the last release frees the budget."""
    budget.references -= 1
    if budget.references == 0:
        free(budget)


cdef void trim_store(Store* store) noexcept nogil:
    """Return all free blocks to the operating system."""
    _evict(store, store.cached)
