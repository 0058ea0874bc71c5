"""Programs that are not run, because they do not fit the arrays of a step or give up."""

import logging

from tagloom.kernels.core.table cimport Node
from tagloom.kernels.native.compiled cimport CompiledProgram

cdef enum:
    MOST_MISSES = 6  # that count

_logger = logging.getLogger("tagloom")


cdef int give_up(CompiledProgram program, const Node* node, str reason) except -1:
    """Leave a run to the step machine, and so the next ones, the more of them the more often this happens."""
    _logger.debug("%s runs on the step machine: %s", <object>node.name, reason)
    program.reason = reason
    program.misses = min(program.misses + 1, MOST_MISSES)
    program.skips = (1 << program.misses) - 2
    return 0
