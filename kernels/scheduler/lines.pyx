"""Lines of an operation's instances waiting for the same resource in order.

All iterations of a loop taking from a queue come to its line at once, where all except the first can only wait; yet
each costs a future, a task and three turns of the event loop. So once an instance waits for a resource served in order
(``in_order`` of its awaitable), later instances of its operation stay in the machine until the wait is over, and come
to the queue one after another: elements available by then they take at once. Only instances of other operations may
come between.
"""

from collections import deque

from libc.stdint cimport uint64_t

from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.core.values cimport OBJECT, Value
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.ready cimport Ready, push


cdef class _Behind:
    cdef Ready ready


cdef class OperationLine:
    pass


cdef inline uint64_t _resource_of(Machine* m, Ready ready) noexcept:
    """Return the first input, if it is an object."""
    cdef Value* inputs = &ready.iteration.slots[m.table.nodes[ready.node].slot]
    if m.table.nodes[ready.node].num_inputs == 0 or inputs[0].form != OBJECT:
        return 0
    return <uint64_t>inputs[0].bits


cdef dict open_line(dict lines, Machine* m, Ready ready):
    """Open a line for later instances of an operation after a waiting instance; return the lines, by node."""
    cdef OperationLine line = OperationLine()
    lines = {} if lines is None else lines
    if ready.node not in lines:
        line.front, line.resource, line.behind = ready.iteration, _resource_of(m, ready), deque()
        lines[ready.node] = line
    return lines


cdef bint stands_behind(dict lines, Machine* m, Ready ready) except -1:
    """Add an instance to the line of its operation if both wait for the same resource; return False if not added."""
    cdef OperationLine line = lines.get(ready.node)
    cdef _Behind one
    if line is None or line.front == ready.iteration or line.resource != _resource_of(m, ready):
        return False
    one = _Behind()
    one.ready = ready
    line.behind.append(one)
    return True


cdef dict let_next_go_on(dict lines, Machine* m, Ready ready):
    """Make ready the next instance in a line after a finished one; return the lines left, or None."""
    cdef OperationLine line = lines.get(ready.node)
    cdef _Behind following
    if line is None or line.front != ready.iteration:
        return lines
    if line.behind:
        following = line.behind.popleft()
        line.front = following.ready.iteration
        if not push(&m.queue, following.ready, True):
            raise MemoryError
        return lines
    del lines[ready.node]
    return lines or None


cdef list all_behind(dict lines):
    """Return node and iteration of all instances in the lines, except the first of each."""
    found = []
    for line in () if lines is None else lines.values():
        for one in (<OperationLine>line).behind:
            found.append(((<_Behind>one).ready.node, <uint64_t>(<_Behind>one).ready.iteration))
    return found
