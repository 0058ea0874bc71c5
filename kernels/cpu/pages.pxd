"""Memory from the operating system: by the page from a size on, in huge pages if it is large."""

from libc.stdlib cimport free

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void**, size_t, size_t)

cdef extern from *:
    """
    #include <sys/mman.h>
    #ifndef MADV_HUGEPAGE
    #define MADV_HUGEPAGE 0
    #endif
    """
    int MADV_HUGEPAGE, PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS
    void* MAP_FAILED
    int madvise(void*, size_t, int) nogil
    void* mmap(void*, size_t, int, int, int, long) nogil
    int munmap(void*, size_t) nogil

cdef enum:
    PAGE = 1 << 16  # bytes, the largest that a system has
    LARGE = 1 << 17  # bytes; what is larger has pages of its own, which go back to the system when it is freed
    HUGE_PAGE = 1 << 21  # bytes
    HUGE = 1 << 22  # bytes from which memory lies in such pages if it can


cdef inline void* new_pages(size_t size) noexcept nogil:
    """Return new memory at a multiple of 64 bytes, NULL if there is none."""
    cdef void* found = NULL
    if size > LARGE:
        return map_pages(whole_pages(size))
    return found if posix_memalign(&found, 64, size) == 0 else NULL


cdef inline void free_pages(void* memory, size_t size) noexcept nogil:
    """Give memory from `new_pages` back."""
    if size > LARGE:
        munmap(memory, whole_pages(size))
    else:
        free(memory)


cdef inline void* map_pages(size_t size) noexcept nogil:
    """Return pages, huge ones for a large `size`, which is a multiple of PAGE; NULL if there are none."""
    cdef size_t margin = HUGE_PAGE if size >= HUGE else 0
    cdef char* found = <char*>mmap(NULL, size + margin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    cdef size_t before
    if found == MAP_FAILED or margin == 0:
        return NULL if found == MAP_FAILED else found
    before = margin - <size_t>found % margin
    munmap(found, before)
    if before < margin:
        munmap(found + before + size, margin - before)
    madvise(found + before, size, MADV_HUGEPAGE)  # as good without
    return found + before


cdef inline size_t whole_pages(size_t size) noexcept nogil:
    return (size + PAGE - 1) // PAGE * PAGE
