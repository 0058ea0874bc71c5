"""Structs of a pool: blocks of array data, the accounts to which they are charged, and the store that owns them.

Callers of its functions hold the GIL, as NumPy does when it takes or frees the data of an array.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from tagloom.kernels.memory.pages cimport Region
from tagloom.kernels.memory.size_classes cimport NUM_CLASSES

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

cdef extern from "<stdint.h>":
    const int64_t NO_LIMIT "INT64_MAX"


cdef struct Account:  # memory of one iteration of a loop; freed when it is closed and nothing refers to it
    Account* parent  # of the iteration around its loop, NULL if none is counted; held
    int64_t live  # bytes made in the iteration that are in use
    int64_t peak  # largest `live`
    int64_t expected  # bytes it should need at most; the part of them that `live` does not use is reserved for it
    int64_t references  # blocks in use and open accounts that refer to it
    bint closed  # the iteration is over and nothing is reserved for it


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t "pthread_t":
        pass


cdef struct Allowance:  # memory for a kernel that another thread than the loop's calls; in a list of its store
    pthread_t thread
    Account* account  # as in `Store`, whose account is the loop thread's
    int64_t limit
    int64_t held  # bytes that the kernel has taken and not freed
    int64_t refused  # bytes that it wanted to hold when it was refused some
    int64_t refusals
    Allowance* next


cdef struct Block:  # header directly before the data
    size_t size  # bytes asked for
    size_t capacity  # bytes of data there is room for
    Block* next  # free block of the same size class, freed before this one
    Block* newer  # the one freed after it
    uint32_t size_class  # which free list it goes to
    uint32_t handed_over  # to the caller: no longer counted
    Account* account  # on which it counts; NULL for none, and in a free block
    int64_t freed_at  # `Store.steps` when it was freed
    uint64_t unused  # the data begins at a multiple of 64 bytes


cdef struct Budget:  # counts against one limit: of a store, or of several that share it; then with references
    int64_t live  # bytes in use of all its stores
    int64_t peak  # largest `live`
    int64_t limit  # bytes that no allocation may take `live` beyond; NO_LIMIT for none
    int64_t given  # number of times that memory was freed
    int64_t reserved  # bytes that open accounts should still need
    int64_t references  # stores and SharedLimits that have it; freed with the last one
    Store* stores  # that share it


cdef struct Store:  # freed with the handler's capsule, which every array of the pool holds
    Handler handler
    int64_t live  # bytes of blocks in use, except those handed over, and of external arrays
    int64_t peak  # largest `live` since it was reset
    int64_t cached  # bytes of data in the free lists
    int64_t most_cached  # upper bound of `cached`
    Budget* budget  # its own, or a shared one: its `live` is compared with the limit
    Budget own  # without references
    Store* next_sharer  # in the list of `budget.stores`
    int64_t current_limit  # of `budget.live` for allocations on the loop's thread now: lower where others come first
    int64_t refused  # bytes asked for by the last allocation or external array that was refused
    int64_t short  # value of `live` if the last refused request had been granted
    int64_t steps  # how often feeds or constants were charged: about the steps that have begun
    Account* account  # of the code that allocates now on the loop's thread, or NULL
    Allowance* elsewhere  # of kernels that other threads call
    int64_t refusals  # how many were
    Block* free[NUM_CLASSES]  # owned; the newest of each size class
    Block* oldest[NUM_CLASSES]  # of the same lists
    Region* region  # that new blocks come from, or NULL
