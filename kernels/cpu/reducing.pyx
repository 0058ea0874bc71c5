"""Reductions over axes, and their inverses for gradients and broadcasts.

Elements are joined by NumPy's own inner loops, which add pairwise along the last axis, as NumPy's reductions do.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from tagloom.kernels.core.cost cimport do_or_leave, place_of
from tagloom.kernels.core.table cimport Compute, Loop, Native, Node, Table, Work, input_type, output_type
from tagloom.kernels.core.values cimport SCALAR, Counters, Value, hold
from tagloom.kernels.cpu.arrays cimport (
    MOST_DIMS, Operand, are_copyable, new_result, open_plain, product, read_sizes, repeat,
)
from tagloom.kernels.cpu.linear cimport vector_bits
from tagloom.kernels.cpu.registry cimport register
from tagloom.kernels.cpu.seen cimport Seen
from tagloom.kernels.cpu.ufuncs cimport find_native_loop
from tagloom.kernels.cpu.walks cimport Walk, advance, lay_out
from tagloom.kernels.cpu.windows cimport copy_element_to

cdef extern from "cpu/rows.h" nogil:
    void add_rows(
        void* total, const void* rows, ptrdiff_t num_rows, ptrdiff_t step, ptrdiff_t count, size_t size, int bits)

cnp.import_array()

cdef double PACE = 0.3  # nanoseconds that an element takes, about
cdef double ROW = 10  # nanoseconds that a row takes besides
cdef double MOVE = 0.15  # nanoseconds that writing a byte takes, about

cdef enum:
    MOST_PARTS = 64
    MOST_ROW = 1 << 14  # bytes of a row up to which it is added without NumPy's loop, which reads and writes the total each time

_LOOPS = {"Sum": "add", "SumTo": "add", "Mean": "add", "Prod": "multiply", "Max": "maximum", "Min": "minimum", "Any": "logical_or",
          "All": "logical_and"}


cdef class Reduction:
    """The attributes of a reduction, or of an Unreduce."""
    cdef Loop loop  # joins two elements; NULL in an Unreduce
    cdef bint adds  # float32 or float64
    cdef void* data  # its last argument
    cdef char start[8]  # the element that changes nothing
    cdef bint over_nothing  # whether a reduction over no elements is the identity
    cdef bint divides  # whether it is a mean
    cdef bint everything  # whether all axes are reduced
    cdef bint keepdims
    cdef int axes[MOST_DIMS]  # as given
    cdef int count  # of axes


cdef bint _find_axes(Reduction self, int rank, bint* gone) noexcept:
    """Mark the reduced axes; return False if an axis is missing or given twice."""
    cdef int i, axis
    for i in range(rank):
        gone[i] = self.everything
    for i in range(self.count):
        axis = self.axes[i] + (rank if self.axes[i] < 0 else 0)
        if not 0 <= axis < rank or gone[axis]:
            return False
        gone[axis] = True
    return True


cdef int _shrink(Reduction self, const cnp.npy_intp* dims, int rank, const bint* gone, cnp.npy_intp* made) noexcept:
    """Write the dimensions of the result; return how many there are."""
    cdef int kept = 0
    cdef int d
    for d in range(rank):
        if not gone[d] or self.keepdims:
            made[kept] = 1 if gone[d] else dims[d]
            kept += 1
    return kept


cdef struct Fold:  # joins all elements of the source to the target, in which each begins as the neutral one
    Walk walk
    Loop loop
    bint adds  # float32 or float64, whose rows are added without calling the loop for each
    void* data  # its last argument
    char* source
    char* target  # NULL for an unboxed element
    char start[8]
    int cut  # outermost dimension of the walk that the target has, -1 if it has none
    size_t size  # of an element
    cnp.npy_intp terms  # to divide sums by; 0 for not


cdef int _reduce_walk(
        const Table* table, Reduction self, const Operand* x, const bint* gone, char* made, size_t size,
        cnp.npy_intp terms, const Value* input, Value* output, Work* work) except -1:
    """Reduce the elements of an array, or leave this work; divide by `terms` unless 0."""
    cdef Fold* fold = <Fold*>work.arguments
    cdef double cost
    cdef int d, parts
    lay_out(&fold.walk, x.dims, x.rank, size, gone, True)
    fold.loop, fold.adds, fold.data, fold.source = self.loop, self.adds, self.data, x.data
    fold.target = NULL if output.form == SCALAR else made
    memcpy(fold.start, self.start, sizeof(fold.start))
    fold.size, fold.terms, fold.cut = size, terms, -1
    for d in range(fold.walk.rank):
        if fold.walk.target[d] and fold.cut < 0:
            fold.cut = d
    cost = x.size * PACE + x.size // fold.walk.dims[fold.walk.rank - 1] * ROW
    if input.form == SCALAR:
        cost = -1  # at once, as it may lie in the iteration, which is freed when the step is cancelled
    parts = 1 if fold.cut < 0 else <int>min(MOST_PARTS, fold.walk.dims[fold.cut])
    return do_or_leave(table, work, _fold, cost, parts, output)


cdef void _fold(const void* arguments, int part, int parts) noexcept nogil:
    """Compute some of the elements of a reduction."""
    cdef const Fold* given = <const Fold*>arguments
    if given.walk.rank == 2 and given.cut == 1 and _adds_rows(given):
        _add_columns(given, place_of(arguments, given.target), part, parts)
    else:
        _fold_any(given, place_of(arguments, given.target), part, parts)


cdef inline void _add_columns(const Fold* fold, char* target, int part, int parts) noexcept nogil:
    """Add some columns of a matrix up: as in each step of a loop, where copying a Fold would take longer."""
    cdef cnp.npy_intp columns = fold.walk.dims[1], size = fold.size
    cdef cnp.npy_intp first = columns * part // parts
    cdef cnp.npy_intp count = columns * (part + 1) // parts - first
    target += first * size
    repeat(target, fold.start, size, count)
    add_rows(
        target, fold.source + first * size, fold.walk.dims[0], fold.walk.source[0] // size, count, size, vector_bits())
    if fold.terms:
        _divide(target, size, count, fold.terms)


cdef void _fold_any(const Fold* given, char* target, int part, int parts) noexcept nogil:
    """Join elements along whatever axes."""
    cdef Fold fold = given[0]
    cdef cnp.npy_intp whole, first
    cdef cnp.npy_intp count = 1
    fold.target = target
    if fold.cut >= 0:
        whole = fold.walk.dims[fold.cut]
        first = whole * part // parts
        fold.walk.dims[fold.cut] = whole * (part + 1) // parts - first
        fold.source += first * fold.walk.source[fold.cut]
        fold.target += first * fold.walk.target[fold.cut]
        count = fold.walk.dims[fold.cut] * (fold.walk.target[fold.cut] // <cnp.npy_intp>fold.size)
    repeat(fold.target, fold.start, fold.size, count)
    if _adds_rows(&fold):
        _add_rows(&fold)
    else:
        _join(&fold)
    if fold.terms:
        _divide(fold.target, fold.size, count, fold.terms)


cdef int seen_by_reduction(Compute compute, uint64_t* arguments, Seen* seen) noexcept nogil:
    """Describe the memory accessed by a reduction, an array or two; return their number, or -1 if the work is no
    reduction, or of no elements.
    """
    cdef Fold* fold = <Fold*>arguments
    cdef size_t source = fold.size
    cdef size_t target = fold.size
    cdef int d
    if compute != _fold:
        return -1
    for d in range(fold.walk.rank):
        if fold.walk.dims[d] == 0:
            return -1
        source += (fold.walk.dims[d] - 1) * fold.walk.source[d]
        target += (fold.walk.dims[d] - 1) * fold.walk.target[d]
    seen[0] = Seen(fold.source, &fold.source, source, source, False)
    if fold.target == NULL:
        return 1
    seen[1] = Seen(fold.target, &fold.target, target, target, True)
    return 2


cdef inline bint _adds_rows(const Fold* fold) noexcept nogil:
    """Return True if the reduction adds short rows into a single row."""
    cdef const Walk* walk = &fold.walk
    cdef cnp.npy_intp size = fold.size
    cdef int last = walk.rank - 1
    if not fold.adds or last == 0 or walk.dims[last] * size > MOST_ROW:
        return False
    return walk.source[last] == walk.target[last] == size and walk.target[last - 1] == 0 and walk.source[last - 1] % size == 0


cdef inline void _add_rows(Fold* fold) noexcept nogil:
    """Add rows into a single row, for each place of the earlier dimensions."""
    cdef Walk outer = fold.walk
    cdef int last = outer.rank - 1
    cdef cnp.npy_intp rows = outer.dims[last - 1], step = outer.source[last - 1] // <cnp.npy_intp>fold.size
    cdef cnp.npy_intp place[MOST_DIMS]
    cdef char* source = fold.source
    cdef char* target = fold.target
    memset(place, 0, sizeof(place))
    outer.rank = last
    while True:
        add_rows(target, source, rows, step, outer.dims[last], fold.size, vector_bits())
        if not advance(&outer, place, &source, &target):
            return


cdef inline void _join(Fold* fold) noexcept nogil:
    cdef Walk* walk = &fold.walk
    cdef cnp.npy_intp place[MOST_DIMS]
    cdef cnp.npy_intp strides[3]
    cdef char* pointers[3]
    cdef char* source = fold.source
    cdef char* target = fold.target
    cdef int last = walk.rank - 1
    memset(place, 0, sizeof(place))
    strides[0], strides[1], strides[2] = walk.target[last], walk.source[last], walk.target[last]
    while True:
        pointers[0], pointers[1], pointers[2] = target, source, target
        fold.loop(pointers, &walk.dims[last], strides, fold.data)
        if not advance(walk, place, &source, &target):
            return


cdef int _reduce(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Reduce a plain array over axes."""
    cdef Reduction self = <Reduction><void*>node.params[0]
    cdef size_t size = input_type(table, node, 0).itemsize
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef bint gone[MOST_DIMS]
    cdef cnp.npy_intp count
    cdef Operand x
    cdef char* made
    cdef int rank
    if not open_plain(&inputs[0], &x) or not _find_axes(self, x.rank, gone):
        return 0
    if x.size == 0 and not self.over_nothing:
        return 0
    rank = _shrink(self, x.dims, x.rank, gone, dims)
    count = product(dims, 0, rank)
    made = new_result(live, output_type(table, node, 0), rank, dims, outputs)
    if x.size == 0:
        repeat(made, self.start, size, count)
        return 1
    return _reduce_walk(table, self, &x, gone, made, size, x.size // count if self.divides else 0, inputs, outputs, work)


cdef void _divide(char* sums, size_t size, cnp.npy_intp count, cnp.npy_intp terms) noexcept nogil:
    """Make means of sums."""
    cdef cnp.npy_intp i
    if size == sizeof(float):
        for i in range(count):
            (<float*>sums)[i] = <float>(<double>(<float*>sums)[i] / <double>terms)
    else:
        for i in range(count):
            (<double*>sums)[i] /= <double>terms


cdef int _sum_to(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Sum a plain array down to a shape which broadcasts to its own."""
    cdef Reduction self = <Reduction><void*>node.params[0]
    cdef size_t size = input_type(table, node, 0).itemsize
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef bint gone[MOST_DIMS]
    cdef Operand x
    cdef char* made
    cdef int rank = read_sizes(&inputs[1], input_type(table, node, 1), dims)
    if rank < 0 or not open_plain(&inputs[0], &x) or not _stretched(dims, rank, x.dims, x.rank, gone):
        return 0
    if x.rank == rank and _same(dims, x.dims, rank):
        hold(live, outputs, inputs[0])
        return 1
    made = new_result(live, output_type(table, node, 0), rank, dims, outputs)
    if x.size == 0:
        memset(made, 0, size * product(dims, 0, rank))
        return 1
    return _reduce_walk(table, self, &x, gone, made, size, 0, inputs, outputs, work)


cdef bint _same(const cnp.npy_intp* a, const cnp.npy_intp* b, int rank) noexcept nogil:
    cdef int d
    for d in range(rank):
        if a[d] != b[d]:
            return False
    return True


cdef bint _stretched(
        const cnp.npy_intp* small, int small_rank, const cnp.npy_intp* large, int rank, bint* repeated) noexcept nogil:
    """Mark the dimensions along which the small shape is repeated to make the large shape; return False if this is
    impossible.
    """
    cdef int lead = rank - small_rank
    cdef int d
    if lead < 0:
        return False
    for d in range(rank):
        repeated[d] = d < lead or (small[d - lead] == 1 and large[d] != 1)
        if large[d] < 0 or (not repeated[d] and small[d - lead] != large[d]):
            return False
    return True


cdef struct Spread:  # copies elements to all places that they are repeated at
    Walk walk
    char* source  # NULL for an unboxed element
    char* target
    uint64_t element
    size_t size  # bytes of an element


cdef void _spread(const void* arguments, int part, int parts) noexcept nogil:
    """Write the elements of this part, some places of the first dimension."""
    cdef Spread spread = (<const Spread*>arguments)[0]
    cdef Walk* walk = &spread.walk
    cdef size_t size = spread.size
    cdef char* source = spread.source if spread.source != NULL else <char*>&spread.element
    cdef char* target = spread.target
    cdef cnp.npy_intp start = walk.dims[0] * part // parts
    cdef cnp.npy_intp place[MOST_DIMS]
    cdef int last = walk.rank - 1
    walk.dims[0] = walk.dims[0] * (part + 1) // parts - start
    source += start * walk.source[0]
    target += start * walk.target[0]
    memset(place, 0, sizeof(place))
    while walk.dims[0] > 0:
        if walk.source[last]:
            memcpy(target, source, walk.dims[last] * size)
        else:
            repeat(target, source, size, walk.dims[last])
        if not advance(walk, place, &source, &target):
            return


cdef int _give_spread(
        const Table* table, const Node* node, Operand* x, const cnp.npy_intp* dims, int rank, const bint* repeated,
        Counters* live, Value* outputs, Value* input, Work* work) except -1:
    """Repeat a plain array or an element as output, or leave the work to be done."""
    cdef size_t size = input_type(table, node, 0).itemsize
    cdef char* made = new_result(live, output_type(table, node, 0), rank, dims, outputs)
    cdef Spread* spread = <Spread*>work.arguments
    cdef cnp.npy_intp count = product(dims, 0, rank)
    cdef double cost
    if count == 0:
        return 1
    if outputs[0].form == SCALAR:
        return copy_element_to(table, x.data, size, outputs, work)
    lay_out(&spread.walk, dims, rank, size, repeated, False)
    spread.source, spread.target, spread.element, spread.size = x.data, made, input.bits, size
    if input.form == SCALAR:
        spread.source = NULL
    cost = MOVE * size * count + ROW * (count // spread.walk.dims[spread.walk.rank - 1])
    return do_or_leave(table, work, _spread, cost, <int>min(MOST_PARTS, spread.walk.dims[0]), outputs)


cdef int _broadcast(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Repeat a plain array up to a shape."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef bint repeated[MOST_DIMS]
    cdef Operand x
    cdef int rank = read_sizes(&inputs[1], input_type(table, node, 1), dims)
    if rank < 0 or not open_plain(&inputs[0], &x) or not _stretched(x.dims, x.rank, dims, rank, repeated):
        return 0
    return _give_spread(table, node, &x, dims, rank, repeated, live, outputs, &inputs[0], work)


cdef int _unreduce(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Repeat the result of a reduction over the reduced axes."""
    cdef Reduction self = <Reduction><void*>node.params[0]
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef bint gone[MOST_DIMS]
    cdef cnp.npy_intp kept = 1
    cdef Operand y
    cdef int d
    cdef int rank = read_sizes(&inputs[1], input_type(table, node, 1), dims)
    if rank < 0 or not open_plain(&inputs[0], &y) or not _find_axes(self, rank, gone):
        return 0
    for d in range(rank):
        if dims[d] < 0:
            return 0
        kept *= 1 if gone[d] else dims[d]
    if kept != y.size:
        return 0
    return _give_spread(table, node, &y, dims, rank, gone, live, outputs, &inputs[0], work)


cdef object _identity(str name, dtype):
    """Return the identity element of a reduction's loop."""
    if name == "maximum":
        return np.array(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min, dtype)
    if name == "minimum":
        return np.array(np.inf if dtype.kind == "f" else np.iinfo(dtype).max, dtype)
    return np.array(name in ("logical_and", "multiply"), dtype)


cdef Reduction _describe(str type, dict attrs):
    """Read the attributes of a reduction; None if there are too many axes."""
    self = Reduction()
    axes = attrs.get("axis")
    self.everything = axes is None
    self.keepdims = attrs.get("keepdims", False)
    self.divides, self.over_nothing = type == "Mean", type in ("Sum", "Prod", "Any", "All")
    for axis in axes or ():
        if self.count == MOST_DIMS:
            return None
        self.axes[self.count] = axis
        self.count += 1
    return self


cdef Native _find_reduction(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of a reduction, of SumTo, Unreduce or BroadcastTo and keep its objects, or return NULL."""
    dtype = outputs[0]
    if not are_copyable(outputs):
        return NULL
    if type == "BroadcastTo":
        return _broadcast
    self = _describe(type, attrs)
    if self is None:
        return NULL
    kept.append(self)
    params[0] = <int64_t><void*>self
    if type == "Unreduce":
        return _unreduce
    if dtype not in ((np.bool_,) if type in ("Any", "All") else (np.float32, np.float64, np.int32, np.int64)):
        return NULL
    self.loop = find_native_loop(_LOOPS[type], [dtype.num] * 3, &self.data)
    self.adds = _LOOPS[type] == "add" and dtype.kind == "f"
    start = _identity(_LOOPS[type], dtype)
    memcpy(self.start, cnp.PyArray_DATA(start), dtype.itemsize)
    if self.loop == NULL:
        return NULL
    if type == "SumTo":
        return _sum_to
    return _reduce


for _type in ("All", "Any", "BroadcastTo", "Max", "Mean", "Min", "Prod", "Sum", "SumTo", "Unreduce"):
    register(_type, _find_reduction, (1,) if _type in ("BroadcastTo", "SumTo", "Unreduce") else ())
