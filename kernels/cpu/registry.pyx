"""Registry of the operations with a C kernel, or with an inner loop of our own, by type.

An operation's definition block defines its meaning by a Python kernel; a C kernel computes the same where its inputs
are plain arrays, as almost all are, and declines where they are not. The file of a kernel registers, at its end, the
function to find the kernel for an operation's dtypes and attributes; importing this package imports those files.
"""

from libc.stdint cimport int64_t

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Loop, Native


cdef class _Entry:
    cdef FindNative find
    cdef FindLoop find_loop
    cdef tuple reads


cdef dict _natives = {}
cdef dict _loops = {}


def registered_types():
    """Return the types of all operations with a C kernel or a loop of our own for some of their dtypes."""
    return frozenset(_natives) | frozenset(_loops)


def values_read(str type):
    """Return the inputs read by a C kernel before its work is left; None if they depend on more than the type."""
    cdef _Entry entry = _natives.get(type)
    return entry.reads if entry is not None else () if type in _loops else None


cdef int register(str type, FindNative find, tuple reads=None) except -1:
    """Register `find` for the C kernels of operations of a type; `values_read` returns `reads` for them.

    Where ``Table.at_once`` is 0 and no input is unboxed except inputs of `reads`, a kernel with these inputs known
    leaves all computation on elements as work, which may then be done any number of times; the only results not left
    are results that lie in its inputs, or depend on shapes alone.
    """
    cdef _Entry entry = _Entry()
    entry.find, entry.reads = find, reads
    return _add(_natives, type, entry)


cdef int register_loop(str type, FindLoop find) except -1:
    """Register `find` for the inner loops of operations of a type."""
    cdef _Entry entry = _Entry()
    entry.find_loop = find
    return _add(_loops, type, entry)


cdef int _add(dict table, str type, _Entry entry) except -1:
    if type in table:
        raise ValueError(f"two files register a kernel of {type}")
    table[type] = entry
    return 0


cdef Native find_native(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the C kernel of an operation, or NULL; write its settings from the attributes to `params`.

    Objects needed by the kernel for its lifetime are appended to `kept`.
    """
    cdef _Entry entry = _natives.get(type)
    if entry is None:
        return NULL
    return entry.find(type, attrs, inputs, outputs, params, kept)


cdef Loop find_own_loop(str type, list inputs, list outputs, void** data, Arena arena) except *:
    """Return the inner loop of an operation for these dtypes, NULL if there is none, and store its data.

    The loop may use its data as long as the arena lives.
    """
    cdef _Entry entry = _loops.get(type)
    if entry is None:
        return NULL
    return entry.find_loop(type, inputs, outputs, data, arena)
