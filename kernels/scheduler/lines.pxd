"""Lines of an operation's instances that wait for the same resource in order."""

from libc.stdint cimport uint64_t

from tagloom.kernels.core.frames cimport Iteration
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.ready cimport Ready


cdef class OperationLine:
    cdef Iteration* front  # of the instance under way; alive, since the instance is not over
    cdef uint64_t resource  # for which it waits: the first input
    cdef object behind  # a deque of _Behind: instances that have all their inputs, the first first

cdef dict open_line(dict lines, Machine* m, Ready ready)
cdef bint stands_behind(dict lines, Machine* m, Ready ready) except -1
cdef dict let_next_go_on(dict lines, Machine* m, Ready ready)
cdef list all_behind(dict lines)
