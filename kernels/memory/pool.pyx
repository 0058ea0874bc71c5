"""The caching allocator of a device, from which NumPy takes array data (NEP 49), with exact counts of its bytes.

A pool counts the bytes requested for arrays. Arrays from elsewhere are external: counted while a step holds them. An
array handed over to the caller is no longer counted, although its block comes back here at its end.

With a limit a pool is a bounded memory: a request that would exceed the limit is refused before anything is done. The
blocks are from ``store``. See docs/design/0008-memory.md.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc

from tagloom.kernels.core.values cimport Py_INCREF
from tagloom.kernels.memory.accounts cimport charge, discharge, refuses, uncharge
from tagloom.kernels.memory.blocks cimport NO_LIMIT, Block, Budget
from tagloom.kernels.memory.store cimport (
    join_budget, leave_budget, new_handler, release_budget, store_of, trim_store,
)

cdef extern from "numpy/arrayobject.h":
    ctypedef struct ArrayObject "PyArrayObject":
        pass
    ctypedef struct DescrObject "PyArray_Descr":
        pass
    DescrObject* PyArray_DESCR(ArrayObject*)
    PyObject* PyArray_HANDLER(ArrayObject*)
    PyObject* PyArray_BASE(ArrayObject*)
    void* PyArray_DATA(ArrayObject*)
    int PyArray_FLAGS(ArrayObject*)
    # Steals the reference to the descr.
    object PyArray_NewFromDescr(
        cnp.PyTypeObject*, DescrObject*, int, const cnp.npy_intp*, const cnp.npy_intp*, void*, int, PyObject*)
    int PyArray_SetBaseObject(ArrayObject*, PyObject*) except -1
    cnp.PyTypeObject PyArray_Type

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*) nogil

cnp.import_array()


@cython.no_gc
cdef class SharedLimit:
    """A limit for the bytes of several pools together; each joins by `Pool.share`.

    Parameters
    ----------
    limit : int
        Bytes.
    """

    def __cinit__(self, int64_t limit):
        self.budget = <Budget*>calloc(1, sizeof(Budget))
        if self.budget == NULL:
            raise MemoryError()
        self.budget.limit, self.budget.references = limit, 1

    def __dealloc__(self):
        if self.budget != NULL:
            release_budget(self.budget)

    @property
    def limit(self):
        """Upper bound of `used_bytes`."""
        return self.budget.limit

    @property
    def used_bytes(self):
        """Bytes in use of all pools with this limit."""
        return self.budget.live

    @property
    def peak_bytes(self):
        """The largest `used_bytes` so far."""
        return self.budget.peak

    @property
    def pools(self):
        """Number of pools with this limit."""
        return self.budget.references - 1


@cython.no_gc  # in no cycle; charges need it to their end
cdef class Pool:
    """Memory for the arrays of a device.

    Parameters
    ----------
    most_cached : int
        Most bytes of freed blocks kept for new arrays. When there is no room they are all freed.
    limit : int, optional
        Upper bound of `used_bytes`; requests beyond it raise MemoryError. None for no limit.

    Attributes
    ----------
    handler : capsule
        NumPy's data-memory handler. Arrays made with the handler keep the handler, and so their memory, after the
        pool's end.
    """

    def __cinit__(self):
        self.handler = new_handler(&self.store)
        self.external, self.name, self.is_allocator = {}, "", True

    def __init__(self, int64_t most_cached, limit=None):
        self.store.most_cached, self.limit = most_cached, limit

    def __dealloc__(self):
        if self.handler is not None:
            self.store.most_cached = 0
            trim_store(self.store)

    @property
    def live_bytes(self):
        """Bytes of the arrays in use: arrays made here and not handed over, and external arrays."""
        return self.store.live

    @property
    def peak_bytes(self):
        """The largest `live_bytes` so far, or since `reset_peak`."""
        return self.store.peak

    @property
    def used_bytes(self):
        """Bytes in use under the limit: `live_bytes`, and the live bytes of other pools with the same
        limit.
        """
        return self.store.budget.live

    @property
    def bound(self):
        """The owner of the limit: the SharedLimit, if several pools share the limit, else the pool itself."""
        return self if self.shared is None else self.shared

    @property
    def cached_bytes(self):
        """Bytes of freed blocks kept for new arrays, and unused ones of larger blocks that arrays have taken."""
        return self.store.cached

    @property
    def limit(self):
        """Upper bound of `used_bytes`, None for no bound; can be changed at any time, unless shared.

        Adopted arrays and a lower limit may leave `used_bytes` above the limit; then everything is refused until enough
        is freed.
        """
        return None if self.store.budget.limit == NO_LIMIT else self.store.budget.limit

    @limit.setter
    def limit(self, limit):
        if self.shared is not None:
            raise ValueError("a limit that pools share is that of none of them")
        self.store.own.limit = self.store.current_limit = NO_LIMIT if limit is None else limit
        self.store.own.given += 1

    def share(self, SharedLimit shared not None):
        """Keep a limit together with other pools, until this pool is closed."""
        if self.shared is not shared:
            join_budget(self.store, shared.budget)
            self.shared = shared

    @property
    def refused_bytes(self):
        """Bytes requested for the last refused array; another try needs room for them."""
        return self.store.refused

    @property
    def refusals(self):
        """Number of arrays refused by the limit. A MemoryError without a new refusal came from elsewhere."""
        return self.store.refusals

    def reset_peak(self):
        """Reset `peak_bytes` to `live_bytes`."""
        self.store.peak = self.store.live
        self.store.own.peak = self.store.own.live

    def trim(self):
        """Return all freed blocks to the operating system."""
        trim_store(self.store)

    def close(self):
        """Count external arrays no longer, share no limit and keep no freed blocks; arrays made here stay valid."""
        self.closed = True
        discharge(self.store, sum([size for _, size in self.external.values()]))
        self.external.clear()
        self.shared = None
        leave_budget(self.store)
        self.store.most_cached = 0
        trim_store(self.store)

    def charge_external(self, arrays):
        """Count arrays from elsewhere as long as the returned charges live.

        An array counts once, however often charged; a view counts as its base. Scalars travel inside tokens and
        do not count. These are a step's feeds and constants, before the step begins: refusing them then costs nothing.

        Parameters
        ----------
        arrays : iterable
            Items other than arrays are passed over.

        Returns
        -------
        list
            Of ExternalCharge; arrays count as long as these live.

        Raises
        ------
        MemoryLimitError
            If they would take the count beyond the limit; then none is charged.
        """
        self.store.steps += 1
        charges = [self._charge_external(array, True) for array in arrays]
        return [charge for charge in charges if charge is not None]

    def external_bytes(self, arrays):
        """Return the bytes by which `charge_external` would increase the count."""
        owners = {}
        for array in arrays:
            if self.closed or not cnp.PyArray_Check(array):
                continue
            if cnp.PyArray_NDIM(array) == 0 and cnp.PyArray_ITEMSIZE(array) <= 8:
                continue
            owner = _owner(array)
            if not self._is_charged(owner) and self.external.get(<size_t><PyObject*>owner, (0, 0))[0] == 0:
                owners[id(owner)] = cnp.PyArray_NBYTES(owner)
        return sum(owners.values())

    def adopt(self, array):
        """Return a view of an array from elsewhere; the array counts as long as the view lives.

        Scalars, objects other than arrays, and arrays already counted are returned unchanged. No array is refused:
        the memory is taken already, and a user's function cannot return its result again.
        """
        cdef ExternalCharge made = self._charge_external(array, False)
        if made is None:
            return array
        cdef ArrayObject* source = <ArrayObject*><PyObject*>array
        cdef int flags = PyArray_FLAGS(source) & (cnp.NPY_ARRAY_WRITEABLE | cnp.NPY_ARRAY_ALIGNED)
        Py_INCREF(<PyObject*>PyArray_DESCR(source))  # stolen by the view
        view = PyArray_NewFromDescr(
            &PyArray_Type, PyArray_DESCR(source), cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array),
            cnp.PyArray_STRIDES(array), PyArray_DATA(source), flags, NULL)
        made.whole = array is made.owner
        Py_INCREF(<PyObject*>made)  # stolen by the view
        PyArray_SetBaseObject(<ArrayObject*><PyObject*>view, <PyObject*>made)
        return view

    def counts(self, array):
        """Return True if an array counts here until its end: made here and not handed over, or adopted."""
        return self._is_charged(_owner(array))

    cdef ExternalCharge _charge_external(self, object array, bint limited):
        """Charge an array from elsewhere; return None if there is nothing to charge."""
        if self.closed or not cnp.PyArray_Check(array):
            return None
        if cnp.PyArray_NDIM(array) == 0 and cnp.PyArray_ITEMSIZE(array) <= 8:
            return None
        owner = _owner(array)
        if self._is_charged(owner):
            return None
        count, size = self.external.get(<size_t><PyObject*>owner, (0, cnp.PyArray_NBYTES(owner)))
        if count == 0:
            if limited and refuses(self.store, size):
                raise MemoryLimitError(size, self.used_bytes, self.limit, self.name)
            charge(self.store, size)
        self.external[<size_t><PyObject*>owner] = count + 1, size
        cdef ExternalCharge made = ExternalCharge.__new__(ExternalCharge)
        made.pool, made.owner = self, owner
        return made

    cdef bint _is_charged(self, object owner):
        """Return True if an array counts until its end: made here and not handed over, or adopted."""
        cdef ArrayObject* array = <ArrayObject*><PyObject*>owner
        cdef PyObject* base = PyArray_BASE(array)
        if PyArray_HANDLER(array) == <PyObject*>self.handler and PyArray_FLAGS(array) & cnp.NPY_ARRAY_OWNDATA:
            return not (<Block*>PyArray_DATA(array) - 1).handed_over
        return base != NULL and isinstance(<object>base, ExternalCharge) and (<ExternalCharge>base).pool is self

    cdef int _release(self, object owner) except -1:
        """Take back a charge, unless the pool was closed before."""
        count, size = self.external.pop(<size_t><PyObject*>owner, (0, 0))
        if count > 1:
            self.external[<size_t><PyObject*>owner] = count - 1, size
        else:
            discharge(self.store, size)
        return 0


class MemoryLimitError(MemoryError):
    """The limit of a pool leaves no room for an array from elsewhere.

    Attributes
    ----------
    wanted, live, limit : int
        Bytes: of the array, in use before, and of the limit.
    device : str
        Device of the memory.
    """

    def __init__(self, wanted, live, limit, device=""):
        super().__init__(f"{wanted} bytes more do not fit: {live} of {limit} are in use")
        self.wanted, self.live, self.limit, self.device = wanted, live, limit, device


@cython.no_gc  # its end needs the objects that it holds
cdef class ExternalCharge:
    """Keeps an array from elsewhere charged; made by `Pool.charge_external` and `Pool.adopt`."""

    def __dealloc__(self):
        if self.owner is not None:
            self.pool._release(self.owner)


def hand_over(array):
    """Return an array for the user to keep and change, given an array of which the caller has the only reference.

    An array with memory of its own is returned itself and no longer counts; for an adopted view the adopted array is
    returned, if nothing else owns it; all other arrays are copied.

    Parameters
    ----------
    array : numpy.ndarray

    Returns
    -------
    numpy.ndarray
    """
    cdef PyObject* found = _as_it_is(array)
    if found == NULL:
        return array.copy()
    return _let_go(array) if found == <PyObject*>array else <object>found


def needs_copy(array):
    """Return whether `hand_over` copies an array of which the caller's reference is the only one."""
    return _as_it_is(array) == NULL


