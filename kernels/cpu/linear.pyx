"""Products of matrices: by `product.h`, by BLAS where there are no such instructions; tiny ones by plain loops too.

The choice depends on the sizes alone, so that a product has the same bits wherever and in however many parts it
is computed. All inputs except two plain matrices of float32 or float64 go to the Python kernel.

See docs/design/0027-products.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

import numpy as np

from tagloom.kernels.core.cost cimport Py_CLEAR, leave, take_memory
from tagloom.kernels.core.table cimport Compute, Native, Node, Table, Work, output_type
from tagloom.kernels.core.values cimport Counters, Value, hold
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, PyArray_CompareLists, PyArray_DATA, PyArray_DIM, PyArray_DIMS, PyArray_FLAGS, PyArray_ITEMSIZE,
    PyArray_NDIM, array_in, is_unshared, is_usable, new_array, plain_in,
)
from tagloom.kernels.cpu.blas cimport dgemm, require_blas, sgemm
from tagloom.kernels.cpu.registry cimport register

cnp.import_array()

cdef extern from "cpu/product.h" nogil:
    int PANEL_BYTES
    int MOST_TILE_ROWS
    ctypedef struct Factors:
        const void* a
        size_t a_row
        size_t a_step
        const void* b
        size_t b_row
        size_t b_step
        const void* packed
        void* panel
        size_t inner
        const void* more_a
        const void* more_b
        size_t more_inner
        size_t columns
        void* c
        const void* total
        bint in_blocks
        const void* sums_before
    int product_bits()
    void multiply_few(const Factors*, int bits, int size, size_t rows)
    void multiply(const Factors*, int bits, int size, size_t row, size_t rows, size_t column, size_t columns)
    void pack(
        const void* matrix, size_t row, size_t step, size_t rows, size_t columns, int size, size_t strip,
        size_t apart, void* panels)
    size_t strip_bytes(int bits)

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)

cdef enum:
    MOST_INNER = 2048  # terms of a sum up to which the rows of a panel stay in the cache; longer ones are cut
    FEW = 8  # columns, of which a vector would be nearly empty: if the sums are long, BLAS is faster
    PANEL = 64  # rows or columns that a part has at least
    FAR = 1 << 20  # bytes of a second factor from which on a core's own cache does not keep a panel that is not packed
    LARGE = 1 << 15  # bytes of a second factor that fill the nearest cache, so that rows that lie apart are slower
    ENOUGH = 32  # rows that such a panel is then used for
    PAGES = 1 << 23  # bytes of a second factor from which on a core's table of pages, of 2,048 with 4 KB, has not all of them
    PLENTY = 256  # rows for which packing always pays

cdef int _bits = product_bits()

# Nanoseconds that a multiplication and addition takes in float32, about; twice that in float64.
cdef double PACE = 4.6 / _bits if _bits else 0.02
cdef double MOVE = 0.1  # nanoseconds that a byte of the operands and the product takes, about


cdef fused real:
    float
    double


cdef bint describe_factor(ArrayObject* array, bint transposed, Matrix* found) noexcept nogil:
    """Describe an operand; return False unless the operand is a matrix stored row by row or column by column."""
    cdef bint by_rows
    if array == NULL or not is_usable(array) or PyArray_NDIM(array) != 2:
        return False
    by_rows = PyArray_FLAGS(array) & cnp.NPY_ARRAY_C_CONTIGUOUS
    if not by_rows and not PyArray_FLAGS(array) & cnp.NPY_ARRAY_F_CONTIGUOUS:
        return False
    if PyArray_DIM(array, 0) > INT_MAX or PyArray_DIM(array, 1) > INT_MAX:
        return False
    found.data = PyArray_DATA(array)
    found.transposed = transposed if by_rows else not transposed
    found.rows = <int>PyArray_DIM(array, 0 if by_rows else 1)
    found.columns = <int>PyArray_DIM(array, 1 if by_rows else 0)
    return True


cdef inline void _gemm(const Product* p, int row, int rows, int column, int columns, real* product) noexcept nogil:
    """Compute some rows and columns of a product by BLAS.

    BLAS reads row by row as transposed: it computes the transposed product from swapped sides.
    """
    cdef real one = 1
    cdef real beta = p.adds
    cdef char* left = b"T" if p.b.transposed else b"N"
    cdef char* right = b"T" if p.a.transposed else b"N"
    cdef int inner = p.inner
    cdef int width = p.columns
    cdef int a_width = p.a.columns
    cdef int b_width = p.b.columns
    cdef real* x = <real*>p.a.data + <size_t>row * (1 if p.a.transposed else a_width)
    cdef real* y = <real*>p.b.data + <size_t>column * (b_width if p.b.transposed else 1)
    product += <size_t>row * width + column
    if real is float:
        sgemm(left, right, &columns, &rows, &inner, &one, y, &b_width, x, &a_width, &beta, product, &width)
    else:
        dgemm(left, right, &columns, &rows, &inner, &one, y, &b_width, x, &a_width, &beta, product, &width)


cdef inline size_t _panel_size(const Product* p) noexcept nogil:
    """Return the bytes of a panel."""
    return <size_t>min(_terms(p), MOST_INNER) * PANEL_BYTES


cdef inline int _bound(int whole, int part, int parts) noexcept nogil:
    """Return where a part begins: parts are equal, and begin where a vector register would."""
    return whole if part == parts else <int>(<double>whole * part / parts) // 16 * 16


cdef inline void _copy_total(const Product* p, int row, int rows, int column, int columns, real* product) noexcept nogil:
    """Copy some rows and columns of the total to where the product is added to them."""
    cdef const real* total = <const real*>p.total
    cdef size_t at
    cdef int i
    if columns == p.columns:
        at = <size_t>row * columns
        memcpy(product + at, total + at, <size_t>rows * columns * sizeof(real))
        return
    for i in range(row, row + rows):
        at = <size_t>i * p.columns + column
        memcpy(product + at, total + at, columns * sizeof(real))


cdef inline Product _continued(const Product* p) noexcept nogil:
    """Return the product of the operands' continuations, which is added to the data."""
    cdef Product more = p[0]
    more.a.data, more.b.data, more.inner, more.adds, more.total = p.more_a, p.more_b, p.more_inner, True, NULL
    return more


