"""Access to rows of arrays by changing numbers, as steps of a run; a number out of range declines."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from numpy cimport npy_intp

from tagloom.kernels.native.tracing.interface import Untraceable

from tagloom.kernels.core.cost cimport decline
from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.native.run cimport Run
from tagloom.kernels.native.strided cimport FUNCTION, MOST_DIMS, MOVE, append_work, data_in


cdef struct Rows:  # rows of an array whose numbers change; each number is made of one for each of its first dimensions
    char* table
    char* others  # rows that are taken or put, one after the other
    npy_intp count
    npy_intp bytes  # of a row
    npy_intp width  # elements of a row
    npy_intp size  # bytes of an element
    int rank
    bint is_put  # the others are copied to rows of the table, not rows of the table to the others
    bint is_signed  # numbers may count from the end
    const int64_t* numbers[MOST_DIMS]
    npy_intp dims[MOST_DIMS]
    Loop loop  # joins rows
    void* data


ctypedef void (*Compute)(const void*, int, int) noexcept nogil


cdef int append_take(Run run, table, list numbers, target) except -1:
    """Append a copy of rows of an array, by changing numbers; the program gives up where a number is out of range."""
    return _append(run, _copy_rows, _describe(run, table, numbers, target), [table, *numbers], [target])


cdef int append_put(Run run, table, list numbers, source, Loop loop, void* data) except -1:
    """Append a copy to rows of an array, or an update of these rows by an inner loop, row after row."""
    cdef Rows* rows = _describe(run, table, numbers, source)
    rows.is_put, rows.loop, rows.data = True, loop, data
    return _append(run, _copy_rows if loop == NULL else _join_rows, rows, [source, *numbers], [table])


cdef int append_check(Run run, numbers, count) except -1:
    """Append a check of numbers to be in [0, count); the program gives up where a number is not."""
    cdef Rows* rows = <Rows*>run.arena.take(1, sizeof(Rows))
    rows.count, rows.rank, rows.dims[0], rows.is_signed = numbers.size, 1, count, False
    rows.numbers[0] = <const int64_t*>data_in(numbers)
    return _append(run, _check_rows, rows, [numbers], [])


cdef Rows* _describe(Run run, table, list numbers, others) except NULL:
    """Return the description of an access to as many rows as there are numbers."""
    cdef Rows* rows = <Rows*>run.arena.take(1, sizeof(Rows))
    cdef int k
    if len(numbers) > MOST_DIMS:
        raise Untraceable
    rows.table, rows.others, rows.rank = data_in(table), data_in(others), len(numbers)
    rows.is_put, rows.is_signed = False, True
    rows.count, rows.width, rows.size = numbers[0].size, 1, table.dtype.itemsize
    for k in range(rows.rank, table.ndim):
        rows.width *= table.shape[k]
    rows.bytes = rows.width * rows.size
    for k in range(rows.rank):
        rows.numbers[k], rows.dims[k] = <const int64_t*>data_in(numbers[k]), table.shape[k]
    return rows


cdef int _append(Run run, Compute compute, Rows* rows, list inputs, list outputs) except -1:
    if rows.count:
        append_work(run, compute, rows, inputs, outputs, rows.count * (FUNCTION + rows.width * MOVE))
    return 0


cdef inline npy_intp _find_row(const Rows* rows, npy_intp i) noexcept nogil:
    """Return the place of the row accessed as number `i`; -1 if there is no such row."""
    cdef npy_intp at = 0
    cdef npy_intp number
    cdef int k
    for k in range(rows.rank):
        number = rows.numbers[k][i]
        if number < 0 and rows.is_signed:
            number += rows.dims[k]  # counted from the end, as by NumPy
        if not 0 <= number < rows.dims[k]:
            return -1
        at = at * rows.dims[k] + number
    return at


cdef void _copy_rows(const void* arguments, int part, int parts) noexcept nogil:
    """Copy rows from the table, or to the table, in order."""
    cdef const Rows* rows = <const Rows*>(<const uint64_t*>arguments)[0]
    cdef char* row
    cdef char* other
    cdef npy_intp i, at
    for i in range(rows.count):
        at = _find_row(rows, i)
        if at < 0:
            decline(arguments)
            return
        row, other = rows.table + at * rows.bytes, rows.others + i * rows.bytes
        memcpy(row if rows.is_put else other, other if rows.is_put else row, rows.bytes)


cdef void _join_rows(const void* arguments, int part, int parts) noexcept nogil:
    """Join rows with others by an inner loop, in order."""
    cdef const Rows* rows = <const Rows*>(<const uint64_t*>arguments)[0]
    cdef char* pointers[3]
    cdef npy_intp strides[3]
    cdef npy_intp i, at, width
    strides[0] = strides[1] = strides[2] = rows.size
    for i in range(rows.count):
        at = _find_row(rows, i)
        if at < 0:
            decline(arguments)
            return
        pointers[0] = pointers[2] = rows.table + at * rows.bytes
        pointers[1] = rows.others + i * rows.bytes
        width = rows.width
        rows.loop(pointers, &width, strides, rows.data)


cdef void _check_rows(const void* arguments, int part, int parts) noexcept nogil:
    cdef const Rows* rows = <const Rows*>(<const uint64_t*>arguments)[0]
    cdef npy_intp i
    for i in range(rows.count):
        if _find_row(rows, i) < 0:
            decline(arguments)
            return


cdef struct Assumption:
    const char* condition  # a bool
    char value


cdef int append_assumption(Run run, condition, bint value) except -1:
    """Append a check of a bool; the program gives up where the bool differs from `value`."""
    cdef Assumption* assumption = <Assumption*>run.arena.take(1, sizeof(Assumption))
    assumption.condition, assumption.value = data_in(condition), value
    return append_work(run, _check_assumption, assumption, [condition], [], MOVE)


cdef void _check_assumption(const void* arguments, int part, int parts) noexcept nogil:
    cdef const Assumption* assumption = <const Assumption*>(<const uint64_t*>arguments)[0]
    if (assumption.condition[0] != 0) != (assumption.value != 0):
        decline(arguments)
