"""Sums of matrix products over a loop's iterations, with the factors of many iterations multiplied at once.

The gradient of weights used in a loop is a sum over its iterations, ``total + a.T @ b``. A product of few rows reads
and writes as much memory of the total as a product of many rows. So the rows of `a` and `b` are gathered in two
buffers, and multiplied when there are enough. Shapes decide when, never timing.

See docs/design/0005-loops-made-fast.md.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from tagloom.kernels.core.cost cimport keep, leave
from tagloom.kernels.core.table cimport Native, Node, Table, Type, Work, input_type
from tagloom.kernels.core.values cimport OBJECT, Counters, Py_INCREF, Value, hold, object_value
from tagloom.kernels.cpu.arrays cimport (
    ArrayObject, DescrObject, PyArray_DATA, PyArray_DIM, PyArray_NBYTES, PyArray_NDIM, PyArray_NewFromDescr,
    PyArray_Type, is_plain, is_unshared, plain_in,
)
from tagloom.kernels.cpu.linear cimport TINY, multiply_columns
from tagloom.kernels.cpu.registry cimport register

from tagloom.kernels.cpu.views import multiply_views

cdef extern from "numpy/arrayobject.h":
    DescrObject* PyArray_DESCR(ArrayObject*)

cnp.import_array()

cdef double COPY_COST = 0.2  # nanoseconds for a byte, about

cdef enum:
    MOST_PARTS = 64  # into which the copying of rows may be cut for threads
    FEWEST_ROWS = 64  # least capacity of a buffer
    MOST_ROWS = 256  # gathered before a multiplication: they stay in a core's own cache, with their packed copy
    LARGE = 1 << 20  # bytes of a total that does not stay in the cache as well
    MOST_OF_LARGE = 1024  # rows gathered for a large total, which every multiplication reads and writes as a whole


@cython.auto_pickle(False)
cdef class ProductSum:
    """A matrix plus products ``a.T @ b``, some of which may not have been multiplied yet.

    The value is ``total + a[:rows].T @ b[:rows]`` with the gathered rows `a` and `b`; see the fields in the .pxd file.

    Parameters
    ----------
    total : numpy.ndarray
        Initial matrix, shape (m, n), of a floating-point dtype; not changed while it has other references.
    """

    def __init__(self, total):
        self.total = total

    def add(self, a, b):
        """Add ``a.T @ b`` at once, for `a` of shape (rows, m) and `b` of shape (rows, n)."""
        self.total = self.value() + np.matmul(a.T, b)
        self.owned = False

    def gather_views(self, a, b):
        """Add ``a.T @ b`` as the C kernel adds plain matrices: multiply at once, or gather the rows for later.

        Matrices that do not fit the total are left to :meth:`add`.
        """
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        if not self.fits(<ArrayObject*><PyObject*>a, <ArrayObject*><PyObject*>b):
            self.add(a, b)
            return
        cdef int64_t most = most_rows(<ArrayObject*><PyObject*>self.total)
        cdef int64_t count = len(a)
        if self.rows == 0 and (2 * count > most or is_tiny(<ArrayObject*><PyObject*>a, <ArrayObject*><PyObject*>b)):
            self._multiply_rows(a, b)
            return
        gathered = [] if self.rows == 0 else [self.a[:self.rows]], [] if self.rows == 0 else [self.b[:self.rows]]
        self.a, self.b = (np.concatenate([*before, more]) for before, more in zip(gathered, (a, b)))
        self.rows += count
        if self.rows + count > most:
            self._multiply_rows(self.a, self.b)
            self.rows = 0

    def _multiply_rows(self, a, b):
        """Add the product of all rows to a new total."""
        total = self.total if self.before is None else self.before
        self.total, self.before, self.owned = multiply_views(a, b, True, False, total), None, False

    def replace(self, total):
        """Set the sum to a matrix; drop gathered rows."""
        self.total, self.before, self.owned, self.rows = total, None, False, 0

    def value(self):
        """Return the sum, after multiplying the gathered rows."""
        if self.rows:
            self.total = self.total + np.matmul(self.a[:self.rows].T, self.b[:self.rows])
            self.owned, self.rows = False, 0
        return self.total

    cdef bint fits(self, ArrayObject* a, ArrayObject* b) noexcept:
        """Return True if `a` and `b` are matrices whose product fits the total, a plain matrix, in shape and dtype."""
        cdef ArrayObject* total = <ArrayObject*><PyObject*>self.total
        if a == NULL or b == NULL or not is_plain(total) or PyArray_NDIM(total) != 2:
            return False
        if PyArray_NDIM(a) != 2 or PyArray_NDIM(b) != 2 or PyArray_DIM(a, 0) != PyArray_DIM(b, 0):
            return False
        if PyArray_DESCR(a) != PyArray_DESCR(total) or PyArray_DESCR(b) != PyArray_DESCR(total):
            return False
        # Products are computed with sizes of type int, as in BLAS.
        if max(PyArray_DIM(total, 0), PyArray_DIM(total, 1), PyArray_DIM(a, 0)) > INT_MAX:
            return False
        return PyArray_DIM(a, 1) == PyArray_DIM(total, 0) and PyArray_DIM(b, 1) == PyArray_DIM(total, 1)

    cdef int make_room(self, ArrayObject* a, ArrayObject* b, const Type* type) except -1:
        """Ensure that both buffers have room for the rows of `a` and `b` after the gathered rows."""
        cdef int64_t rows = self.rows + PyArray_DIM(a, 0)
        cdef int64_t most = most_rows(<ArrayObject*><PyObject*>self.total)
        self.a = _with_room(self.a, rows, most, a, type)
        self.b = _with_room(self.b, rows, most, b, type)
        return 0

    cdef int gather(self, const Table* table, ArrayObject* a, ArrayObject* b, Work* work) except -1:
        """Append the rows of `a` and `b` to the buffers, which have room, or leave the copying in `work` if long."""
        cdef Rows* rows = <Rows*>work.arguments
        _append(&rows.a, self.a, self.rows, a)
        _append(&rows.b, self.b, self.rows, b)
        self.rows += PyArray_DIM(a, 0)
        if _copy_cost(a, b) >= table.at_once:
            leave(work, _copy_rows, _copy_cost(a, b), MOST_PARTS)
        else:
            _copy_rows(rows, 0, 1)  # called by name, so that its divisions by the number of parts fold away
        return 0

    cdef int own(self, const Table* table) except -1:
        """Ensure that the total may be written to: replace a total with other references by a new matrix.

        The new matrix is uninitialized until the next multiplication, which reads `before`, the old total.
        """
        if not self.owned and not is_unshared(table, <ArrayObject*><PyObject*>self.total):
            self.before, self.total = self.total, _new_matrix(<ArrayObject*><PyObject*>self.total)
        self.owned = True
        return 0

    cdef int multiply(
            self, const Table* table, ArrayObject* a, ArrayObject* b, int64_t rows, ArrayObject* more_a,
            ArrayObject* more_b, Work* work) except -1:
        """Add a product to the total in place, or leave the multiplication in `work` if it takes long.

        The factors are the first `rows` rows of `a` and `b`, followed by all rows of `more_a` and `more_b` unless NULL.
        """
        cdef const void* before = NULL
        self.own(table)
        if self.before is not None:
            before = PyArray_DATA(<ArrayObject*><PyObject*>self.before)
            keep(work, <PyObject*>self.before)
            self.before = None
        multiply_columns(table, a, b, <int>rows, more_a, more_b, <ArrayObject*><PyObject*>self.total, before, work)
        return 0

    cdef int multiply_gathered(self, const Table* table, ArrayObject* more_a, ArrayObject* more_b, Work* work) except -1:
        """Add the product of the gathered rows and of those in `more_a` and `more_b`, as `multiply` does."""
        cdef ArrayObject* a = <ArrayObject*><PyObject*>self.a
        cdef ArrayObject* b = <ArrayObject*><PyObject*>self.b
        self.multiply(table, a, b, self.rows, more_a, more_b, work)
        self.rows = 0
        return 0


cdef object _new_matrix(ArrayObject* like):
    """Return an uninitialized matrix of the shape and dtype of `like`."""
    cdef cnp.npy_intp dims[2]
    dims[0], dims[1] = PyArray_DIM(like, 0), PyArray_DIM(like, 1)
    Py_INCREF(<PyObject*>PyArray_DESCR(like))  # stolen by the new array
    return PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(like), 2, dims, NULL, NULL, 0, NULL)


cdef object _with_room(object buffer, int64_t rows, int64_t most, ArrayObject* like, const Type* type):
    """Return a buffer with room for `rows` rows of the width of `like`: `buffer` itself, or a copy with more room.

    A new buffer has room for twice the rows, up to `most`, so that a loop rarely copies its buffers.
    """
    cdef cnp.npy_intp dims[2]
    cdef ArrayObject* old = <ArrayObject*><PyObject*>buffer
    if buffer is not None and PyArray_DIM(old, 0) >= rows:
        return buffer
    dims[0], dims[1] = max(rows, min(2 * rows, most), <int64_t>FEWEST_ROWS), PyArray_DIM(like, 1)
    Py_INCREF(type.descr)  # stolen by the new array
    grown = PyArray_NewFromDescr(&PyArray_Type, <DescrObject*>type.descr, 2, dims, NULL, NULL, 0, NULL)
    if buffer is not None:
        memcpy(PyArray_DATA(<ArrayObject*><PyObject*>grown), PyArray_DATA(old), PyArray_NBYTES(old))
    return grown


cdef struct Copy:
    const char* source
    char* target
    size_t size  # bytes


cdef struct Rows:  # the arguments of _copy_rows: one Copy for each factor
    Copy a
    Copy b


cdef inline void _append(Copy* copy, object buffer, int64_t rows, ArrayObject* more) noexcept:
    """Describe in `copy` how all rows of `more` are copied into `buffer`, after its first `rows` rows."""
    cdef char* start = <char*>PyArray_DATA(<ArrayObject*><PyObject*>buffer)
    copy.source, copy.target, copy.size = <const char*>PyArray_DATA(more), start, PyArray_NBYTES(more)
    if copy.size:
        copy.target += rows * (PyArray_NBYTES(more) // PyArray_DIM(more, 0))


cdef inline double _copy_cost(ArrayObject* a, ArrayObject* b) noexcept nogil:
    """Return the estimated nanoseconds for copying two matrices."""
    return COPY_COST * (PyArray_NBYTES(a) + PyArray_NBYTES(b))


cdef void _copy_rows(const void* arguments, int part, int parts) noexcept nogil:
    """Copy part number `part` of `parts` of the bytes of each factor."""
    _copy_part(&(<const Rows*>arguments).a, part, parts)
    _copy_part(&(<const Rows*>arguments).b, part, parts)


cdef inline void _copy_part(const Copy* copy, int part, int parts) noexcept nogil:
    cdef size_t start = copy.size * part // parts
    memcpy(copy.target + start, copy.source + start, copy.size * (part + 1) // parts - start)


cdef int64_t most_rows(const ArrayObject* total) noexcept nogil:
    """Return the largest number of rows gathered before they are multiplied, by the size of `total`."""
    return MOST_OF_LARGE if PyArray_NBYTES(total) > LARGE else MOST_ROWS


cdef bint is_tiny(const ArrayObject* a, const ArrayObject* b) noexcept nogil:
    """Return True if a product is so small that multiplying it takes no longer than copying its rows."""
    return <int64_t>PyArray_DIM(a, 0) * PyArray_DIM(a, 1) * PyArray_DIM(b, 1) <= TINY


cdef ProductSum sum_in(Value value):
    """Return the ProductSum in a value, or None."""
    found = <object><PyObject*>value.bits if value.form == OBJECT else None
    return found if isinstance(found, ProductSum) else None


cdef int _begin(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Make a ProductSum of a matrix."""
    if inputs[0].form != OBJECT:
        return 0
    cdef ProductSum sum = ProductSum.__new__(ProductSum)
    sum.total = <object><PyObject*>inputs[0].bits
    hold(live, outputs, object_value(<PyObject*>sum))
    return 1


