"""Generalised ufuncs over stacks of matrices, or of other arrays, as steps of a run."""

from libc.stdint cimport uint64_t
from libc.string cimport memset
from numpy cimport npy_intp

from tagloom.kernels.native.tracing.interface import Untraceable

from tagloom.kernels.core.cost cimport decline
from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.native.run cimport Run
from tagloom.kernels.native.strided cimport MOST_ARRAYS, MOST_DIMS, Walk, advance, append_work, set_dimensions

cdef enum:
    MOST_CORE = 12  # axes of the arrays of a generalised ufunc, together
    MATRIX = 1000  # nanoseconds that a function of a small matrix takes


cdef extern from "<fenv.h>" nogil:
    int FE_INVALID
    int feclearexcept(int)
    int fetestexcept(int)


cdef struct Stack:  # a generalised ufunc over stacks of matrices
    Walk outer
    bint checks  # whether it reports an error by an invalid operation
    npy_intp sizes[MOST_CORE + 1]  # one matrix, then the sizes of the function's axes
    npy_intp steps[MOST_ARRAYS + MOST_CORE]  # none between matrices, then along the axes of each array


cdef int append_stack(
        Run run, Loop loop, void* data, list ranks, list sizes, list inputs, list outputs, bint checks) except -1:
    """Append a generalised ufunc; with `checks` the program gives up where the ufunc reports an error."""
    cdef list arrays = inputs + outputs
    cdef Stack* stack = <Stack*>run.arena.take(1, sizeof(Stack))
    cdef int at = len(arrays)
    cdef int k
    if max(len(sizes), sum(ranks)) > MOST_CORE:
        raise Untraceable
    outer = [array[(..., *[0] * rank)] for array, rank in zip(arrays, ranks)]
    stack.outer.loop, stack.outer.data, stack.checks = loop, data, checks
    set_dimensions(&stack.outer, outer)
    stack.sizes[0] = 1
    for k, size in enumerate(sizes):
        stack.sizes[k + 1] = size
    for array, rank in zip(arrays, ranks):
        for k in range(rank):
            stack.steps[at] = array.strides[array.ndim - rank + k]
            at += 1
    if outer[0].size:
        append_work(
            run, _apply_to_stack, stack, inputs, outputs,
            outer[0].size * (MATRIX + <double>max(sizes, default=1) ** 3))
    return 0


cdef void _apply_to_stack(const void* arguments, int part, int parts) noexcept nogil:
    """Apply a generalised ufunc to the matrices in order; an error declines."""
    cdef const Stack* stack = <const Stack*>(<const uint64_t*>arguments)[0]
    cdef Walk walk = stack.outer
    cdef npy_intp place[MOST_DIMS]
    cdef char* pointers[MOST_ARRAYS]
    cdef int i
    memset(place, 0, sizeof(place))
    if stack.checks:
        feclearexcept(FE_INVALID)
    while True:
        for i in range(walk.arrays):
            pointers[i] = walk.pointers[i]
        walk.loop(pointers, stack.sizes, stack.steps, walk.data)
        if stack.checks and fetestexcept(FE_INVALID):
            feclearexcept(FE_INVALID)
            decline(arguments)
            return
        if not advance(&walk, place, walk.rank):
            return
