"""Products of matrices."""

from libc.stdint cimport int64_t, uint64_t

from tagloom.kernels.core.table cimport Compute, Table, Work
from tagloom.kernels.cpu.arrays cimport ArrayObject
from tagloom.kernels.cpu.seen cimport Seen

cdef enum:
    TINY = 64  # multiplications up to which `multiply_few` is best


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
cdef bint describe_factor(ArrayObject* array, bint transposed, Matrix* found) noexcept nogil
cdef int compute_product(const Product* p, size_t itemsize) except -1
cdef object pack_once(Compute compute, uint64_t* arguments, int64_t times)
cdef int require_blas_for_sums(int columns) except -1
cdef int multiply_columns(
    const Table* table, ArrayObject* a, ArrayObject* b, int rows, ArrayObject* more_a, ArrayObject* more_b,
    ArrayObject* total, const void* before, Work* work) except -1 nogil
cdef bint is_float(Compute compute) noexcept nogil


cdef inline int seen_by_product(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil:
    """Describe the memory of a product, two to four matrices; return their number, or -1 for small or other works."""
    cdef Product* p = <Product*>arguments
    cdef size_t size = sizeof(float) if is_float(compute) else sizeof(double)
    cdef size_t whole = size * p.rows * p.columns
    cdef size_t a_size = size * p.rows * p.inner
    cdef size_t b_size = size * p.inner * p.columns
    cdef int count = 2
    if product_in(compute, arguments) == NULL or p.more_a != NULL or is_small(p):
        return -1
    seen[0] = Seen(<char*>p.data, <char**>&p.data, whole, whole, True)
    if p.adds and p.total == NULL:
        seen[0].place = NULL  # the product is added to its value
    seen[1] = Seen(<char*>p.a.data, <char**>&p.a.data, a_size, a_size, False)
    if p.packed == NULL:
        seen[count] = Seen(<char*>p.b.data, <char**>&p.b.data, b_size, b_size, False)
        count += 1
    if p.total != NULL:
        seen[count] = Seen(<char*>p.total, <char**>&p.total, whole, whole, False)
        count += 1
    return count
