"""Bytes counted in and out: in all, against the limit, and on the accounts of the iterations that made them.

An account *reserves* what its iteration should still need. The sum of that is `Budget.reserved`: an iteration may begin
only where its need fits beside what is in use and what is reserved for others. See docs/design/0011-memory-limits.md.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from tagloom.kernels.memory.blocks cimport Account, Allowance, Block, Store, pthread_t

cdef extern from "<pthread.h>" nogil:
    pthread_t pthread_self()
    bint pthread_equal(pthread_t, pthread_t)


cdef inline Allowance* elsewhere(Store* store) noexcept nogil:
    """Return what the kernel may take that this thread calls, NULL on the thread of the loop."""
    cdef Allowance* each = store.elsewhere
    while each != NULL and not pthread_equal(each.thread, pthread_self()):
        each = each.next
    return each


cdef inline void enter_allowance(Store* store, Allowance* allowance) noexcept nogil:
    """Let what this thread allocates count on an allowance."""
    allowance.thread, allowance.next, allowance.refusals, allowance.held = pthread_self(), store.elsewhere, 0, 0
    store.elsewhere = allowance


cdef inline void leave_allowance(Store* store, Allowance* allowance) noexcept nogil:
    cdef Allowance** place = &store.elsewhere
    while place[0] != allowance:
        place = &place[0].next
    place[0] = allowance.next


cdef inline bint refuses(Store* store, int64_t size) noexcept nogil:
    """Say whether so many bytes more would pass the limit, and remember it if so."""
    cdef Allowance* allowance = elsewhere(store)
    if allowance != NULL:
        return _refuses_elsewhere(store, allowance, size)
    if size <= store.current_limit - store.budget.live:  # negative where external arrays take it beyond the limit
        return False
    store.refused = size
    store.short = store.live + size
    store.refusals += 1
    return True


cdef inline bint _refuses_elsewhere(Store* store, Allowance* allowance, int64_t size) noexcept nogil:
    if size <= allowance.limit - store.budget.live:
        return False
    allowance.refused = allowance.held + size
    allowance.refusals += 1
    store.refusals += 1
    return True


cdef inline void charge(Store* store, int64_t size) noexcept nogil:
    """Count bytes in."""
    store.live += size
    if store.live > store.peak:
        store.peak = store.live
    store.budget.live += size
    if store.budget.live > store.budget.peak:
        store.budget.peak = store.budget.live


cdef inline void discharge(Store* store, int64_t size) noexcept nogil:
    """Count bytes out."""
    store.live -= size
    store.budget.live -= size
    store.budget.given += 1


cdef inline int64_t reserved_by(const Account* account) noexcept nogil:
    """Return the bytes that an account should still need."""
    return 0 if account.closed else max(0, account.expected - account.live)


cdef inline Account* open_account(Store* store, Account* parent, int64_t expected) noexcept nogil:
    """Begin to count what an iteration takes; NULL if there is no memory to."""
    cdef Account* account = <Account*>calloc(1, sizeof(Account))
    if account != NULL:
        account.parent = parent
        account.expected = expected
        store.budget.reserved += reserved_by(account)
        if parent != NULL:
            parent.references += 1
    return account


cdef inline void release_account(Account* account) noexcept nogil:
    """Free an account that nothing refers to any more, and those around it that only it referred to."""
    cdef Account* parent
    while account != NULL and account.closed and account.references == 0:
        parent = account.parent
        free(account)
        account = parent
        if account != NULL:
            account.references -= 1


cdef inline void close_account(Store* store, Account* account) noexcept nogil:
    """Reserve nothing more for an iteration; what it made and is still in use counts on around it."""
    store.budget.reserved -= reserved_by(account)
    store.budget.given += 1
    account.closed = True
    release_account(account)


cdef inline void charge_account(Store* store, Account* account, int64_t size) noexcept nogil:
    """Count bytes in, or out, of an account and those around it."""
    while account != NULL:
        # What an account has in use is taken from what is reserved for it, so that no byte counts twice.
        store.budget.reserved -= reserved_by(account)
        account.live += size
        account.peak = max(account.peak, account.live)
        store.budget.reserved += reserved_by(account)
        account = account.parent


cdef inline void enter_block(Store* store, Block* block) noexcept nogil:
    """Count a block on the account of who allocates now."""
    cdef Allowance* allowance = elsewhere(store)
    block.account = store.account if allowance == NULL else allowance.account
    if allowance != NULL:
        allowance.held += block.size
    if block.account != NULL:
        block.account.references += 1
        charge_account(store, block.account, block.size)


cdef inline void uncharge(Store* store, Block* block) noexcept nogil:
    """Count a block no longer."""
    cdef Account* account = block.account
    cdef Allowance* allowance = elsewhere(store)
    if allowance != NULL:
        allowance.held -= block.size
    discharge(store, block.size)
    if account != NULL:
        block.account = NULL
        charge_account(store, account, -<int64_t>block.size)
        account.references -= 1
        release_account(account)
