"""The owner of C blocks that live and die together."""

from libc.stdlib cimport calloc, free, realloc

cdef extern from *:
    """
    #ifdef __SANITIZE_ADDRESS__
    #define TAGLOOM_SMALL_BLOCK 0  /* each block alone, so that the memory after it is unused */
    #else
    #define TAGLOOM_SMALL_BLOCK 512
    #endif
    """
    const size_t SMALL "TAGLOOM_SMALL_BLOCK"  # bytes of a block up to which it is part of a larger one

cdef enum:
    PART = 2048  # bytes from which small blocks are cut
    ALIGNED = 16  # bytes of alignment, as of malloc


cdef class Arena:
    """Hands out zeroed blocks and frees all of them with itself, however far its user got in building."""

    def __dealloc__(self):
        for i in range(self.count):
            free(self.blocks[i])
        free(self.blocks)

    cdef void* take(self, size_t count, size_t size) except NULL:
        """Return `count` zeroed elements of `size` bytes."""
        cdef size_t most = SMALL
        cdef size_t needed
        if size == 0 or count > most // size:
            return self._take_block(max(count, 1), size)
        needed = (max(count, 1) * size + ALIGNED - 1) // ALIGNED * ALIGNED
        if needed > self.left:
            self.free, self.left = <char*>self._take_block(PART, 1), PART
        self.left -= needed
        self.free += needed
        return self.free - needed

    cdef void* _take_block(self, size_t count, size_t size) except NULL:
        self._reserve()
        cdef void* block = calloc(count, size)
        if block == NULL:
            raise MemoryError()
        self.blocks[self.count] = block
        self.count += 1
        return block

    cdef int _reserve(self) except -1:
        cdef size_t capacity = max(2 * self.capacity, 16)
        if self.count < self.capacity:
            return 0
        cdef void** grown = <void**>realloc(self.blocks, capacity * sizeof(void*))
        if grown == NULL:
            raise MemoryError()
        self.blocks = grown
        self.capacity = capacity
        return 0
