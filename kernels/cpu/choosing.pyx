"""Choice of the code for the instances of an operation: a C kernel, an inner loop, or neither."""

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Node
from tagloom.kernels.cpu.registry cimport find_native, find_own_loop
from tagloom.kernels.cpu.ufuncs cimport describe_loop, find_loop


cdef int choose_kernel(
        Node* node, object source, list inputs, list outputs, object switches, list kept, Arena arena) except -1:
    """Point a node at the C kernel or inner loop of its operation for the dtypes, where available and allowed.

    `source` is the operation: its ``type``, ``attrs``, ``ufunc`` and ``stateful``. Objects and memory needed by the
    node for its lifetime go to `kept` and to the arena.
    """
    is_ufunc = source.ufunc and not source.stateful
    if switches.native and not is_ufunc:
        node.native = find_native(source.type, source.attrs, inputs, outputs, node.params, kept)
    if switches.loops and is_ufunc:
        find_loop(node, source.ufunc, inputs, outputs)
    elif switches.loops:
        node.loop = find_own_loop(source.type, inputs, outputs, &node.loop_data, arena)
    if node.loop != NULL:
        describe_loop(node, source.ufunc or source.type, inputs)
    return 0
