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


cdef struct Account:  # memory of an iteration of a loop; freed when closed and without references
    Account* parent  # of the iteration around its loop, NULL if none is counted; a counted reference
    int64_t live  # bytes made in the iteration and in use
    int64_t peak  # largest `live`
    int64_t expected  # estimated most bytes of the iteration; the part beyond `live` is reserved
    int64_t references  # blocks in use and open accounts with a pointer to this account
    bint closed  # the iteration is over and nothing is reserved


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t "pthread_t":
        pass


cdef struct Allowance:  # memory for a kernel called by a thread other than the loop's; in a list of its store
    pthread_t thread
    Account* account  # as in `Store`, whose account is the loop thread's
    int64_t limit
    int64_t held  # bytes taken by the kernel and not freed
    int64_t refused  # bytes the kernel would have held, at its last refusal
    int64_t refusals
    Allowance* next


cdef struct Block:  # header directly before the data
    size_t size  # bytes requested
    size_t capacity  # bytes of room for data
    Block* next  # free block of the same size class, freed before this block
    Block* newer  # free block freed after this block
    uint32_t size_class  # number of its free list
    uint32_t handed_over  # to the caller: no longer counted
    Account* account  # charged with this block; NULL for none, and in a free block
    int64_t freed_at  # `Store.steps` when the block was freed
    uint64_t unused  # the data begins at a multiple of 64 bytes


cdef struct Budget:  # counts against a limit: of a store, or of several stores; then with references
    int64_t live  # bytes in use of all its stores
    int64_t peak  # largest `live`
    int64_t limit  # upper bound of `live` for allocations; NO_LIMIT for none
    int64_t given  # number of frees of memory
    int64_t reserved  # bytes which open accounts should still need
    int64_t references  # stores and SharedLimits with this budget; freed with the last reference
    Store* stores  # list of the stores with this budget


cdef struct Store:  # freed with the handler's capsule, which every array of the pool holds
    Handler handler
    int64_t live  # bytes of blocks in use, except blocks handed over, and of external arrays
    int64_t peak  # largest `live` since the last reset
    int64_t cached  # bytes of data in the free lists
    int64_t most_cached  # upper bound of `cached`
    Budget* budget  # its own or a shared budget, whose `live` is compared with the limit
    Budget own  # without references
    Store* next_sharer  # in the list of `budget.stores`
    int64_t current_limit  # of `budget.live` for allocations on the loop's thread now: lower where others come first
    int64_t refused  # bytes requested by the last refused allocation or external array
    int64_t short  # value of `live` if the last refused request had been granted
    int64_t steps  # number of charges of feeds or constants: about the number of steps begun
    Account* account  # of the code now running on the loop's thread, or NULL
    Allowance* elsewhere  # of kernels called by other threads
    int64_t refusals  # number of refused allocations and external arrays
    Block* free[NUM_CLASSES]  # owned; the newest of each size class
    Block* oldest[NUM_CLASSES]  # of the same lists
    Region* region  # for new blocks, or NULL