cdef inline bint _is_own(const Product* p) noexcept nogil:
    """Return True if a product is computed by `product.h`."""
    if not _bits or _is_long(p) and p.columns < FEW:
        return False
    return <int64_t>p.rows * p.columns * _terms(p) > TINY


cdef inline int64_t _terms(const Product* p) noexcept nogil:
    return <int64_t>p.inner + (0 if p.more_a == NULL else p.more_inner)


cdef inline bint _is_long(const Product* p) noexcept nogil:
    """Return True if the sums of a product are cut."""
    return _terms(p) > MOST_INNER


cdef inline bint _wants_panels(const Product* p, int rows, int size) noexcept nogil:
    """Return True if columns are packed as they are used, where necessary or profitable."""
    cdef int64_t step = <int64_t>p.b.columns * size
    if p.b.transposed or rows >= PLENTY and step > PANEL_BYTES:
        return True
    return rows >= ENOUGH and _piece_bytes(p, size) > FAR or rows > MOST_TILE_ROWS and _has_many_pages(p, size)


cdef inline int64_t _piece_bytes(const Product* p, int size) noexcept nogil:
    """Return the bytes of the second factor multiplied at a time."""
    return size * p.b.columns * min(_terms(p), <int64_t>MOST_INNER)


cdef inline bint _has_many_pages(const Product* p, int size) noexcept nogil:
    """Return True if a core cannot know all pages of the second factor; a tile reads a strip of each of its rows."""
    return _bits == 256 and not p.b.transposed and _piece_bytes(p, size) >= PAGES


cdef inline Factors _factors(const Product* p) noexcept nogil:
    """Return where the elements of a product are, as far as they do not go on elsewhere."""
    cdef Factors f
    f.a, f.inner, f.columns, f.c = p.a.data, p.inner, p.columns, p.data
    f.a_row = 1 if p.a.transposed else p.a.columns
    f.a_step = p.a.columns if p.a.transposed else 1
    f.b = p.b.data
    f.b_row = 1 if p.b.transposed else p.b.columns
    f.b_step = p.b.columns if p.b.transposed else 1
    f.total = p.data if p.adds and p.total == NULL else p.total
    return f


