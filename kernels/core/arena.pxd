"""The owner of C blocks that live and die together."""


cdef class Arena:
    cdef void** blocks  # every block handed out, or cut into smaller ones; owned
    cdef size_t count  # blocks in use, <= capacity
    cdef size_t capacity  # length of `blocks`
    cdef char* free  # memory from which the next small blocks are cut
    cdef size_t left  # bytes of it

    cdef void* take(self, size_t count, size_t size) except NULL
    cdef void* _take_block(self, size_t count, size_t size) except NULL
    cdef int _reserve(self) except -1
