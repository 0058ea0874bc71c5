"""The caching allocator of a device, which NumPy takes array data from (NEP 49), with exact counts of its bytes.

A freed block goes to the free list of its kind and is taken from there next time: no search, no page faults. What a
pool counts is what arrays asked for. Arrays from elsewhere are guests: counted while a step holds them. An array that
is handed over to the caller is no longer counted, although its block comes back here when it dies.

With a limit a pool is a bounded memory: what would take the count beyond it is refused before anything is done.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport abort, calloc, free
from libc.string cimport memcpy, memset, strncpy

from tagflow.kernels.core.values cimport TAGFLOW_DEBUG, Py_INCREF
from tagflow.kernels.memory.pages cimport LARGE, free_pages, new_pages

cdef enum:
    SLACK = 80 << 20  # bytes that live and kept blocks together may exceed the peak by

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
    int PyGILState_Check() nogil

cnp.import_array()

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
    if TAGFLOW_DEBUG:
        counts.update(allocated=_all.allocated, freed=_all.freed)
    return counts


@cython.no_gc  # in no cycle; holds need it to their end
cdef class Pool:
    """Memory for the arrays of a device.

    Parameters
    ----------
    most_cached : int
        Most bytes of freed blocks that are kept for new arrays. When there is no room they are all given back.
    limit : int, optional
        Bytes that `live_bytes` may reach; what asks for more gets a MemoryError. None for no limit.

    Attributes
    ----------
    handler : capsule
        NumPy's data-memory handler. Arrays made with it keep it, and with it their memory, after the pool's end.
    """

    def __cinit__(self):
        self.store = _new_store()
        try:
            self.handler = PyCapsule_New(&self.store.handler, "mem_handler", _free_store)
        except BaseException:
            free(self.store)
            raise
        self.guests, self.name, self.is_allocator = {}, "", True
        _all.pools += 1

    def __init__(self, int64_t most_cached, limit=None):
        self.store.most_cached, self.limit = most_cached, limit

    def __dealloc__(self):
        if self.handler is not None:
            self.store.most_cached = 0
            _trim(self.store)

    @property
    def live_bytes(self):
        """Bytes of the arrays in use: those made here and not handed over, and guests."""
        return self.store.live

    @property
    def peak_bytes(self):
        """The largest `live_bytes` so far, or since `reset_peak`."""
        return self.store.peak

    @property
    def cached_bytes(self):
        """Bytes of freed blocks kept for new arrays."""
        return self.store.cached

    @property
    def limit(self):
        """Bytes that `live_bytes` may reach, None for any number; it can be changed at any time.

        Adopted arrays and such a change may exceed it, and then everything is refused until enough is freed.
        """
        return None if self.store.limit == NO_LIMIT else self.store.limit

    @limit.setter
    def limit(self, limit):
        self.store.limit = self.store.current_limit = NO_LIMIT if limit is None else limit
        self.store.given += 1

    @property
    def refused_bytes(self):
        """Bytes that the last refused array asked for; what there must be room for before it is worth another try."""
        return self.store.refused

    @property
    def refusals(self):
        """How many arrays the limit has refused. A MemoryError that left it as it was came from elsewhere."""
        return self.store.refusals

    def reset_peak(self):
        """Let `peak_bytes` begin anew from `live_bytes`."""
        self.store.peak = self.store.live

    def trim(self):
        """Give all freed blocks back to the operating system."""
        _trim(self.store)

    def close(self):
        """Count guests no longer and keep no freed blocks; arrays made here stay valid."""
        self.closed = True
        self.store.live -= sum([size for _, size in self.guests.values()])
        self.store.given += 1
        self.guests.clear()
        self.store.most_cached = 0
        _trim(self.store)

    def hold(self, arrays):
        """Count arrays from elsewhere as long as what is returned lives.

        An array counts once, however often it is held; a view counts as its base. Scalars travel inside tokens and
        do not count. These are a step's feeds and constants, before it begins: refusing them then costs nothing.

        Parameters
        ----------
        arrays : iterable
            Anything in it that is no array is passed over.

        Returns
        -------
        list
            Of what keeps the charge.

        Raises
        ------
        MemoryLimitError
            If they would take the count beyond the limit; then none of them is held.
        """
        holds = [self._hold(array, True) for array in arrays]
        return [hold for hold in holds if hold is not None]

    def adopt(self, array):
        """Return an array from elsewhere so that it counts until nobody uses it: as a view that says when it dies.

        Anything that is no array, is a scalar, or counts already is returned as it is. It is never refused: the
        memory is taken already, and what a user's function returned can not be had again.
        """
        cdef Hold hold = self._hold(array, False)
        if hold is None:
            return array
        cdef ArrayObject* source = <ArrayObject*><PyObject*>array
        cdef int flags = PyArray_FLAGS(source) & (cnp.NPY_ARRAY_WRITEABLE | cnp.NPY_ARRAY_ALIGNED)
        Py_INCREF(<PyObject*>PyArray_DESCR(source))  # stolen by the view
        view = PyArray_NewFromDescr(
            &PyArray_Type, PyArray_DESCR(source), cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array),
            cnp.PyArray_STRIDES(array), PyArray_DATA(source), flags, NULL)
        hold.whole = array is hold.owner
        Py_INCREF(<PyObject*>hold)  # stolen by the view
        PyArray_SetBaseObject(<ArrayObject*><PyObject*>view, <PyObject*>hold)
        return view

    def counts(self, array):
        """Return whether an array counts here as long as it lives: it was made here, or adopted."""
        return self._is_charged(_owner(array))

    cdef Hold _hold(self, object array, bint limited):
        """Charge a guest; return None if there is nothing to charge."""
        if self.closed or not cnp.PyArray_Check(array):
            return None
        if cnp.PyArray_NDIM(array) == 0 and cnp.PyArray_ITEMSIZE(array) <= 8:
            return None
        owner = _owner(array)
        if self._is_charged(owner):
            return None
        count, size = self.guests.get(<size_t><PyObject*>owner, (0, cnp.PyArray_NBYTES(owner)))
        if count == 0:
            if limited and refuses(self.store, size):
                raise MemoryLimitError(size, self.store.live, self.store.limit, self.name)
            charge(self.store, size)
        self.guests[<size_t><PyObject*>owner] = count + 1, size
        cdef Hold hold = Hold.__new__(Hold)
        hold.pool, hold.owner = self, owner
        return hold

    cdef bint _is_charged(self, object owner):
        """Say whether an array counts as long as it lives: it was made here, or adopted."""
        cdef ArrayObject* array = <ArrayObject*><PyObject*>owner
        cdef PyObject* base = PyArray_BASE(array)
        if PyArray_HANDLER(array) == <PyObject*>self.handler and PyArray_FLAGS(array) & cnp.NPY_ARRAY_OWNDATA:
            return not (<Block*>PyArray_DATA(array) - 1).away
        return base != NULL and isinstance(<object>base, Hold) and (<Hold>base).pool is self

    cdef int _release(self, object owner) except -1:
        """Take back a charge, unless the pool was closed before."""
        count, size = self.guests.pop(<size_t><PyObject*>owner, (0, 0))
        if count > 1:
            self.guests[<size_t><PyObject*>owner] = count - 1, size
        else:
            self.store.live -= size
            self.store.given += 1
        return 0


class MemoryLimitError(MemoryError):
    """The limit of a pool leaves no room for an array from elsewhere.

    Attributes
    ----------
    wanted, live, limit : int
        Bytes: of the array, of what was counted before, and of the limit.
    device : str
        Whose memory it is.
    """

    def __init__(self, wanted, live, limit, device=""):
        super().__init__(f"{wanted} bytes more do not fit: {live} of {limit} are in use")
        self.wanted, self.live, self.limit, self.device = wanted, live, limit, device


@cython.no_gc  # its end needs what it holds
cdef class Hold:
    """Keeps a guest charged; made by `Pool.hold` and `Pool.adopt`."""

    def __dealloc__(self):
        if self.owner is not None:
            self.pool._release(self.owner)


def hand_over(array):
    """Return an array of which the caller's reference is the only one as the user may keep and change it.

    An array that owns its memory is given as it is and no longer counts; an adopted one is given back as it came,
    if nobody else has it; anything else is copied.

    Parameters
    ----------
    array : numpy.ndarray

    Returns
    -------
    numpy.ndarray
    """
    cdef PyObject* base = PyArray_BASE(<ArrayObject*><PyObject*>array)
    if base == NULL:
        return _let_go(array) if _is_own(array) else array.copy()
    if Py_REFCNT(base) == 1 and isinstance(<object>base, Hold) and (<Hold>base).whole:
        owner = <PyObject*>(<Hold>base).owner
        if Py_REFCNT(owner) == 1 and _is_own(<object>owner):
            return <object>owner
    return array.copy()


cdef bint _is_own(object array):
    """Say whether an array owns its memory and may be changed."""
    cdef int wanted = cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE
    cdef ArrayObject* found = <ArrayObject*><PyObject*>array
    return PyArray_FLAGS(found) & wanted == wanted and PyArray_BASE(found) == NULL


cdef object _let_go(object array):
    """Count an array no longer if it came from a pool."""
    cdef Block* block = _block_in(<ArrayObject*><PyObject*>array)
    if block != NULL and not block.away:
        block.away = True
        discount(_store_of(PyArray_HANDLER(<ArrayObject*><PyObject*>array)), block)
    return array


cdef Block* _block_in(ArrayObject* array) noexcept:
    """Return the block of an array's memory if it owns one of any pool, else NULL."""
    if not PyArray_FLAGS(array) & cnp.NPY_ARRAY_OWNDATA or _store_of(PyArray_HANDLER(array)) == NULL:
        return NULL
    return <Block*>PyArray_DATA(array) - 1