cdef void _multiply_block(
        const Product* p, int row, int rows, int column, int columns, int size, char* scratch) noexcept nogil:
    """Compute some rows and columns of a product by `product.h`."""
    cdef Factors f = _factors(p)
    cdef void* own = NULL
    f.packed, f.panel = p.packed, scratch
    f.more_a, f.more_b, f.more_inner = p.more_a, p.more_b, p.more_inner
    f.in_blocks, f.sums_before = p.packed == NULL and rows <= MOST_TILE_ROWS and _has_many_pages(p, size), NULL
    if p.packed == NULL and scratch == NULL and _wants_panels(p, rows, size):
        f.panel = own = aligned_alloc(PANEL_BYTES, _panel_size(p))  # else they are read where they lie
    elif p.packed != NULL:
        f.panel = NULL
    multiply(&f, _bits, size, row, rows, column, columns)
    free(own)


cdef inline void _advance(Matrix* matrix, bint by_rows, int count, int size) noexcept nogil:
    """Leave out the first rows or columns of a matrix, in the orientation of the multiplication."""
    matrix.data = <char*>matrix.data + <size_t>count * size * (matrix.columns if by_rows != matrix.transposed else 1)


cdef void _multiply_long(
        const Product* p, int row, int rows, int column, int columns, int size, char* scratch) noexcept nogil:
    """Compute some rows and columns of a product whose sums are cut into pieces, which are added up in order."""
    cdef Product piece = p[0], more
    cdef int remaining = p.inner
    piece.more_a = piece.packed = NULL
    while remaining > 0:
        piece.inner = min(MOST_INNER, remaining)
        _multiply_block(&piece, row, rows, column, columns, size, scratch)
        _advance(&piece.a, False, piece.inner, size)
        _advance(&piece.b, True, piece.inner, size)
        piece.adds, piece.total = True, NULL
        remaining -= piece.inner
    if p.more_a != NULL:
        more = _continued(p)
        _multiply_long(&more, row, rows, column, columns, size, scratch)


cdef inline void _block(
        const Product* p, int row, int rows, int column, int columns, real* product, char* scratch) noexcept nogil:
    """Compute some rows and columns of a product, or of its sum with the total."""
    cdef Product more
    if _is_own(p):
        if _is_long(p):
            _multiply_long(p, row, rows, column, columns, sizeof(real), scratch)
        else:
            _multiply_block(p, row, rows, column, columns, sizeof(real), scratch)
        return
    if <int64_t>p.rows * p.columns * _terms(p) <= TINY:
        _multiply_few(p, sizeof(real))  # which is one part
        return
    if p.total != NULL:
        _copy_total(p, row, rows, column, columns, product)
    _gemm(p, row, rows, column, columns, product)
    if p.more_a != NULL:
        more = _continued(p)
        _gemm(&more, row, rows, column, columns, product)


cdef void _multiply_few(const Product* p, int size) noexcept nogil:
    """Compute a product of a few elements, or its sum with the total."""
    cdef Factors f = _factors(p)
    cdef Product more
    multiply_few(&f, _bits, size, p.rows)
    if p.more_a != NULL:
        more = _continued(p)
        _multiply_few(&more, size)


cdef inline void _part(const Product* p, int part, int parts, real* product) noexcept nogil:
    """Compute a part of a product: some columns, or some rows if there are more of these."""
    cdef bint by_rows = p.rows > p.columns
    cdef int whole = p.rows if by_rows else p.columns
    cdef int start = _bound(whole, part, parts)
    cdef int count = _bound(whole, part + 1, parts) - start
    cdef char* scratch = NULL if p.scratch == NULL else p.scratch + part * _panel_size(p)
    if by_rows:
        _block(p, start, count, 0, p.columns, product, scratch)
    else:
        _block(p, 0, p.rows, start, count, product, scratch)


cdef void _part_float(const void* product, int part, int parts) noexcept nogil:
    _part(<const Product*>product, part, parts, <float*>(<const Product*>product).data)


cdef void _part_double(const void* product, int part, int parts) noexcept nogil:
    _part(<const Product*>product, part, parts, <double*>(<const Product*>product).data)


cdef inline int _place(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Product* p) except -1:
    """Make room for a product: a new array, or its addend if nothing else owns the addend."""
    cdef cnp.npy_intp dims[2]
    cdef ArrayObject* total = plain_in(inputs[2]) if p.adds else NULL
    dims[0], dims[1] = p.rows, p.columns
    p.total = p.more_a = NULL
    if p.adds and (total == NULL or PyArray_NDIM(total) != 2 or not PyArray_CompareLists(PyArray_DIMS(total), dims, 2)):
        return 0
    if p.adds and is_unshared(table, total):
        p.data = PyArray_DATA(total)
        hold(live, outputs, inputs[2])
        return 1
    p.data = PyArray_DATA(new_array(live, output_type(table, node, 0), 2, dims, outputs))
    if p.adds:
        p.total = PyArray_DATA(total)
    return 1


