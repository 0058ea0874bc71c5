"""Counts of the bytes in use: of a store, of the budget with the limit, and of the iterations that allocated them.

Each iteration of a loop has an account. An account *reserves* the bytes that its iteration is still expected to take;
`Budget.reserved` is the sum over open accounts. An iteration begins only if its expected bytes fit under the limit
beside the bytes in use and the bytes reserved for others. See docs/design/0011-memory-limits.md.

A kernel called in another thread than the event loop's has an Allowance: a limit and an account of its own, found by
the thread's identity. All functions here are called with the GIL held, which guards the counts and lists.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from tagloom.kernels.memory.blocks cimport Account, Allowance, Block, Store, pthread_t

cdef extern from "<pthread.h>" nogil:
    pthread_t pthread_self()
    bint pthread_equal(pthread_t, pthread_t)


cdef inline Allowance* elsewhere(Store* store) noexcept nogil:
    """Return the allowance of the kernel that this thread runs; NULL on the event loop's thread."""
    cdef Allowance* each = store.elsewhere
    while each != NULL and not pthread_equal(each.thread, pthread_self()):
        each = each.next
    return each


cdef inline void enter_allowance(Store* store, Allowance* allowance) noexcept nogil:
    """Charge the allocations of this thread to `allowance` until leave_allowance; the caller owns the struct."""
    allowance.thread, allowance.next, allowance.refusals, allowance.held = pthread_self(), store.elsewhere, 0, 0
    store.elsewhere = allowance


cdef inline void leave_allowance(Store* store, Allowance* allowance) noexcept nogil:
    """Unlink an allowance from the list of its store."""
    cdef Allowance** place = &store.elsewhere
    while place[0] != allowance:
        place = &place[0].next
    place[0] = allowance.next


cdef inline bint refuses(Store* store, int64_t size) noexcept nogil:
    """Return True if `size` more bytes would pass the limit; record the refusal for the error and for retries."""
    cdef Allowance* allowance = elsewhere(store)
    if allowance != NULL:
        return _refuses_elsewhere(store, allowance, size)
    # A difference, as a sum may overflow; negative if adopted arrays, never refused, have passed the limit.
    if size <= store.current_limit - store.budget.live:
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
    """Count `size` bytes as in use, by the store and its budget."""
    store.live += size
    if store.live > store.peak:
        store.peak = store.live
    store.budget.live += size
    if store.budget.live > store.budget.peak:
        store.budget.peak = store.budget.live


cdef inline void discharge(Store* store, int64_t size) noexcept nogil:
    """Count `size` bytes as freed, by the store and its budget."""
    store.live -= size
    store.budget.live -= size
    store.budget.given += 1  # tells parked instances that another attempt may succeed


cdef inline int64_t reserved_by(const Account* account) noexcept nogil:
    """Return the bytes that the iteration of an account is still expected to take."""
    return 0 if account.closed else max(0, account.expected - account.live)


cdef inline Account* open_account(Store* store, Account* parent, int64_t expected) noexcept nogil:
    """Return a new account for an iteration, within `parent` or NULL, expected to take `expected` bytes.

    NULL if the account itself cannot be allocated.
    """
    cdef Account* account = <Account*>calloc(1, sizeof(Account))
    if account != NULL:
        account.parent = parent
        account.expected = expected
        store.budget.reserved += reserved_by(account)
        if parent != NULL:
            parent.references += 1
    return account


cdef inline void release_account(Account* account) noexcept nogil:
    """Free a closed account without references, and then each parent without further references."""
    cdef Account* parent
    while account != NULL and account.closed and account.references == 0:
        parent = account.parent
        free(account)
        account = parent
        if account != NULL:
            account.references -= 1


cdef inline void close_account(Store* store, Account* account) noexcept nogil:
    """End the reservation of an iteration. Its blocks still in use count on, on its account and the parents."""
    store.budget.reserved -= reserved_by(account)
    store.budget.given += 1
    account.closed = True
    release_account(account)


cdef inline void charge_account(Store* store, Account* account, int64_t size) noexcept nogil:
    """Add `size` bytes, negative for freed ones, to an account and all its parents."""
    while account != NULL:
        # Bytes in use reduce the account's reservation, so that no byte counts twice against the limit.
        store.budget.reserved -= reserved_by(account)
        account.live += size
        account.peak = max(account.peak, account.live)
        store.budget.reserved += reserved_by(account)
        account = account.parent


cdef inline void enter_block(Store* store, Block* block) noexcept nogil:
    """Count a new block on the account of the allocating thread: its allowance's, or the loop thread's present one."""
    cdef Allowance* allowance = elsewhere(store)
    block.account = store.account if allowance == NULL else allowance.account
    if allowance != NULL:
        allowance.held += block.size
    if block.account != NULL:
        block.account.references += 1
        charge_account(store, block.account, block.size)


cdef inline void uncharge(Store* store, Block* block) noexcept nogil:
    """Stop counting a block, on the account on which it was counted."""
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
