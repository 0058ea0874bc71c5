"""Kernels to put elements into queues of a fixed element size, and to take elements out.

The kernels handle the common case: there is room, or an element, and no other attempt waits. All other cases
(waiting, waking, closing, errors) are left to ``queue_base`` and ``tagloom.ops.queues``.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from tagloom.kernels.core.table cimport Native, Node, Table, Work, output_type
from tagloom.kernels.core.values cimport OBJECT, Counters, Value
from tagloom.kernels.cpu.arrays cimport MOST_DIMS, Operand, new_result, open_plain
from tagloom.kernels.queues.queue_base cimport QueueBase
from tagloom.kernels.queues.queue_rings cimport Ring
from tagloom.kernels.cpu.registry cimport register

cdef enum:
    MOST_COMPONENTS = 8  # of elements of which kernels put batches in
    MOST_BYTES = 1 << 18  # of a batch that kernels copy


cdef inline QueueBase _queue_in(Value* inputs):
    """Return the queue, or None if its elements are in no ring."""
    if inputs[0].form != OBJECT:
        return None
    queue = <object><PyObject*>inputs[0].bits
    if not isinstance(queue, QueueBase) or (<QueueBase>queue).ring is None:
        return None
    return <QueueBase>queue


cdef int _put(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Put an element in if there is room."""
    cdef QueueBase queue = _queue_in(inputs)
    cdef Ring ring
    cdef Operand value
    cdef int k
    if queue is None or not queue.may_put:
        return 0
    ring = queue.ring
    if ring.length >= ring.places or 0 <= ring.capacity <= ring.length or ring.count != <int>node.num_inputs - 1:
        return 0
    for k in range(ring.count):
        if not open_plain(&inputs[k + 1], &value) or not ring.fits(k, &value, 0):
            return 0
        memcpy(ring.at(k, ring.length), value.data, ring.sizes[k])
    ring.length += 1
    queue.enqueued += 1
    if queue.takers_wait:
        queue.serve()
    return 1


cdef int _put_rows(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Put the rows of a batch in if there is room for all."""
    cdef QueueBase queue = _queue_in(inputs)
    cdef Operand values[MOST_COMPONENTS]
    cdef Py_ssize_t count = 0
    cdef size_t size = 0
    cdef Ring ring
    cdef int k
    if queue is None or not queue.may_put:
        return 0
    ring = queue.ring
    if not 0 < ring.count <= MOST_COMPONENTS or ring.count != <int>node.num_inputs - 1:
        return 0
    for k in range(ring.count):
        if not open_plain(&inputs[k + 1], &values[k]) or not ring.fits(k, &values[k], 1):
            return 0
        if k == 0:
            count = values[0].dims[0]
        elif count != values[k].dims[0]:
            return 0
        size += count * ring.sizes[k]
    if count == 0 or size > MOST_BYTES or 0 <= ring.capacity < ring.length + count:
        return 0
    if ring.length + count > ring.places:
        ring.grow(ring.length + count)
    for k in range(ring.count):
        ring.copy(k, ring.length, values[k].data, count, True)
    ring.length += count
    queue.enqueued += count
    if queue.takers_wait:
        queue.serve()
    return 1


cdef int _take(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Take an element out, if the queue is not empty."""
    cdef QueueBase queue = _queue_in(inputs)
    if queue is None or not queue.may_take or queue.ring.length == 0 or queue.ring.count != <int>node.num_outputs:
        return 0
    _hand_out(table, node, queue.ring, 1, 0, live, outputs)
    queue.dequeued += 1
    if queue.putters_wait:
        queue.serve()
    return 1


cdef int _take_rows(
        const Table* table, const Node* node, Value* inputs, Counters* live, Value* outputs, Work* work) except -1:
    """Take a batch out if there are as many elements."""
    cdef QueueBase queue = _queue_in(inputs)
    cdef Operand wanted
    cdef size_t size = 0
    cdef Py_ssize_t count
    cdef int k
    if queue is None or not queue.may_take or queue.ring.count != <int>node.num_outputs:
        return 0
    if not open_plain(&inputs[1], &wanted) or wanted.size != 1:
        return 0
    count = (<int32_t*>wanted.data)[0]
    for k in range(queue.ring.count):
        size += count * queue.ring.sizes[k]
        if len(<tuple>queue.ring.shapes[k]) >= MOST_DIMS:
            return 0
    if not 0 < count <= queue.ring.length or size > MOST_BYTES:
        return 0
    _hand_out(table, node, queue.ring, count, 1, live, outputs)
    queue.dequeued += count
    if queue.putters_wait:
        queue.serve()
    return 1


cdef int _hand_out(
        const Table* table, const Node* node, Ring ring, Py_ssize_t count, int batched, Counters* live,
        Value* outputs) except -1:
    """Take the next elements out as outputs; `batched` is 1 where the outputs have a dimension for them."""
    cdef cnp.npy_intp dims[MOST_DIMS]
    cdef tuple shape
    cdef char* made
    cdef int k, d
    dims[0] = count
    for k in range(ring.count):
        shape = <tuple>ring.shapes[k]
        for d in range(<int>len(shape)):
            dims[batched + d] = shape[d]
        made = new_result(live, output_type(table, node, k), batched + <int>len(shape), dims, &outputs[k])
        ring.copy(k, 0, made, count, False)
    ring.drop(count)
    return 0


cdef Native _find_put(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Enqueue or EnqueueMany."""
    return _put if type == "Enqueue" else _put_rows


cdef Native _find_take(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the kernel of Dequeue or DequeueMany, unless takes must be noted for their return by a cancelled
    step.
    """
    if attrs["only_fetched"]:
        return NULL
    return _take if type == "Dequeue" else _take_rows


register("Enqueue", _find_put)
register("EnqueueMany", _find_put)
register("Dequeue", _find_take)
register("DequeueMany", _find_take)
