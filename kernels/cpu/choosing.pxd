"""Choice of the code for the instances of an operation: a C kernel, an inner loop, or neither."""

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Node

cdef int choose_kernel(
        Node* node, object source, list inputs, list outputs, object switches, list kept, Arena arena) except -1
