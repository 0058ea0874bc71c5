"""Memory from the operating system, whose pages go back to it when a block of more than a few pages is freed.

See docs/design/0008-memory.md.
"""

from libc.stdlib cimport free

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void**, size_t, size_t)

cdef extern from *:
    """
    #include <sys/mman.h>
    #include <unistd.h>
    #ifndef MADV_HUGEPAGE
    #define MADV_HUGEPAGE 0
    #endif
    """
    int MADV_DONTNEED, MADV_HUGEPAGE, PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS, _SC_PAGESIZE
    void* MAP_FAILED
    int madvise(void*, size_t, int) nogil
    void* mmap(void*, size_t, int, int, int, long) nogil
    int munmap(void*, size_t) nogil
    long sysconf(int) nogil

cdef enum:
    LARGEST_PAGE = 1 << 16  # bytes, of any system
    SMALL = 1 << 14  # bytes up to which a block comes from the C library, which rarely returns pages to the system
    LARGE = 1 << 17  # bytes from which freeing blocks before taking others pays
    LARGEST_SHARED = 1 << 20  # bytes up to which a block lies in a region
    HUGE_PAGE = 1 << 21  # bytes
    REGION = 1 << 22  # bytes, and the alignment of regions
    HUGE = 1 << 22  # bytes from which memory lies in huge pages if it can


cdef struct Region:  # consecutive blocks, so that no page is left half empty; at its own beginning
    size_t used  # bytes from its beginning; freed bytes are not taken again
    size_t blocks  # that are not freed
    size_t unused[6]  # blocks begin at multiples of 64 bytes


cdef inline void* new_pages(Region** newest, size_t size) noexcept nogil:
    """Return new memory at a multiple of 64 bytes, NULL if there is none.

    Parameters
    ----------
    newest : Region**
        The caller's region with room left, or NULL.
    """
    cdef void* found = NULL
    if size <= SMALL:
        return found if posix_memalign(&found, 64, size) == 0 else NULL
    if size > LARGEST_SHARED:
        return map_large(whole_pages(size))
    if newest[0] == NULL or newest[0].used + size > REGION:
        found = map_pages(REGION, REGION)
        if found == NULL:
            return NULL
        newest[0] = <Region*>found
        newest[0].used = sizeof(Region)
    found = <char*>newest[0] + newest[0].used
    newest[0].used += (size + 63) // 64 * 64
    newest[0].blocks += 1
    return found


cdef inline void free_pages(Region** newest, void* memory, size_t size) noexcept nogil:
    """Free memory from `new_pages`."""
    if size <= SMALL:
        free(memory)
    elif size > LARGEST_SHARED:
        munmap(memory, whole_pages(size))
    else:
        leave_region(newest, <size_t>memory, size)


cdef inline void leave_region(Region** newest, size_t start, size_t size) noexcept nogil:
    """Unmap the pages of this block alone, or the whole region if no other block is left there."""
    cdef Region* region = <Region*>(start // REGION * REGION)
    cdef size_t page = sysconf(_SC_PAGESIZE)
    cdef size_t first = (start + page - 1) // page * page
    cdef size_t end = (start + size) // page * page
    region.blocks -= 1
    if region.blocks == 0:
        if newest[0] == region:
            newest[0] = NULL
        munmap(region, REGION)
    elif end > first:
        madvise(<void*>first, end - first, MADV_DONTNEED)


cdef inline void* map_large(size_t size) noexcept nogil:
    """Return pages, huge ones if many; `size` is a multiple of LARGEST_PAGE. NULL if there are none."""
    cdef void* found = map_pages(size, HUGE_PAGE if size >= HUGE else 0)
    if found != NULL and size >= HUGE:
        madvise(found, size, MADV_HUGEPAGE)  # as good without
    return found


cdef inline void* map_pages(size_t size, size_t alignment) noexcept nogil:
    """Return pages at a multiple of an `alignment`, 0 for any; `size` is a multiple of LARGEST_PAGE. NULL for none."""
    cdef char* found = <char*>mmap(
        NULL, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    cdef size_t before
    if found == MAP_FAILED or alignment == 0:
        return NULL if found == MAP_FAILED else found
    before = alignment - <size_t>found % alignment
    munmap(found, before)
    if before < alignment:
        munmap(found + before + size, alignment - before)
    return found + before


cdef inline size_t whole_pages(size_t size) noexcept nogil:
    return (size + LARGEST_PAGE - 1) // LARGEST_PAGE * LARGEST_PAGE