cdef inline int _multiply(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work,
        real* _) except -1:
    """Multiply two plain matrices, and add a third; return 0, with nothing done, for other or empty operands."""
    cdef Product* p = <Product*>work.arguments
    if not describe_factor(array_in(inputs[0]), node.params[0], &p.a):
        return 0
    if not describe_factor(array_in(inputs[1]), node.params[1], &p.b):
        return 0
    p.rows = p.a.columns if p.a.transposed else p.a.rows
    p.columns = p.b.rows if p.b.transposed else p.b.columns
    p.inner = p.a.rows if p.a.transposed else p.a.columns
    if p.inner != (p.b.columns if p.b.transposed else p.b.rows) or p.inner == 0 or p.rows == 0 or p.columns == 0:
        return 0
    p.adds = node.params[2] != 0
    if not _place(table, node, inputs, live, outputs, p):
        return 0
    p.packed = p.scratch = NULL
    if _is_own(p) and _wants_panels(p, p.rows, sizeof(real)):
        p.scratch = take_memory(work, _most_parts(p) * _panel_size(p))
    _compute(table, p, work, _)
    return 1


cdef inline int _most_parts(const Product* p) noexcept nogil:
    return max(1, max(p.rows, p.columns) // PANEL)


cdef double product_cost(int64_t rows, int64_t inner, int64_t columns, size_t itemsize) noexcept nogil:
    """Return the expected nanoseconds of a product on one core."""
    # No integer is too large: each side of a product, and it itself, lie in memory.
    cdef int64_t moved = (rows + columns) * inner + rows * columns
    return itemsize * max(rows * columns * inner * (PACE / sizeof(float)), moved * MOVE)


cdef inline int _compute(const Table* table, Product* p, Work* work, real* _) except -1 nogil:
    """Compute a product, the work's arguments, or leave the computation as work."""
    cdef double cost = product_cost(p.rows, _terms(p), p.columns, sizeof(real))
    if not _is_own(p) and <int64_t>p.rows * p.columns * _terms(p) > TINY:
        require_blas()
    if cost >= table.at_once and real is float:
        leave(work, _part_float, cost, _most_parts(p))
    elif cost >= table.at_once:
        leave(work, _part_double, cost, _most_parts(p))
    else:
        _block(p, 0, p.rows, 0, p.columns, <real*>p.data, p.scratch)
        Py_CLEAR(work.kept)
    return 0


cdef int multiply_columns(
        const Table* table, ArrayObject* a, ArrayObject* b, int rows, ArrayObject* more_a, ArrayObject* more_b,
        ArrayObject* total, const void* before, Work* work) except -1 nogil:
    """Add the product of the first `rows` rows of `a`, transposed, and of `b` to `total`, or leave the work to be done.

    All are plain matrices of the same floating-point type and of matching sizes. The rows go on in `more_a` and
    `more_b` unless these are NULL. The initial total is the value of `total`, or the value at `before` unless NULL.
    """
    cdef Product* p = <Product*>work.arguments
    p.more_a = p.more_b = p.packed = NULL
    p.scratch = NULL
    if more_a != NULL:
        p.more_a, p.more_b, p.more_inner = PyArray_DATA(more_a), PyArray_DATA(more_b), <int>PyArray_DIM(more_a, 0)
    p.a.data, p.a.transposed, p.a.rows, p.a.columns = PyArray_DATA(a), True, rows, <int>PyArray_DIM(a, 1)
    p.b.data, p.b.transposed, p.b.rows, p.b.columns = PyArray_DATA(b), False, rows, <int>PyArray_DIM(b, 1)
    p.rows, p.columns, p.inner = p.a.columns, p.b.columns, rows
    p.adds, p.data, p.total = True, PyArray_DATA(total), before
    if p.rows == 0 or p.columns == 0:
        Py_CLEAR(work.kept)
        return 0
    if PyArray_ITEMSIZE(total) == sizeof(float):
        _compute(table, p, work, <float*>NULL)
    else:
        _compute(table, p, work, <double*>NULL)
    return 0


cdef int require_blas_for_sums(int columns) except -1:
    """Load BLAS if a product with `columns` columns may need it, for any number of rows."""
    if not _bits or columns < FEW:
        require_blas()
    return 0


cdef const Product* product_in(Compute compute, const uint64_t* arguments) noexcept nogil:
    """Return the product computed by a work, or NULL for other work."""
    return <const Product*>arguments if compute == _part_float or compute == _part_double else NULL


cdef bint is_float(Compute compute) noexcept nogil:
    """Return True if a work computes a product of float32."""
    return compute == _part_float


cdef bint are_parts_alike(Compute compute, const uint64_t* arguments) noexcept nogil:
    """Return True if a work has the same results for any number of parts: BLAS may add in another order."""
    return product_in(compute, arguments) == NULL or _is_own(<const Product*>arguments)


cdef object pack_once(Compute compute, uint64_t* arguments, int64_t times):
    """Pack the constant second factor of a product left as work, if packing pays.

    Packing pays where the factor would be packed each time, or is used for many rows in all. Returns the memory of the
    panels then, else None.

    Parameters
    ----------
    times : int
        How often the product is computed, about; 0 if not known.
    """
    cdef Product* p = <Product*>arguments
    cdef int size = sizeof(float) if compute == _part_float else sizeof(double)
    cdef int64_t panels, step
    if product_in(compute, arguments) == NULL or _is_long(p) or not _is_own(p):
        return None
    step = <int64_t>p.b.columns * size
    if p.scratch == NULL and (times * p.rows < PLENTY or step <= PANEL_BYTES or step * p.inner < LARGE):
        return None
    panels = (<int64_t>p.columns * size + PANEL_BYTES - 1) // PANEL_BYTES
    memory = np.empty(panels * _panel_size(p) + PANEL_BYTES, np.uint8)
    p.packed = cnp.PyArray_BYTES(memory)
    p.packed = <char*>p.packed + (-<uint64_t>p.packed) % <uint64_t>PANEL_BYTES
    pack(p.b.data, 1 if p.b.transposed else p.b.columns, p.b.columns if p.b.transposed else 1, p.inner, p.columns, size,
         strip_bytes(_bits), p.inner * strip_bytes(_bits), p.packed)
    return memory


cdef int _multiply_float(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _multiply(table, node, inputs, live, outputs, work, <float*>NULL)


cdef int _multiply_double(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    return _multiply(table, node, inputs, live, outputs, work, <double*>NULL)


cpdef int vector_bits() noexcept nogil:
    """Return the bits of the vectors used by products, 0 where BLAS computes them."""
    return _bits


def is_own_product(int64_t terms):
    """Return True if sums of `terms` terms are computed by vector instructions of our own, and in one piece."""
    return _bits > 0 and terms <= MOST_INNER


def has_equal_rows(int64_t terms, int64_t columns):
    """Return True if a row of a product of floats has the same bits for any number of rows: not those of BLAS."""
    return _bits > 0 and (terms <= MOST_INNER or columns >= FEW)


cdef int compute_product(const Product* p, size_t itemsize) except -1:
    """Compute a product of floats of `itemsize` bytes on this thread."""
    if not _is_own(p) and <int64_t>p.rows * p.columns * p.inner > TINY:
        require_blas()
    with nogil:
        if itemsize == sizeof(float):
            _block(p, 0, p.rows, 0, p.columns, <float*>p.data, NULL)
        else:
            _block(p, 0, p.rows, 0, p.columns, <double*>p.data, NULL)
    return 0


def limit_vectors(int bits):
    """Compute with vectors of at most `bits` bits, for tests; return the bits of the vectors now, 0 for BLAS alone."""
    global _bits
    if min(bits, product_bits()) == 0:
        require_blas()  # for products that are prepared already
    _bits = min(bits, product_bits())
    if 0 < _bits < 512 and product_bits() == 512:
        _bits = 256
    return _bits


cdef Native _find_matmul(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of a product, NULL where there is none."""
    if not _bits:
        require_blas()
    params[0], params[1], params[2] = attrs["transpose_a"], attrs["transpose_b"], type == "MatMulAdd"
    if inputs[0] == np.float32:
        return _multiply_float
    if inputs[0] == np.float64:
        return _multiply_double
    return NULL


register("MatMul", _find_matmul, ())
register("MatMulAdd", _find_matmul, ())
