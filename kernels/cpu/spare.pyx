"""What the swapping of saved values asks of a device's memory: room that nobody needs, and arrays that nobody else has."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

import numpy as np

from tagflow.kernels.cpu.contexts cimport KernelContexts
from tagflow.kernels.cpu.pool cimport Account, Block, Pool, Store, book, enter_block, let_account_go
from tagflow.kernels.scheduler.series cimport Stored

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


def spare_array(KernelContexts contexts, shape, dtype):
    """Return a new array that no iteration is charged for, None if it would take what iterations claim.

    Parameters
    ----------
    contexts : KernelContexts
        Of a device with a pool.
    shape : tuple of int
    dtype : numpy.dtype

    Returns
    -------
    numpy.ndarray or None
        Not initialised.
    """
    cdef Store* store = (<Pool>contexts.pool).store
    cdef Account* account = store.account
    cdef int64_t bound = store.bound
    cdef int64_t size = dtype.itemsize
    for length in shape:
        size *= length
    if size > store.limit - store.claims - store.live:
        return None
    store.account, store.bound = NULL, store.limit
    try:
        return contexts.run(np.empty, shape, dtype)
    finally:
        store.account, store.bound = account, bound


def charge_reader(Pool pool, array):
    """Count a saved array on the account of the iteration that reads it, as one that is brought back for it would be.

    Else an iteration that finds what it reads would seem to need less memory than others after it.

    Parameters
    ----------
    pool : Pool
    array : numpy.ndarray
        Left where it counts if its memory is not the pool's own.
    """
    cdef ArrayObject* found = <ArrayObject*><PyObject*>array
    cdef Account* account
    cdef Block* block
    if not PyArray_FLAGS(found) & cnp.NPY_ARRAY_OWNDATA or PyArray_HANDLER(found) != <PyObject*>pool.handler:
        return
    block = <Block*>PyArray_DATA(found) - 1
    account = block.account
    if block.away or account == pool.store.account:
        return
    if account != NULL:
        book(pool.store, account, -<int64_t>block.size)
    enter_block(pool.store, block)
    if account != NULL:
        account.references -= 1
        let_account_go(account)


def frees(Pool pool, Stored holder):
    """Say whether a pool gets all bytes of an array back when the one who holds it lets go of it.

    Parameters
    ----------
    pool : Pool
    holder : Stored
        With an array.

    Returns
    -------
    bool
        False for a view of something larger, and for what is from elsewhere or held by somebody else.
    """
    cdef PyObject* found = <PyObject*>holder.array
    cdef PyObject* base = PyArray_BASE(<ArrayObject*>found)
    while base != NULL and Py_REFCNT(found) == 1:
        if not cnp.PyArray_Check(<object>base) or cnp.PyArray_NBYTES(<object>base) != cnp.PyArray_NBYTES(holder.array):
            return False
        found, base = base, PyArray_BASE(<ArrayObject*>base)
    owns = PyArray_FLAGS(<ArrayObject*>found) & cnp.NPY_ARRAY_OWNDATA != 0
    mine = PyArray_HANDLER(<ArrayObject*>found) == <PyObject*>pool.handler
    return Py_REFCNT(found) == 1 and owns and mine
