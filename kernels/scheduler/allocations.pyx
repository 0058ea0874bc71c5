"""Holders of a device's memory: instances, loops and resources with their bytes, for errors and statistics."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t

import numpy as np

from tagloom.base.resources import Resource
from tagloom.kernels.core.table import Kind

from tagloom.kernels.core.frames cimport Frame, Iteration
from tagloom.kernels.core.values cimport OBJECT, Value
from tagloom.kernels.memory.pool cimport Pool
from tagloom.kernels.memory.swappable cimport SwappableArray
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.rendezvous cimport Endpoint, RendezvousTable, next_end
from tagloom.kernels.scheduler.report cimport frame_path_of
from tagloom.kernels.scheduler.series cimport Series


cdef list allocations_of(Machine* m, CompiledPlan compiled, Pool pool, object step):
    """Return (bytes, label, tag or None, user's line or None) for each holder of memory; each array counts once."""
    found = _resources_in(pool, getattr(step, "resources", ()))
    for node in compiled.plan.nodes:
        if node.kind == Kind.CONST:
            _add(found, node.value, node.name, None, node.source)
        elif node.kind == Kind.FEED and m.feeds[<uint32_t>node.index].form == OBJECT:
            fed = <object><PyObject*>m.feeds[<uint32_t>node.index].bits
            if id(_owner(fed)) not in pool.external and not pool.counts(fed):
                continue  # it stays in the host's memory
            _add(found, fed, f"the value fed for {node.name}", None, node.source)
    if m.root != NULL:
        producers = _producers(compiled.plan)
        _add_frame(found, m, m.root, compiled, producers)
        if m.rendezvous != NULL:
            _add_sent(found, m, <RendezvousTable*>m.rendezvous, compiled, producers)
    allocations = list(found.values())
    rest = pool.store.live - sum([size for size, _, _, _ in allocations])
    if rest > 0:
        allocations.append((rest, "all else, as other steps", None, None))
    return allocations + shared_allocations(pool)


cpdef list shared_allocations(Pool pool):
    """Return (bytes, label, None, None) for the memory of other pools with the same limit, if there is any."""
    cdef int64_t size = pool.store.budget.live - pool.store.live
    return [(size, "what shares the memory budget: other sessions, or devices", None, None)] if size > 0 else []


def resource_allocations(resources, Pool pool):
    """Return (bytes, label, None, None) for each resource with memory counted by a pool; each array counts once."""
    return list(_resources_in(pool, resources).values())


class Found(dict):
    """Holders of memory: (bytes, label, tag, line) by the id of an array, series or resource.

    Attributes
    ----------
    byte_counter : ByteCounter or None
        Counter of the device's memory, if the arrays of the plan may be in other memory too.
    counted : set of int
        Ids of resources already added, and of arrays whose bytes are included in a resource or series.
    """


cdef object _resources_in(Pool pool, object resources):
    """Return a Found with the resources outliving the step.

    Resources come first: an array held by a variable and by an edge is counted as the variable's.
    """
    found = Found()
    found.byte_counter = None if pool.is_allocator else pool
    found.counted = set()
    for resource in resources:
        _add_resource(found, resource, pool, resource.label, None)
    return found


cdef int _add_resource(object found, object resource, Pool pool, str label, object source) except -1:
    """Add all arrays of a resource as a single holder; with a pool only the arrays counted by the pool."""
    cdef int64_t size = 0
    found.counted.add(id(resource))
    for array in resource.arrays():
        owner = _owner(array)
        if id(owner) in found or id(owner) in found.counted or not _is_in_memory(found, owner):
            continue
        if pool is None or pool.counts(owner):
            found.counted.add(id(owner))
            size += owner.nbytes
    if size:
        found[id(resource)] = size, label, None, source
    return 0


cdef dict _producers(plan):
    """Return the number of the node producing each input, by (number of the node, number of the input)."""
    return {
        edge: i for i, outputs in enumerate(plan.data_edges) for edges in outputs for edge in edges
    }


cdef int _add_frame(object found, Machine* m, Frame* frame, CompiledPlan compiled, dict producers) except -1:
    """Add the values of a frame, of its iterations and of the frames inside them."""
    cdef Iteration* it = frame.oldest
    cdef uint32_t i
    for i in range(frame.type.num_series):
        if frame.series[i] != NULL:
            _add_series(found, <Series><PyObject*>frame.series[i], m, frame, compiled, i)
    for i in range(frame.num_deferred):
        _add_value(found, frame.deferred[i].value, compiled, frame.deferred[i].node, frame, frame.started)
    for i in range(frame.num_arrived):
        _add_value(found, frame.invariants[i].value, compiled, frame.invariants[i].node, frame, 0)
    while it != NULL:
        _add_iteration(found, m, it, compiled, producers)
        for i in range(frame.type.num_children):
            if it.children[i] != NULL:
                _add_frame(found, m, it.children[i], compiled, producers)
        it = it.next
    return 0


cdef int _add_iteration(object found, Machine* m, Iteration* it, CompiledPlan compiled, dict producers) except -1:
    """Add the inputs present at the instances of an iteration."""
    cdef uint32_t i, k
    for i in range(m.table.num_nodes):
        if &m.table.frames[m.table.nodes[i].frame] != it.frame.type:
            continue
        for k in range(m.table.nodes[i].num_inputs):
            producer = producers.get((i, k), i)
            _add_value(found, it.slots[m.table.nodes[i].slot + k], compiled, producer, it.frame, it.number)
    return 0


cdef int _add_sent(
        object found, Machine* m, const RendezvousTable* rendezvous, CompiledPlan compiled, dict producers) except -1:
    """Add the values sent by a machine and not taken by a Recv."""
    cdef Endpoint* end = next_end(rendezvous, NULL)
    while end != NULL:
        if end.machine == m:
            producer = producers.get((end.node, 0), end.node)
            _add_value(found, end.value, compiled, producer, end.iteration.frame, end.iteration.number)
        end = next_end(rendezvous, end)
    return 0


cdef int _add_value(
        object found, Value value, CompiledPlan compiled, uint32_t producer, Frame* frame, int64_t number) except -1:
    """Add a value on an edge under the name and tag of its producer."""
    if value.form != OBJECT:
        return 0
    node = compiled.plan.nodes[producer]
    tag = f"{node.name}@{frame_path_of(frame, compiled)}/{number}"
    held = <object><PyObject*>value.bits
    if isinstance(held, Series):
        return _add_all_of_series(found, <Series>held, f"values saved for {node.name}", None, node.source)
    if isinstance(held, Resource):  # of this step alone, unless added before
        return 0 if id(held) in found.counted else _add_resource(found, held, None, held.label, node.source)
    return _add(found, held, node.name, tag, node.source)


cdef int _add_series(
        object found, Series series, Machine* m, Frame* frame, CompiledPlan compiled, uint32_t rank) except -1:
    """Add the values saved by a loop so far, under the name of the node pushing them."""
    index = frame.type - m.table.frames
    for node in compiled.plan.nodes:
        if node.kind == Kind.SERIES_PUSH and node.frame == index and node.index == rank:
            return _add_all_of_series(found, series, f"values saved by {node.name}", None, node.source)
    return 0


cdef int _add_all_of_series(object found, Series series, str operation, object tag, object source) except -1:
    """Add all arrays of a series as a single holder, except arrays already counted."""
    cdef int64_t i, size = 0
    if series.parent is not None:
        return _add_all_of_series(found, series.parent, operation, tag, source)
    arrays = [array for array in series.arrays if array is not None]
    arrays += [<object><PyObject*>series.slots[i].bits for i in range(series.capacity) if series.slots[i].form == OBJECT]
    for owner in map(_owner, arrays):
        if not (id(owner) in found or id(owner) in found.counted) and _is_in_memory(found, owner):
            found.counted.add(id(owner))
            size += owner.nbytes
    if size:
        found[id(series)] = size, operation, tag, source
    return 0


cdef int _add(object found, object held, str operation, object tag, object source) except -1:
    """Add an array, or the base array of a view, unless already counted. Scalars of 8 bytes do not count."""
    owner = _owner(held)
    if id(owner) not in found.counted and _is_in_memory(found, owner) and owner.nbytes > 8:
        found.setdefault(id(owner), (owner.nbytes, operation, tag, source))
    return 0


cdef bint _is_in_memory(object found, object owner) except -1:
    """Return True for an array in the device's memory, and for a SwappableArray, whose array may be there."""
    if found.byte_counter is None or isinstance(owner, SwappableArray):
        return isinstance(owner, np.ndarray | SwappableArray)
    return found.byte_counter.counts(owner)


cdef object _owner(object array):
    """Return the owner of the memory of a view, of a SwappableArray, or of an array itself."""
    if isinstance(array, SwappableArray) and array.array is not None:
        array = array.array
    while (base := getattr(array, "base", None)) is not None and isinstance(base, type(array)):
        array = base
    return array
