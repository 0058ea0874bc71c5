"""The C kernel of SearchSorted: binary searches of values in sorted rows. NaN sorts last."""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t

import numpy as np

from tagloom.kernels.core.cost cimport do_or_leave
from tagloom.kernels.core.table cimport Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport Counters, Value
from tagloom.kernels.cpu.arrays cimport Operand, new_result, open_plain, product
from tagloom.kernels.cpu.registry cimport register

cnp.import_array()

cdef double HALVING = 1.5  # nanoseconds that a halving of a search takes, about

cdef enum:
    MOST_PARTS = 64

cdef fused element:
    float
    double
    int32_t
    int64_t


cdef struct Search:
    const void* rows
    const void* values
    void* places
    cnp.npy_intp length  # of a row
    cnp.npy_intp count  # of the values that are looked up in a row
    cnp.npy_intp size  # values of all rows
    int number  # of the dtype of rows and values
    bint is_right  # values go after equal elements
    bint is_long  # places are int64


cdef inline bint _sorts_before(element x, element y) noexcept nogil:
    if element is float or element is double:
        return x < y or (x == x and y != y)
    return x < y


cdef inline cnp.npy_intp _place(const element* row, cnp.npy_intp length, element value, bint is_right) noexcept nogil:
    """Return the number of elements before a value."""
    cdef cnp.npy_intp low = 0
    cdef cnp.npy_intp half
    cdef bint goes_on
    while length > 0:
        half = length >> 1
        goes_on = not _sorts_before(value, row[low + half]) if is_right else _sorts_before(row[low + half], value)
        # Without a branch, whose outcome no processor foresees.
        low += (half + 1) * goes_on
        length = half - ((length & 1) == 0) * goes_on
    return low


cdef inline void _search(const Search* search, cnp.npy_intp start, cnp.npy_intp stop, element* _) noexcept nogil:
    """Find the places of some values."""
    cdef const element* values = <const element*>search.values
    cdef const element* row
    cdef cnp.npy_intp i, place
    for i in range(start, stop):
        row = <const element*>search.rows + i // search.count * search.length
        place = _place(row, search.length, values[i], search.is_right)
        if search.is_long:
            (<int64_t*>search.places)[i] = place
        else:
            (<int32_t*>search.places)[i] = <int32_t>place


cdef void _search_part(const void* arguments, int part, int parts) noexcept nogil:
    cdef const Search* search = <const Search*>arguments
    cdef cnp.npy_intp start = search.size * part // parts
    cdef cnp.npy_intp stop = search.size * (part + 1) // parts
    if search.number == cnp.NPY_FLOAT32:
        _search(search, start, stop, <float*>NULL)
    elif search.number == cnp.NPY_FLOAT64:
        _search(search, start, stop, <double*>NULL)
    elif search.number == cnp.NPY_INT32:
        _search(search, start, stop, <int32_t*>NULL)
    else:
        _search(search, start, stop, <int64_t*>NULL)


cdef int _search_sorted(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Look up plain arrays of values in plain rows."""
    cdef Search* search = <Search*>work.arguments
    cdef cnp.npy_intp halvings = 1
    cdef Operand rows, values
    cdef int d
    if not open_plain(&inputs[0], &rows) or not open_plain(&inputs[1], &values):
        return 0
    if rows.rank == 0 or rows.rank != values.rank:
        return 0
    for d in range(rows.rank - 1):
        if rows.dims[d] != values.dims[d]:
            return 0
    search.rows, search.values, search.number = rows.data, values.data, input_type(table, node, 0).number
    search.length, search.count = rows.dims[rows.rank - 1], values.dims[rows.rank - 1]
    search.size, search.is_right = values.size, node.params[0] != 0
    search.is_long = output_type(table, node, 0).itemsize == sizeof(int64_t)
    search.places = new_result(live, output_type(table, node, 0), values.rank, values.dims, outputs)
    while search.length >> halvings:
        halvings += 1
    return do_or_leave(table, work, _search_part, (2 + HALVING * halvings) * values.size,
                       <int>max(1, min(MOST_PARTS, values.size)), outputs)


cdef Native _find_search(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel, for common numbers."""
    params[0] = attrs["side"] == "right"
    if inputs[0] == inputs[1] and inputs[0] in (np.float32, np.float64, np.int32, np.int64):
        return _search_sorted
    return NULL


register("SearchSorted", _find_search, ())
