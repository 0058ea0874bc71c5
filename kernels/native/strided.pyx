"""Inner loops over arrays of any strides, copies, and moves of elements, as steps of a run."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset
from numpy cimport npy_intp

import numpy as np

from tagloom.kernels.native.tracing.interface import Untraceable

from tagloom.kernels.core.table cimport Loop, Work
from tagloom.kernels.cpu.arrays cimport ArrayObject
from tagloom.kernels.native.run cimport APPLY, LONG_STEP, MOST_OPERANDS, WORK, Run, Step, add_step, hide

cnp.import_array()


cdef struct Gather:  # elements at places of an array, counted from 1; 0 stands for zero
    const char* source
    char* target
    const int64_t* places
    npy_intp count
    npy_intp size  # bytes of an element


cdef int append_loop(
        Run run, Loop loop, void* data, list inputs, list outputs, int pace, bint keeps_pointers=True) except -1:
    """Append an inner loop: a single call for arrays whose elements lie in order, else a walk over the dimensions.

    A walk copies the pointers, which loops of other packages than NumPy change.
    """
    cdef list arrays = inputs + outputs
    if not outputs[0].size:
        return 0
    if keeps_pointers and len(arrays) <= MOST_OPERANDS and len(outputs) == 1 and _are_flat(arrays):
        return _append_call(run, loop, data, arrays, pace)
    return _append_walk(run, loop, data, inputs, outputs, arrays, outputs[0].size * pace, False)


cdef int _append_call(Run run, Loop loop, void* data, list arrays, int pace) except -1:
    """Append a single call of an inner loop; the last array is the result."""
    cdef Step* step = add_step(run, APPLY)
    cdef int k
    run.kept += arrays
    step.loop, step.data, step.count = loop, data, arrays[len(arrays) - 1].size
    step.arguments = <uint64_t*>run.arena.take(MOST_OPERANDS, sizeof(uint64_t))
    for k, array in enumerate(arrays):
        step.operands[k], step.arguments[k] = data_in(array), array.dtype.itemsize
        step.strides[k] = array.dtype.itemsize if step.count == 1 or any(array.strides) else 0
    return count_cost(run, step.count * pace)


cdef bint _are_flat(list arrays):
    """Return True if the elements of all arrays lie in order, or are a single element."""
    return all([a.flags.c_contiguous or not any(a.strides) for a in arrays])


cdef int _append_walk(
        Run run, Loop loop, void* data, list inputs, list outputs, list arrays, double cost, bint keeps_last) except -1:
    """Append calls of an inner loop along the last dimension of arrays, parts of the inputs and outputs."""
    cdef Walk* walk = <Walk*>run.arena.take(1, sizeof(Walk))
    walk.loop, walk.data = loop, data
    set_dimensions(walk, arrays, keeps_last)
    return append_work(run, _walk, walk, inputs, outputs, cost)


cdef int append_copy(Run run, source, target) except -1:
    """Append a copy of elements, of the same dtype and shape."""
    return append_loop(run, _copy_elements, <void*><npy_intp>target.dtype.itemsize, [source], [target], MOVE)


cdef int append_scan(Run run, Loop loop, void* data, source, target) except -1:
    """Append the results of an inner loop along the last axis, each on the last result and the next element."""
    cdef list arrays = [target[..., :-1], source[..., 1:], target[..., 1:]]
    append_copy(run, source[..., :1], target[..., :1])
    if not arrays[0].size:
        return 0
    return _append_walk(run, loop, data, [source], [target], arrays, target.size * FUNCTION, True)


cdef int append_gather(Run run, source, places, target) except -1:
    """Append a copy of the elements at places of an array in order, counted from 1; 0 stands for zero."""
    cdef Gather* gather = <Gather*>run.arena.take(1, sizeof(Gather))
    cdef cnp.ndarray own = np.asarray(places, np.int64)
    gather.source, gather.target = data_in(source), data_in(target)
    gather.places, gather.count, gather.size = <const int64_t*>data_in(own), target.size, target.dtype.itemsize
    run.kept.append(own)
    if gather.count:
        append_work(run, _gather, gather, [source], [target], gather.count * MOVE)
    return 0


cdef int append_work(
        Run run, void (*compute)(const void*, int, int) noexcept nogil, void* state, list inputs, list outputs,
        double cost) except -1:
    """Append a call of a function of its state; the first argument points to the state."""
    cdef Work work
    cdef Step* step = add_step(run, WORK)
    cdef uint64_t* arguments = <uint64_t*>run.arena.take(1, sizeof(work.arguments))
    arguments[0] = <uint64_t>state
    step.compute, step.arguments = compute, arguments
    run.kept += inputs + outputs
    for array in (*inputs, *outputs):
        hide(run, <ArrayObject*><PyObject*>array)
    return count_cost(run, cost)


cdef int count_cost(Run run, double cost) noexcept:
    """Add the expected nanoseconds of a step."""
    run.cost += cost
    run.is_long = run.is_long or cost >= LONG_STEP
    return 0


# ---- walks


cdef int set_dimensions(Walk* walk, list arrays, bint keeps_last=False) except -1:
    """Set the arrays, dimensions and strides; dimensions along which all arrays go on in the same way are merged.

    With `keeps_last` the last dimension stays by itself: each call of the loop is for its elements.
    """
    cdef int last = arrays[0].ndim - 1
    cdef int d, k
    if len(arrays) > MOST_ARRAYS or last >= MOST_DIMS:
        raise Untraceable
    walk.arrays, walk.rank = len(arrays), 0
    for k in range(walk.arrays):
        walk.pointers[k] = data_in(arrays[k])
    for d in range(last + 1):
        is_kept = keeps_last and d == last
        if arrays[0].shape[d] != 1 or is_kept:
            _add_dimension(walk, arrays, d, not is_kept)
    if walk.rank == 0:
        walk.rank, walk.dims[0] = 1, 1
    return 0


cdef int _add_dimension(Walk* walk, list arrays, int d, bint may_join) except -1:
    """Add a dimension, or merge it with the last if all arrays go on there."""
    cdef npy_intp dim = arrays[0].shape[d]
    cdef int k
    if walk.rank and may_join and all([
            walk.strides[k][walk.rank - 1] == arrays[k].strides[d] * dim for k in range(walk.arrays)]):
        walk.rank -= 1
        dim *= walk.dims[walk.rank]
    walk.dims[walk.rank] = dim
    for k in range(walk.arrays):
        walk.strides[k][walk.rank] = arrays[k].strides[d]
    walk.rank += 1
    return 0


cdef bint advance(Walk* walk, npy_intp* place, int rank) noexcept nogil:
    """Move the pointers to the next place in the first dimensions; return False after the last place."""
    cdef int d = rank - 1
    cdef int i
    while d >= 0:
        place[d] += 1
        for i in range(walk.arrays):
            walk.pointers[i] += walk.strides[i][d]
        if place[d] < walk.dims[d]:
            return True
        for i in range(walk.arrays):
            walk.pointers[i] -= walk.strides[i][d] * walk.dims[d]
        place[d] = 0
        d -= 1
    return False


cdef void _walk(const void* arguments, int part, int parts) noexcept nogil:
    """Run an inner loop along the last dimension, for every place in the others."""
    cdef Walk walk = (<const Walk*>(<const uint64_t*>arguments)[0])[0]
    cdef npy_intp place[MOST_DIMS]
    cdef npy_intp inner[MOST_ARRAYS]
    cdef char* pointers[MOST_ARRAYS]
    cdef int last = walk.rank - 1
    cdef int i
    memset(place, 0, sizeof(place))
    for i in range(walk.arrays):
        inner[i] = walk.strides[i][last]
    while True:
        for i in range(walk.arrays):
            pointers[i] = walk.pointers[i]
        walk.loop(pointers, &walk.dims[last], inner, walk.data)
        if not advance(&walk, place, last):
            break


cdef void _copy_elements(char** pointers, const npy_intp* count, const npy_intp* strides, void* data) noexcept nogil:
    """Copy elements of `data` bytes: an inner loop of a single operand."""
    cdef npy_intp size = <npy_intp>data
    cdef const char* source = pointers[0]
    cdef char* target = pointers[1]
    cdef npy_intp i
    if strides[0] == size and strides[1] == size:
        memcpy(target, source, count[0] * size)
    elif size == 8:
        for i in range(count[0]):
            (<uint64_t*>(target + i * strides[1]))[0] = (<const uint64_t*>(source + i * strides[0]))[0]
    elif size == 4:
        for i in range(count[0]):
            (<unsigned int*>(target + i * strides[1]))[0] = (<const unsigned int*>(source + i * strides[0]))[0]
    else:
        for i in range(count[0]):
            memcpy(target + i * strides[1], source + i * strides[0], size)


cdef void _gather(const void* arguments, int part, int parts) noexcept nogil:
    """Copy the elements at places of an array, or zeros."""
    cdef const Gather* gather = <const Gather*>(<const uint64_t*>arguments)[0]
    cdef npy_intp i
    cdef npy_intp size = gather.size
    for i in range(gather.count):
        if gather.places[i] == 0:
            memset(gather.target + i * size, 0, size)
        elif size == 8:
            (<uint64_t*>gather.target)[i] = (<const uint64_t*>gather.source)[gather.places[i] - 1]
        elif size == 4:
            (<unsigned int*>gather.target)[i] = (<const unsigned int*>gather.source)[gather.places[i] - 1]
        else:
            memcpy(gather.target + i * size, gather.source + (gather.places[i] - 1) * size, size)
