"""Memory regions that a work accesses, for code that repeats the work with other memory."""


cdef struct Seen:
    char* address
    char** place  # where the address stands in the work, or NULL if it must stay as it is
    size_t size  # bytes from the first to the last
    size_t count  # of these that are seen
    bint writes
