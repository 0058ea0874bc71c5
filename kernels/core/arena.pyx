"""The owner of C blocks that live and die together."""

from libc.stdlib cimport calloc, free, realloc


cdef class Arena:
    """Hands out zeroed blocks and frees all of them with itself, however far its user got in building."""

    def __dealloc__(self):
        for i in range(self.count):
            free(self.blocks[i])
        free(self.blocks)

    cdef void* take(self, size_t count, size_t size) except NULL:
        """Return `count` zeroed elements of `size` bytes."""
        self._reserve()
        cdef void* block = calloc(max(count, 1), size)
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
