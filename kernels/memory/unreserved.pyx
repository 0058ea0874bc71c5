"""Access of swapping to a device's memory: unreserved room, and arrays with a single owner.

See docs/design/0012-swap.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

import numpy as np

from tagloom.kernels.memory.accounts cimport charge_account, enter_block, release_account
from tagloom.kernels.memory.blocks cimport Account, Block, Store
from tagloom.kernels.memory.byte_counter cimport ByteCounter, Charge
from tagloom.kernels.memory.contexts cimport KernelContexts
from tagloom.kernels.memory.pool cimport Pool
from tagloom.kernels.memory.swappable cimport SwappableArray

cdef extern from "numpy/arrayobject.h":
    ctypedef struct ArrayObject "PyArrayObject":
        pass
    PyObject* PyArray_BASE(ArrayObject*)
    void* PyArray_DATA(ArrayObject*)
    PyObject* PyArray_HANDLER(ArrayObject*)
    int PyArray_FLAGS(ArrayObject*)

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*) nogil

cnp.import_array()


def allocate_unreserved(KernelContexts contexts, shape, dtype, empty=np.empty):
    """Return a new array charged to no iteration, None if only memory reserved for iterations is left.

    Parameters
    ----------
    contexts : KernelContexts
        Of a device with a pool.
    shape : tuple of int
    dtype : numpy.dtype
    empty : callable
        The function ``empty`` of the device's array library.

    Returns
    -------
    array or None
        Not initialised.
    """
    cdef Store* store = (<Pool>contexts.pool).store
    cdef Account* account = store.account
    cdef int64_t current_limit = store.current_limit
    cdef int64_t size = dtype.itemsize
    for length in shape:
        size *= length
    if size > store.budget.limit - store.budget.reserved - store.budget.live:
        return None
    # The caller may be an instance that runs, on the account of its iteration and within its limit.
    # A value brought back ahead of its read belongs to no iteration yet: `charge_reader` charges its reader.
    store.account, store.current_limit = NULL, store.budget.limit
    try:
        return contexts.run(empty, shape, dtype)
    finally:
        store.account, store.current_limit = account, current_limit


cpdef charge_reader(Pool pool, array):
    """Move a saved array to the account of the iteration reading it, as if the array had been brought back.

    The memory gate starts iterations by the needs of earlier ones. A backward iteration takes nothing to read saved
    values still in memory; without this charge it would seem to need less than later iterations, whose values have left
    and come back on their accounts, and the gate would start too many.

    Parameters
    ----------
    pool : Pool
    array : array
        Stays on its account if its memory is not the pool's own.
    """
    cdef Block* block = _block_of(pool, array)
    cdef Account* account
    if block == NULL or block.handed_over or block.account == pool.store.account:
        return
    # The block moves from its account to the reader's; `Store.live` does not change. The old account keeps its
    # reference until the block is on the new account, since the last reference ends the account.
    account = block.account
    if account != NULL:
        charge_account(pool.store, account, -<int64_t>block.size)
    enter_block(pool.store, block)
    if account != NULL:
        account.references -= 1
        release_account(account)


cdef Block* _block_of(Pool pool, object array):
    """Return the Block of an array's memory in a pool, NULL for an array from elsewhere, or a part of a larger array.
    """
    cdef ArrayObject* found = <ArrayObject*><PyObject*>array
    cdef Charge charge
    if isinstance(pool, ByteCounter):
        charge = (<ByteCounter>pool).charge_of(array)
        return NULL if charge is None or charge.nbytes != array.nbytes else &charge.block  # which the array keeps
    if not PyArray_FLAGS(found) & cnp.NPY_ARRAY_OWNDATA or PyArray_HANDLER(found) != <PyObject*>pool.handler:
        return NULL
    return <Block*>PyArray_DATA(found) - 1


def is_sole_owner(Pool pool, SwappableArray holder):
    """Return True if a pool gets all bytes of an array back when its holder drops it.

    Parameters
    ----------
    pool : Pool
    holder : SwappableArray
        With an array.

    Returns
    -------
    bool
        False for a view of something larger, for an array from elsewhere and for an array with another owner.
    """
    if isinstance(pool, ByteCounter):
        return _frees_charge(<ByteCounter>pool, holder)
    cdef PyObject* found = <PyObject*>holder.array
    cdef PyObject* base = PyArray_BASE(<ArrayObject*>found)
    while base != NULL and Py_REFCNT(found) == 1:
        if not cnp.PyArray_Check(<object>base) or cnp.PyArray_NBYTES(<object>base) != cnp.PyArray_NBYTES(holder.array):
            return False
        found, base = base, PyArray_BASE(<ArrayObject*>base)
    owns = PyArray_FLAGS(<ArrayObject*>found) & cnp.NPY_ARRAY_OWNDATA != 0
    mine = PyArray_HANDLER(<ArrayObject*>found) == <PyObject*>pool.handler
    return Py_REFCNT(found) == 1 and owns and mine


cdef bint _frees_charge(ByteCounter byte_counter, SwappableArray holder):
    """Return the same for an array of another library, whose views have the viewed array as their `base`."""
    cdef PyObject* found = <PyObject*>holder.array
    cdef object size = holder.array.nbytes
    cdef PyObject* base = _base_of(found)
    cdef Charge charge = byte_counter.charge_of(holder.array)
    while base != NULL and Py_REFCNT(found) == 1:
        found, base = base, _base_of(base)
    return Py_REFCNT(found) == 1 and charge is not None and charge.nbytes == size


cdef PyObject* _base_of(PyObject* array) except? NULL:
    """Return the array of which another is a view, borrowed; NULL for no view."""
    base = (<object>array).base
    return NULL if base is None else <PyObject*>base
