"""Between Python objects and values."""

cimport cython
from libc.stdint cimport int64_t

from tagloom.kernels.core.table cimport Type
from tagloom.kernels.core.values cimport Counters, Value

cdef object box(Value value, const Type* type)
cdef int accept(Counters* live, object result, const Type* type, Value* place) except -1


@cython.overflowcheck(False)
cdef inline int64_t as_integer(Value value, const Type* type) noexcept nogil:
    """Return an unboxed integer element; unsigned 64-bit ones beyond the signed range come out negative."""
    cdef int shift = 64 - 8 * type.size
    if type.is_signed:
        return <int64_t>(value.bits << shift) >> shift
    return <int64_t>value.bits