cdef int _add(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Add a product to a ProductSum: multiply now, or gather the rows for a later multiplication.

    The gathered rows are multiplied as soon as one more product of this size would make them more than `most`.
    """
    cdef ArrayObject* a = plain_in(inputs[1])
    cdef ArrayObject* b = plain_in(inputs[2])
    cdef ProductSum sum = sum_in(inputs[0])
    cdef int64_t most
    cdef bint enough
    if sum is None or not sum.fits(a, b):
        return 0
    hold(live, outputs, inputs[0])
    most = most_rows(<ArrayObject*><PyObject*>sum.total)
    # Nothing is gathered where the second product would not fit beside the first.
    if sum.rows == 0 and (2 * PyArray_DIM(a, 0) > most or is_tiny(a, b)):
        sum.multiply(table, a, b, PyArray_DIM(a, 0), NULL, NULL, work)
        return 1
    enough = sum.rows + 2 * PyArray_DIM(a, 0) > most  # no room for another product after this one
    if enough:
        # Before rows are gathered: its allocation may be refused, and then the whole kernel is called again later.
        sum.own(table)
    # Copying many rows would be work for threads too, and Work has place for one: multiply them where they are.
    if enough and sum.rows and _copy_cost(a, b) >= table.at_once:
        sum.multiply_gathered(table, a, b, work)
        return 1
    sum.make_room(a, b, input_type(table, node, 1))
    sum.gather(table, a, b, work)
    if enough:
        sum.multiply_gathered(table, NULL, NULL, work)
    return 1


cdef int _end(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Return the sum as an array, after multiplying the gathered rows."""
    cdef ProductSum sum = sum_in(inputs[0])
    if sum is None:
        return 0
    if sum.rows:
        sum.multiply_gathered(table, NULL, NULL, work)
    hold(live, outputs, object_value(<PyObject*>sum.total))
    return 1


cdef Native _find_product_sum(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the C kernel of ProductSumBegin, ProductSumAdd or ProductSumEnd."""
    if type == "ProductSumBegin":
        return _begin
    return _add if type == "ProductSumAdd" else _end


register("ProductSumAdd", _find_product_sum)
register("ProductSumBegin", _find_product_sum)
register("ProductSumEnd", _find_product_sum)
