"""Parts of an array: elements by index, and slices as in ``tensor[...]``."""

from libc.stdint cimport int64_t, uint64_t
from numpy cimport npy_intp

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Compute, Node, Table
from tagloom.kernels.core.values cimport Value
from tagloom.kernels.cpu.windows cimport Window

cdef enum:
    INDICES = 2  # of a part that can be read in place
    MOST_INDICES = 4  # inputs of a slice that is left as work, see Indexing


cdef enum Piece:
    INDEX
    RANGE
    DOTS  # ...
    NEW  # a new dimension of size 1


cdef enum Bound:
    OPEN
    KNOWN
    GIVEN  # an input of the operation


cdef struct Limit:
    Bound bound
    int64_t value  # KNOWN: the bound; GIVEN: the number of the input


cdef struct Part:
    Piece piece
    Limit start, stop, step  # of a RANGE; the `start` of an INDEX is the index


cdef struct Key:  # the attribute `spec`: the items between the brackets
    Part* parts
    int count  # of parts
    int used  # dimensions of the input for which the key has an INDEX or RANGE
    bint dots  # there are DOTS
    bint indexed  # all inputs are indices, so the shape of the result does not depend on their values


cdef class KeyOwner:
    cdef Arena arena
    cdef Key key


cdef bint choose(
    const Table* table, const Node* node, const Value* inputs, int rank, const npy_intp* dims, const npy_intp* strides,
    const Key* key, Window* window) noexcept nogil

cdef int indices_of_part(Compute compute, const uint64_t* arguments, char** indices, size_t* sizes) noexcept nogil
cdef char* part_at(Compute compute, const uint64_t* arguments, char** indices) noexcept nogil
