"""Calls made by other threads for the event loop's thread, with the same accounts and limits as calls made there.

See docs/design/0022-long-kernels.md.
"""


from tagloom.kernels.memory.accounts cimport enter_allowance, leave_allowance, release_account
from tagloom.kernels.memory.blocks cimport Allowance, Store
from tagloom.kernels.memory.pool cimport Pool


cdef class AllowedCall:
    """A function which takes memory of a pool, on the account and within the limit of the AllowedCall's creator.

    Called in another thread it raises the function's exception; a MemoryError has ``wanted_bytes``: the room in bytes
    needed by another try, None if the limit was not the cause.

    Parameters
    ----------
    pool : Pool
    function : callable
    """

    cdef Pool pool
    cdef object function
    cdef Allowance allowance

    def __cinit__(self, Pool pool not None, function):
        cdef Store* store = pool.store
        self.pool, self.function = pool, function
        self.allowance.account, self.allowance.limit = store.account, store.current_limit
        if store.account != NULL:
            store.account.references += 1  # released when the call is gone

    def __dealloc__(self):
        if self.allowance.account != NULL:
            self.allowance.account.references -= 1
            release_account(self.allowance.account)

    def __call__(self, *arguments):
        enter_allowance(self.pool.store, &self.allowance)
        try:
            return self.function(*arguments)
        except MemoryError as error:
            error.wanted_bytes = self.allowance.refused if self.allowance.refusals else None
            raise
        finally:
            leave_allowance(self.pool.store, &self.allowance)