cdef Store* _store_of(PyObject* handler) noexcept:
    """Return the store behind a data-memory handler, NULL if it is none of ours."""
    cdef Handler* found = NULL
    if handler != NULL:
        found = <Handler*>PyCapsule_GetPointer(<object>handler, "mem_handler")
    return <Store*>found if found != NULL and found.allocator.malloc == &_take else NULL


cdef object _owner(object array):
    """Return the array at the end of a chain of views."""
    cdef PyObject* base = PyArray_BASE(<ArrayObject*><PyObject*>array)
    while base != NULL and cnp.PyArray_Check(<object>base):
        array = <object>base
        base = PyArray_BASE(<ArrayObject*>base)
    return array


cdef Store* _new_store() except NULL:
    """Return a new store with its handler."""
    cdef Store* store = <Store*>calloc(1, sizeof(Store))
    if store == NULL:
        raise MemoryError("no memory for a pool")
    store.limit = store.current_limit = NO_LIMIT
    strncpy(store.handler.name, "tagflow", 127)
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
    _trim(store)
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
    if TAGFLOW_DEBUG and not PyGILState_Check():
        abort()
    cdef uint32_t kind = kind_of(size)
    block = store.free[kind]
    if block != NULL:
        store.free[kind] = block.next
        store.cached -= block.capacity
    else:
        block = _new_block(store, kind)
        if block == NULL:
            return NULL
    block.size = size
    block.away = False
    block.account = NULL
    _all.blocks += 1
    if TAGFLOW_DEBUG:
        _all.allocated += 1
    return block + 1


