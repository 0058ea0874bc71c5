"""The operations SERIES_PUSH, SERIES_EXIT and SERIES_READ: a loop saves a value for each iteration, another reads them.

See docs/design/0002-saved-values.md.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from tagloom.kernels.core.convert cimport accept, as_integer, box
from tagloom.kernels.core.frames cimport Frame, Iteration
from tagloom.kernels.core.table cimport (
    LAST, HOST_BACKED, SERIES_PUSH, SERIES_READ, SWAPPABLE, Node, input_type, output_type,
)
from tagloom.kernels.core.values cimport EMPTY, OBJECT, Py_INCREF, Value, hold, object_value, scalar, take
from tagloom.kernels.memory.swappable cimport SwappableArray
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.series cimport Series


cdef object run_series(Machine* m, Iteration* it, const Node* node, object swap):
    """Run a live SERIES_PUSH, SERIES_EXIT or SERIES_READ; the output is left in `outputs`.

    Returns
    -------
    awaitable or None
        Awaitable for the output of a read whose value is not in the device's memory.
    """
    if node.kind == SERIES_READ:
        return _read(m, it, node, swap)
    if node.kind == SERIES_PUSH:
        _push(m, it, node, swap)
    else:
        _give(m, it, node)
    return None


cdef int _push(Machine* m, Iteration* it, const Node* node, object swap) except -1:
    """Save the value in slot `index`, or in the slot of the iteration; the output is a zero that carries order."""
    cdef Value value = it.slots[node.slot]
    cdef int64_t index = it.number
    if node.num_inputs == 2:
        index = _index(m, it, node)
    series = _series_of(it.frame, node.index)
    series.store(index, value, input_type(m.table, node, 0))
    if node.flags & (SWAPPABLE | HOST_BACKED) and swap is not None and value.form == OBJECT:
        series.swaps = True
        save = swap.save if node.flags & SWAPPABLE else swap.save_host_backed
        save(<object><PyObject*>value.bits, series, index)
    m.outputs[0] = scalar(0)
    return 0


cdef int _give(Machine* m, Iteration* it, const Node* node) except -1:
    """Pass on the series left by the finished frame; an empty series if nothing was ever saved."""
    if it.slots[node.slot].form != EMPTY:
        m.outputs[0] = take(&it.slots[node.slot])
    else:
        series = Series()
        hold(m.live, m.outputs, object_value(<PyObject*>series))
    return 0


cdef object _read(Machine* m, Iteration* it, const Node* node, object swap):
    """Forward the value of a slot; leave the output empty, so dead, if the slot was never written.

    Returns
    -------
    awaitable or None
        Awaitable for a value outside the device's memory.
    """
    cdef Value source = it.slots[node.slot]
    cdef Series series
    cdef int64_t index
    if source.form != OBJECT or not isinstance(<object><PyObject*>source.bits, Series):
        raise TypeError("the first input of a read must be a series")
    series = <Series><PyObject*>source.bits
    index = _index(m, it, node)
    saved = box(series.peek(index), &series.type)
    coming = None
    if isinstance(saved, SwappableArray):
        saved, coming = swap.read(series, index, node.flags & LAST != 0)
    elif series.swaps and series.peek(index).form == OBJECT:
        swap.note_read(saved, series, index)
    if node.flags & LAST:
        series.release(index)
    if saved is not None:
        accept(m.live, saved, output_type(m.table, node, 0), m.outputs)
    return coming


cdef Series _series_of(Frame* frame, int rank):
    """Return a series of a frame instance, made at the first push."""
    if frame.series[rank] == NULL:
        series = Series()
        frame.series[rank] = <PyObject*>series
        Py_INCREF(frame.series[rank])  # released by close_frame
    return <Series><PyObject*>frame.series[rank]


cdef int64_t _index(Machine* m, Iteration* it, const Node* node) except? -1:
    """Return the slot number, the second input of a node."""
    cdef Value value = it.slots[node.slot + 1]
    if value.form == OBJECT:
        raise TypeError("the index of a series must be a scalar")
    return as_integer(value, input_type(m.table, node, 1))