cdef PyObject* _as_it_is(object array) noexcept:
    """Return the object to hand over for an array without a copy, borrowed, or NULL if a copy is needed."""
    cdef PyObject* base = PyArray_BASE(<ArrayObject*><PyObject*>array)
    if base == NULL:
        return <PyObject*>array if _is_own(array) else NULL
    if Py_REFCNT(base) == 1 and isinstance(<object>base, ExternalCharge) and (<ExternalCharge>base).whole:
        owner = <PyObject*>(<ExternalCharge>base).owner
        if Py_REFCNT(owner) == 1 and _is_own(<object>owner):
            return owner
    return NULL


cdef bint _is_own(object array):
    """Return True if an array owns its memory and is writeable."""
    cdef int wanted = cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE
    cdef ArrayObject* found = <ArrayObject*><PyObject*>array
    return PyArray_FLAGS(found) & wanted == wanted and PyArray_BASE(found) == NULL


cdef object _let_go(object array):
    """Count an array of a pool no longer."""
    cdef Block* block = _block_in(<ArrayObject*><PyObject*>array)
    if block != NULL and not block.handed_over:
        block.handed_over = True
        uncharge(store_of(PyArray_HANDLER(<ArrayObject*><PyObject*>array)), block)
    return array


cdef Block* _block_in(ArrayObject* array) noexcept:
    """Return the block of an array's memory if the array owns a block of any pool, else NULL."""
    if not PyArray_FLAGS(array) & cnp.NPY_ARRAY_OWNDATA or store_of(PyArray_HANDLER(array)) == NULL:
        return NULL
    return <Block*>PyArray_DATA(array) - 1


cdef object _owner(object array):
    """Return the array at the end of a chain of views."""
    cdef PyObject* base = PyArray_BASE(<ArrayObject*><PyObject*>array)
    while base != NULL and cnp.PyArray_Check(<object>base):
        array = <object>base
        base = PyArray_BASE(<ArrayObject*>base)
    return array
