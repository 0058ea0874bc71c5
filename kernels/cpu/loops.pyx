"""Inner loops of our own, in the form of NumPy's, for elementwise operations beyond a single ufunc.

The machine runs them in the same way as NumPy's: over scalars, contiguous arrays, broadcasts and strides.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

import numpy as np

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.cpu.arrays cimport are_copyable
from tagloom.kernels.cpu.registry cimport register_loop
from tagloom.kernels.cpu.ufuncs cimport find_native_loop

cdef extern from "Python.h" nogil:
    PyObject* PyExc_ZeroDivisionError
    void PyErr_SetString(PyObject*, const char*)

cnp.import_array()


cdef struct Wrapped:  # the last argument of a loop of ours that runs one of NumPy's
    Loop loop
    void* data
    uint64_t zero  # the element 0 of any type
    int itemsize


cdef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef fused source:
    cnp.npy_bool
    int32_t
    int64_t
    float
    double

cdef fused target:
    int32_t
    int64_t
    float
    double

cdef fused real:
    float
    double
    int32_t
    int64_t


cdef inline void _choose(char** p, cnp.npy_intp count, const cnp.npy_intp* s, word* z) noexcept nogil:
    """Take from the second operand where the first is true, else from the third."""
    cdef const uint8_t* mask = <const uint8_t*>p[0]
    cdef const word* x = <const word*>p[1]
    cdef const word* y = <const word*>p[2]
    cdef word other
    cdef cnp.npy_intp i
    z = <word*>p[3]
    cdef word chosen  # all bits, or none: so that vectors do it, and nothing is predicted
    if s[0] == 1 and s[1] == sizeof(word) and s[2] == sizeof(word) and s[3] == sizeof(word):
        for i in range(count):
            chosen = <word>-<word>(mask[i] != 0)
            z[i] = x[i] & chosen | y[i] & ~chosen
    elif s[0] == 1 and s[1] == sizeof(word) and s[2] == 0 and s[3] == sizeof(word):
        other = y[0]
        for i in range(count):
            chosen = <word>-<word>(mask[i] != 0)
            z[i] = x[i] & chosen | other & ~chosen
    else:
        for i in range(count):
            (<word*>(p[3] + i * s[3]))[0] = (<const word*>(p[1] + i * s[1] if p[0][i * s[0]] else p[2] + i * s[2]))[0]


cdef void _choose_1(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _choose(p, n[0], s, <uint8_t*>NULL)


cdef void _choose_2(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _choose(p, n[0], s, <uint16_t*>NULL)


cdef void _choose_4(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _choose(p, n[0], s, <uint32_t*>NULL)


cdef void _choose_8(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _choose(p, n[0], s, <uint64_t*>NULL)


cdef Loop find_choice(int itemsize) except *:
    """Return the loop of `where` for elements of some bytes, or NULL."""
    if itemsize == 1:
        return _choose_1
    if itemsize == 2:
        return _choose_2
    if itemsize == 4:
        return _choose_4
    if itemsize == 8:
        return _choose_8
    return NULL


cdef inline void _cast(char** p, cnp.npy_intp count, const cnp.npy_intp* s, source* x, target* y) noexcept nogil:
    cdef cnp.npy_intp i
    if s[0] == sizeof(source) and s[1] == sizeof(target):
        x, y = <source*>p[0], <target*>p[1]
        for i in range(count):
            y[i] = <target>x[i]
    else:
        for i in range(count):
            (<target*>(p[1] + i * s[1]))[0] = <target>(<source*>(p[0] + i * s[0]))[0]


cdef inline void _cast_from(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, int number, source* x) noexcept nogil:
    if number == cnp.NPY_INT32:
        _cast(p, n[0], s, x, <int32_t*>NULL)
    elif number == cnp.NPY_INT64:
        _cast(p, n[0], s, x, <int64_t*>NULL)
    elif number == cnp.NPY_FLOAT32:
        _cast(p, n[0], s, x, <float*>NULL)
    else:
        _cast(p, n[0], s, x, <double*>NULL)


cdef void _cast_bool(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* number) noexcept nogil:
    _cast_from(p, n, s, <int><int64_t>number, <cnp.npy_bool*>NULL)


cdef void _cast_int32(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* number) noexcept nogil:
    _cast_from(p, n, s, <int><int64_t>number, <int32_t*>NULL)


cdef void _cast_int64(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* number) noexcept nogil:
    _cast_from(p, n, s, <int><int64_t>number, <int64_t*>NULL)


cdef void _cast_float(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* number) noexcept nogil:
    _cast_from(p, n, s, <int><int64_t>number, <float*>NULL)


cdef void _cast_double(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* number) noexcept nogil:
    _cast_from(p, n, s, <int><int64_t>number, <double*>NULL)


cdef Loop _cast_loop(int number):
    """Return the loop to cast elements of a type to another type, whose number is its last argument."""
    if number == cnp.NPY_BOOL:
        return _cast_bool
    if number == cnp.NPY_INT32:
        return _cast_int32
    if number == cnp.NPY_INT64:
        return _cast_int64
    if number == cnp.NPY_FLOAT32:
        return _cast_float
    if number == cnp.NPY_FLOAT64:
        return _cast_double
    return NULL


cdef inline bint _has_zero(const char* data, cnp.npy_intp stride, cnp.npy_intp count, word* _) noexcept nogil:
    cdef cnp.npy_intp i
    for i in range(count if stride else 1):
        if (<const word*>(data + i * stride))[0] == 0:
            return True
    return False


cdef inline bint _any_zero(const char* data, cnp.npy_intp stride, cnp.npy_intp count, int itemsize) noexcept nogil:
    if itemsize == 1:
        return _has_zero(data, stride, count, <uint8_t*>NULL)
    if itemsize == 2:
        return _has_zero(data, stride, count, <uint16_t*>NULL)
    if itemsize == 4:
        return _has_zero(data, stride, count, <uint32_t*>NULL)
    return _has_zero(data, stride, count, <uint64_t*>NULL)


cdef void _divide_integers(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* data) noexcept nogil:
    """Run a loop of divisions, unless a divisor is zero."""
    cdef const Wrapped* inner = <const Wrapped*>data
    if _any_zero(p[1], s[1], n[0], inner.itemsize):
        PyErr_SetString(PyExc_ZeroDivisionError, b"integer division by zero")
    else:
        inner.loop(p, n, s, inner.data)


cdef void _with_zero(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* data) noexcept nogil:
    """Run a loop of two operands, the second of which is zero."""
    cdef const Wrapped* inner = <const Wrapped*>data
    cdef char* pointers[3]
    cdef cnp.npy_intp strides[3]
    pointers[0], pointers[1], pointers[2] = p[0], <char*>&inner.zero, p[1]
    strides[0], strides[1], strides[2] = s[0], 0, s[1]
    inner.loop(pointers, n, strides, inner.data)


cdef inline void _square_differences(char** p, cnp.npy_intp count, const cnp.npy_intp* s, real* z) noexcept nogil:
    cdef real* x = <real*>p[0]
    cdef real* y = <real*>p[1]
    cdef real difference
    cdef cnp.npy_intp i
    z = <real*>p[2]
    if s[0] == sizeof(real) and s[1] == sizeof(real) and s[2] == sizeof(real):
        for i in range(count):
            z[i] = (x[i] - y[i]) * (x[i] - y[i])
    else:
        for i in range(count):
            difference = (<real*>(p[0] + i * s[0]))[0] - (<real*>(p[1] + i * s[1]))[0]
            (<real*>(p[2] + i * s[2]))[0] = difference * difference


cdef void _square_floats(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _square_differences(p, n[0], s, <float*>NULL)


cdef void _square_doubles(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _square_differences(p, n[0], s, <double*>NULL)


cdef Loop _square_loop(int number):
    if number == cnp.NPY_FLOAT32:
        return _square_floats
    if number == cnp.NPY_FLOAT64:
        return _square_doubles
    return NULL


cdef fused floating:
    float
    double


cdef inline void _multiply_no_nan(char** p, cnp.npy_intp count, const cnp.npy_intp* s, floating* z) noexcept nogil:
    """Multiply, with 0 where the second operand is 0."""
    cdef floating* x = <floating*>p[0]
    cdef floating* y = <floating*>p[1]
    cdef floating second
    cdef cnp.npy_intp i
    z = <floating*>p[2]
    if s[0] == sizeof(floating) and s[1] == sizeof(floating) and s[2] == sizeof(floating):
        for i in range(count):
            z[i] = x[i] * y[i] if y[i] != 0 else 0
    else:
        for i in range(count):
            second = (<floating*>(p[1] + i * s[1]))[0]
            (<floating*>(p[2] + i * s[2]))[0] = (<floating*>(p[0] + i * s[0]))[0] * second if second != 0 else 0


cdef inline void _divide_or_zero(char** p, cnp.npy_intp count, const cnp.npy_intp* s, floating* z) noexcept nogil:
    """Divide, with 0 where the first operand is 0."""
    cdef floating* x = <floating*>p[0]
    cdef floating* y = <floating*>p[1]
    cdef floating first
    cdef cnp.npy_intp i
    z = <floating*>p[2]
    if s[0] == sizeof(floating) and s[1] == sizeof(floating) and s[2] == sizeof(floating):
        for i in range(count):
            z[i] = x[i] / y[i] if x[i] != 0 else 0
    else:
        for i in range(count):
            first = (<floating*>(p[0] + i * s[0]))[0]
            (<floating*>(p[2] + i * s[2]))[0] = first / (<floating*>(p[1] + i * s[1]))[0] if first != 0 else 0


cdef void _multiply_no_nan_floats(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _multiply_no_nan(p, n[0], s, <float*>NULL)


cdef void _multiply_no_nan_doubles(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _multiply_no_nan(p, n[0], s, <double*>NULL)


cdef void _divide_or_zero_floats(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _divide_or_zero(p, n[0], s, <float*>NULL)


cdef void _divide_or_zero_doubles(char** p, const cnp.npy_intp* n, const cnp.npy_intp* s, void* _) noexcept nogil:
    _divide_or_zero(p, n[0], s, <double*>NULL)


cdef Loop _find_zero_product(str type, list inputs, list outputs, void** data, Arena arena) except *:
    """Return the loop of MulNoNan or DivOrZero, of float32 and float64."""
    if not are_copyable([*inputs, *outputs]):
        return NULL
    is_product = type == "MulNoNan"
    if outputs[0].num == cnp.NPY_FLOAT32:
        return _multiply_no_nan_floats if is_product else _divide_or_zero_floats
    if outputs[0].num == cnp.NPY_FLOAT64:
        return _multiply_no_nan_doubles if is_product else _divide_or_zero_doubles
    return NULL


cdef Loop _find_where(str type, list inputs, list outputs, void** data, Arena arena) except *:
    """Return the loop of Where."""
    return find_choice(outputs[0].itemsize) if are_copyable([*inputs, *outputs]) else NULL


cdef Loop _find_cast(str type, list inputs, list outputs, void** data, Arena arena) except *:
    """Return the loop of Cast, to the element types of most programs."""
    if not are_copyable([*inputs, *outputs]) or outputs[0] not in (np.int32, np.int64, np.float32, np.float64):
        return NULL
    data[0] = <void*><int64_t>outputs[0].num
    return _cast_loop(inputs[0].num)


cdef Loop _find_square(str type, list inputs, list outputs, void** data, Arena arena) except *:
    """Return the loop of SquaredDifference."""
    return _square_loop(outputs[0].num) if are_copyable([*inputs, *outputs]) else NULL


_WRAPPED = {"FloorDiv": "floor_divide", "FloorMod": "remainder", "Relu": "maximum", "Softplus": "logaddexp"}


cdef Loop _find_wrapped(str type, list inputs, list outputs, void** data, Arena arena) except *:
    """Return a loop of NumPy's with a check, or a constant operand, around it."""
    dtype = outputs[0]
    if not are_copyable([*inputs, *outputs]) or dtype.kind not in "iuf" or dtype.itemsize == 2 and dtype.kind == "f":
        return NULL
    return _wrap(_WRAPPED[type], dtype, type in ("FloorDiv", "FloorMod"), data, arena)


cdef Loop _wrap(str name, dtype, bint divides, void** data, Arena arena) except *:
    """Return a loop around a NumPy loop of two operands and a result of equal dtypes."""
    cdef void* inner_data = NULL
    cdef Loop inner = find_native_loop(name, [dtype.num] * 3, &inner_data)
    cdef Wrapped* wrapped
    if inner == NULL or (divides and dtype.kind == "f"):
        data[0] = inner_data
        return inner
    wrapped = <Wrapped*>arena.take(1, sizeof(Wrapped))
    wrapped.loop, wrapped.data, wrapped.itemsize = inner, inner_data, dtype.itemsize
    data[0] = wrapped
    if divides:
        return _divide_integers
    return _with_zero


register_loop("Cast", _find_cast)
register_loop("DivOrZero", _find_zero_product)
register_loop("MulNoNan", _find_zero_product)
register_loop("SquaredDifference", _find_square)
register_loop("Where", _find_where)
for _type in _WRAPPED:
    register_loop(_type, _find_wrapped)
