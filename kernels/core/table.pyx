"""Kinds of nodes, for Python too: ``Kind`` is the enum of ``table.pxd``. The tables themselves are C structs there."""

from cpython.object cimport PyObject

Kind.__doc__ = "The action of an executor for a node; it performs all kinds itself except KERNEL."


cdef int describe_type(Type* type, object dtype) except -1:
    """Describe the elements of a dtype, which must outlive the description, as values of edges."""
    type.number = -1
    if dtype is None:
        return 0
    type.descr = <PyObject*>dtype
    type.number = dtype.num
    type.itemsize = dtype.itemsize
    type.is_signed = dtype.kind == "i"
    plain = dtype.names is None and dtype.subdtype is None and not dtype.hasobject and dtype.kind not in "OSUTMm"
    type.size = dtype.itemsize if plain and dtype.itemsize <= 8 else 0
    return 0
