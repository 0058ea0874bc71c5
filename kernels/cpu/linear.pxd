"""Products of matrices."""

from libc.stdint cimport int64_t, uint64_t

from tagloom.kernels.core.table cimport Compute, Table, Work
from tagloom.kernels.cpu.arrays cimport ArrayObject
from tagloom.kernels.cpu.seen cimport Seen

cdef enum:
    TINY = 64  # multiplications up to which `multiply_few` is best
    MOST_INNER = 2048  # terms of a sum up to which the rows of a panel stay in the cache; longer ones are cut
    FEW = 8  # columns, of which a vector would be nearly empty: if the sums are long, BLAS is faster


cdef struct Matrix:  # an operand as BLAS wants it
    void* data
    bint transposed  # whether rows and columns are to be swapped after reading it row by row
    int rows  # as stored, row by row
    int columns


cdef struct Product:
    Matrix a
    Matrix b
    int rows
    int columns
    int inner
    bint adds  # to the elements of the data, or to the total
    void* data
    const void* total  # first value of the data, NULL if the data has it
    void* more_a  # where the operands go on, NULL if they end
    void* more_b
    int more_inner
    void* packed  # b as panels; NULL if it is not packed beforehand
    char* scratch  # room for a panel for each part, or NULL

cdef inline bint is_small(const Product* p) noexcept nogil:
    """Return True if there is a product, and `multiply_few` computes all of it."""
    return p != NULL and p.more_a == NULL and <int64_t>p.rows * p.columns * p.inner <= TINY


cpdef int vector_bits() noexcept nogil
cdef double product_cost(int64_t rows, int64_t inner, int64_t columns, size_t itemsize) noexcept nogil
cdef bint are_parts_alike(Compute compute, const uint64_t* arguments) noexcept nogil
cdef const Product* product_in(Compute compute, const uint64_t* arguments) noexcept nogil
cdef int seen_by_product(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil
cdef object pack_once(Compute compute, uint64_t* arguments, int64_t times)
cdef int require_blas_for_sums(int columns) except -1
cdef int multiply_columns(
    const Table* table, ArrayObject* a, ArrayObject* b, int rows, ArrayObject* more_a, ArrayObject* more_b,
    ArrayObject* total, const void* before, Work* work) except -1 nogil
cdef int multiply_at_once(const Product* p, int size) except -1