cdef Block* _new_block(Store* store, uint32_t kind) noexcept nogil:
    """Return a block from the operating system, for which kept ones make room if need be; NULL if there is none."""
    cdef size_t capacity = capacity_of(kind)
    cdef Block* block
    if capacity >= LARGE or store.limit != NO_LIMIT:
        _make_room(store, capacity)
    block = <Block*>new_pages(&store.region, sizeof(Block) + capacity)
    if block == NULL:
        _trim(store)
        block = <Block*>new_pages(&store.region, sizeof(Block) + capacity)
    if block != NULL:
        block.kind = kind
        block.capacity = capacity
    return block


cdef void _make_room(Store* store, int64_t size) noexcept nogil:
    """Give back free blocks that would make the process grow well beyond the bytes ever in use, or beyond the limit."""
    cdef int64_t most = store.limit + min(store.limit // 4, NO_LIMIT - store.limit)
    _evict(store, store.live + store.cached + size - min(most, max(store.peak, store.live + size) + SLACK))


cdef void _evict(Store* store, int64_t excess) noexcept nogil:
    """Give so many bytes of free blocks back to the system, large ones first: they cost the least."""
    cdef uint32_t kind = KINDS
    cdef Block* block
    while excess > 0 and kind > 0:
        kind -= 1
        while excess > 0 and store.free[kind] != NULL:
            block = store.free[kind]
            store.free[kind] = block.next
            store.cached -= block.capacity
            excess -= block.capacity
            free_pages(&store.region, block, sizeof(Block) + block.capacity)


cdef void* _take_zeroed(void* ctx, size_t count, size_t size) noexcept nogil:
    """Return room for `count` elements of `size` bytes, all zero."""
    if size != 0 and count > <size_t>-1 / size:
        return NULL
    cdef void* data = _take(ctx, count * size)
    if data != NULL:
        memset(data, 0, count * size)
    return data


cdef void* _resize(void* ctx, void* data, size_t size) noexcept nogil:
    """Return room for `size` bytes that begins as `data` does, which is given back; NULL and nothing done if there is none."""
    cdef Store* store = <Store*>ctx
    cdef Block* old = <Block*>data - 1
    if data == NULL:
        return _take(ctx, size)
    if size <= old.capacity and kind_of(size) == old.kind:
        return data if _recount(store, old, size) else NULL
    if size >> LARGEST_BIT:
        return NULL
    cdef void* new = _find(store, size) if old.away else _take(ctx, size)
    if new == NULL:
        return NULL
    memcpy(new, data, min(size, old.size))
    (<Block*>new - 1).away = old.away
    _give(ctx, data, old.size)
    return new


cdef bint _recount(Store* store, Block* block, size_t size) noexcept nogil:
    """Let a block have another size, if the limit allows it."""
    cdef int64_t more = <int64_t>size - <int64_t>block.size
    if not block.away:
        if more > 0 and refuses(store, more):
            return False
        charge(store, more)
        book(store, block.account, more)
    block.size = size
    return True


cdef void _give(void* ctx, void* data, size_t size) noexcept nogil:
    """Take a block back; what NumPy says of its size is not always so."""
    cdef Store* store = <Store*>ctx
    cdef Block* block = <Block*>data - 1
    if TAGFLOW_DEBUG and not PyGILState_Check():
        abort()
    if data == NULL:
        return
    if not block.away:
        discount(store, block)
    _all.blocks -= 1
    if TAGFLOW_DEBUG:
        _all.freed += 1
    if <int64_t>block.capacity > store.most_cached:
        free_pages(&store.region, block, sizeof(Block) + block.capacity)
        return
    _evict(store, store.cached + <int64_t>block.capacity - store.most_cached)
    store.cached += block.capacity
    block.next = store.free[block.kind]
    store.free[block.kind] = block


cdef void _trim(Store* store) noexcept nogil:
    """Give all free blocks back to the operating system."""
    cdef uint32_t kind
    cdef Block* block
    if store.cached == 0:
        return
    for kind in range(KINDS):
        while store.free[kind] != NULL:
            block = store.free[kind]
            store.free[kind] = block.next
            free_pages(&store.region, block, sizeof(Block) + block.capacity)
    store.cached = 0
