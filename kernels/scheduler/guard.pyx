"""A look at what kernels give, before it goes on."""

from libc.stdint cimport uint32_t

from tagflow.kernels.scheduler.convert cimport box
from tagflow.kernels.scheduler.delivery cimport Machine
from tagflow.kernels.scheduler.table cimport KERNEL, Node, is_floating, output_type
from tagflow.kernels.scheduler.values cimport drop


cdef int guard_outputs(Machine* m, const Node* node, object guard) except -1:
    """Call ``guard(array)`` for each floating output of a kernel; if it raises, all outputs are dropped."""
    cdef uint32_t o
    try:
        for o in range(node.num_outputs if node.kind == KERNEL else 0):
            if is_floating(output_type(m.table, node, o)):
                guard(box(m.outputs[o], output_type(m.table, node, o)))
    except BaseException:
        for o in range(node.num_outputs):
            drop(m.live, &m.outputs[o])
        raise
    return 0
