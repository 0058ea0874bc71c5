"""Walks through two plain operands of different shapes, element by element."""

from numpy cimport npy_intp

from tagloom.kernels.cpu.arrays cimport MOST_DIMS


cdef struct Walk:
    int rank
    npy_intp dims[MOST_DIMS]
    npy_intp source[MOST_DIMS]  # bytes to the next element of the first operand; 0 along repeated dimensions
    npy_intp target[MOST_DIMS]  # the same of the second; 0 along reduced dimensions


cdef inline void lay_out(
        Walk* walk, const npy_intp* dims, int rank, size_t itemsize, const bint* fixed, bint reduces) noexcept nogil:
    """Lay out a walk over a plain array of `dims` and an array without its `fixed` dimensions, the target if the walk
    `reduces`, else the source.
    """
    cdef npy_intp* whole = &walk.source[0] if reduces else &walk.target[0]
    cdef npy_intp* part = &walk.target[0] if reduces else &walk.source[0]
    cdef npy_intp step = itemsize
    cdef npy_intp part_step = itemsize
    cdef int d = rank
    walk.rank = rank
    while d > 0:
        d -= 1
        walk.dims[d] = dims[d]
        whole[d] = step
        part[d] = 0 if fixed[d] else part_step
        step *= dims[d]
        part_step *= 1 if fixed[d] else dims[d]
    _merge(walk)


cdef inline void _merge(Walk* walk) noexcept nogil:
    """Drop dimensions of size 1 and merge pairs which both operands traverse like a single dimension."""
    cdef int kept = 0
    cdef int d, last
    for d in range(walk.rank):
        if walk.dims[d] == 1:
            continue
        last = kept - 1
        if kept and _follows(walk.source[last], walk.source[d], walk.dims[d]) and _follows(
                walk.target[last], walk.target[d], walk.dims[d]):
            walk.dims[last] *= walk.dims[d]
        else:
            walk.dims[kept] = walk.dims[d]
            last = kept
            kept += 1
        walk.source[last], walk.target[last] = walk.source[d], walk.target[d]
    if kept == 0:
        walk.dims[0], walk.source[0], walk.target[0], kept = 1, 0, 0, 1
    walk.rank = kept


cdef inline bint _follows(npy_intp outer, npy_intp inner, npy_intp dim) noexcept nogil:
    return outer == inner * dim


cdef inline bint advance(Walk* walk, npy_intp* place, char** source, char** target) noexcept nogil:
    """Go to the next place in all dimensions except the last; return False after the last place. `place` begins as
    zeros.
    """
    cdef int d = walk.rank - 1
    while d > 0:
        d -= 1
        place[d] += 1
        source[0] += walk.source[d]
        target[0] += walk.target[d]
        if place[d] < walk.dims[d]:
            return True
        source[0] -= walk.source[d] * walk.dims[d]
        target[0] -= walk.target[d] * walk.dims[d]
        place[d] = 0
    return False
