"""An array library that is as strict as CuPy and computes with NumPy; `xp` is it, as a module would be.

It refuses what CuPy refuses, and notes when the host waits for the device. The names, parameters and loops of
`names.py` were read from CuPy 14.2.
"""

import threading
from contextlib import contextmanager
from functools import partial
from weakref import WeakSet, WeakValueDictionary

import numpy as np
from tagloom.kernels.elementary.functions import elementary_function

from tests.strict_array_library.names import (
    ATOMIC,
    DTYPES,
    FAILING,
    FFT,
    FUNCTIONS,
    LINALG,
    LOOPS,
    METHODS,
    SCATTERING,
    SPECIAL,
    TYPES,
    bind,
)

SCALARS = (bool, int, float, complex, np.generic)


def inside(value):
    """Return the NumPy array in an array, or a scalar; TypeError for anything else, as of NumPy."""
    if isinstance(value, Array):
        return value._inside
    if value is None or isinstance(value, SCALARS):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def checked(dtype):
    """Return a dtype that a GPU has; TypeError for strings, objects, bfloat16."""
    dtype = np.dtype(dtype)
    if dtype.char not in DTYPES:
        raise TypeError(f"Unsupported dtype {dtype}")
    return dtype


class Waits:
    """What made the host wait for the device, in order."""

    def __init__(self):
        self.reasons = []

    def add(self, reason):
        self.reasons.append(reason)


WAITS = Waits()


class Calls(threading.local):
    """For which device this thread computes: while one is open, nothing else makes arrays.

    Attributes
    ----------
    pool : ByteCounter or None
        That of the device whose call this thread is in.
    """

    pool = None
    devices = WeakSet()  # open in this process

    def charge(self, nbytes):
        """Return the Charge of a new array, None without a device; MemoryError if there is no room for it."""
        assert self.pool is not None or not Calls.devices, "computed outside of Device.call"
        return None if self.pool is None else self.pool.charge(nbytes)

    def enter(self, pool, function, args):
        around, self.pool = self.pool, pool
        try:
            return function(*args)
        finally:
            self.pool = around


CALLS = Calls()


def _waiting(reason, convert):
    def method(self):
        WAITS.add(reason)
        return convert(self._inside)

    return method


def _method(name):
    def method(self, *arguments, **named):
        if name in FUNCTIONS:
            return function(name)(self, *arguments, **named)
        return wrap(getattr(self._inside, name)(*map(inside, arguments)))

    return method


_OWNERS = WeakValueDictionary()  # arrays that own their memory, by the identity of NumPy's array that has it


def _owner(inside):
    """Return NumPy's array that has the memory of a view."""
    while inside.base is not None:
        inside = inside.base
    return inside


def charge_of(array):
    """Return what counts the memory of an array; None for anything else."""
    if not isinstance(array, Array):
        return None
    return array.charge if array.base is None else array.base.charge


class Array:
    """An array in the device's memory.

    Attributes
    ----------
    kind : callable
        Makes an array of what NumPy made; for simulated CUDA, in the memory of a device.
    """

    kind = None
    __slots__ = ("__weakref__", "_inside", "base", "charge")
    __hash__ = None

    def __init__(self, inside):
        checked(inside.dtype)
        self._inside, owner = inside, _owner(inside)
        self.base = _OWNERS.get(id(owner))  # a view keeps the array alive
        self.charge = CALLS.charge(owner.nbytes) if self.base is None else None
        if self.base is None:
            _OWNERS[id(owner)] = self

    dtype = property(lambda self: self._inside.dtype)
    shape = property(lambda self: self._inside.shape)
    ndim = property(lambda self: self._inside.ndim)
    size = property(lambda self: self._inside.size)
    flags = property(lambda self: self._inside.flags)
    strides = property(lambda self: self._inside.strides)
    itemsize = property(lambda self: self._inside.itemsize)
    nbytes = property(lambda self: self._inside.nbytes)
    T = property(lambda self: made(self._inside.T))
    real = property(lambda self: made(self._inside.real))
    imag = property(lambda self: made(self._inside.imag))

    __bool__ = _waiting("bool", bool)
    __int__ = _waiting("int", int)
    __float__ = _waiting("float", float)
    __complex__ = _waiting("complex", complex)
    __index__ = _waiting("index", lambda array: array.__index__())
    item = _waiting("item", lambda array: array.item())
    tolist = _waiting("tolist", lambda array: array.tolist())
    get = _waiting("get", lambda array: array.copy())

    def __len__(self):
        return len(self._inside)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return f"strict({self._inside!r})"

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **named):
        if ufunc.__name__ not in LOOPS and ufunc is not np.matmul or method != "__call__":
            return NotImplemented
        known = function("matmul") if ufunc is np.matmul else Ufunc(ufunc.__name__)
        return known(*inputs, **named) if out is None else known(*inputs, out=out[0], **named)

    def __array_function__(self, func, types, arguments, named):
        return function(func.__name__)(*arguments, **named) if func.__name__ in FUNCTIONS else NotImplemented

    def __getitem__(self, key):
        return wrap(self._inside[_key(key)])

    def __setitem__(self, key, value):
        self._inside[_key(key)] = inside(value)

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if casting is not None or subok is not None:
            raise TypeError("astype of CuPy has neither casting nor subok")
        return made(self._inside.astype(checked(dtype), order=order, copy=copy))

    def copy(self, order="C"):
        return made(self._inside.copy(order))

    def fill(self, value):
        self._inside.fill(inside(value))

    def reshape(self, *shape, order="C"):
        return made(self._inside.reshape(*shape, order=order))

    def view(self, dtype=None):
        return made(self._inside.view() if dtype is None else self._inside.view(checked(dtype)))


def made(inside):
    """Return an array of what NumPy has made."""
    return (Array.kind or Array)(inside)


for _name in METHODS:
    setattr(Array, _name, _method(_name))


def _key(key):
    """Return an index for the NumPy array: whole numbers, slices of them, arrays of the library."""
    return tuple(map(_part, key)) if isinstance(key, tuple) else _part(key)


def _part(part):
    if isinstance(part, Array):
        if part.dtype.kind == "b":
            WAITS.add("mask")
        elif part.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer or boolean type.")
        return part._inside
    if isinstance(part, (np.ndarray, list)):
        raise TypeError(f"an index in the host's memory: {part!r}")
    return part


def wrap(result):
    """Return what NumPy returned as arrays: CuPy has no scalars."""
    if result is None:
        return None
    if isinstance(result, (tuple, list)):
        return type(result)(map(wrap, result))
    return made(np.asarray(result))


class Ufunc:
    """A universal function: arrays of the library and scalars in, arrays out."""

    def __init__(self, name):
        self.name = name
        self.loops = LOOPS[name] if name in LOOPS else SPECIAL[name]

    def __call__(self, *operands, out=None):
        values = [inside(x) for x in operands]
        dtype = np.result_type(*(x.dtype if isinstance(x, np.ndarray) else x for x in values))
        if not any(np.can_cast(dtype, loop) for loop in self.loops):
            raise TypeError(f"Wrong type ({dtype}) of arguments for cupy_{self.name}")
        result = self._compute(values)
        if out is None:
            return wrap(result)
        np.copyto(inside(out), result)
        return out

    def _compute(self, values):
        if self.name in SPECIAL:
            import scipy.special

            if self.name in ("i0e", "i1e"):  # CuPy's are products of what may be 0 and what may be infinite
                with np.errstate(all="ignore"):
                    return np.exp(-np.abs(values[0])) * getattr(scipy.special, self.name[:2])(values[0])
            return getattr(scipy.special, self.name)(*values)
        if self.name == "sign" and values[0].dtype.kind == "c":
            return _sign(values[0])
        if self.name == "power" and isinstance(values[1], np.ndarray) and values[1].dtype.kind == "i":
            return np.power(values[0], np.where(values[1] < 0, 0, values[1]))  # it gives something
        if self.name.endswith("_shift"):
            return getattr(np, self.name)(values[0], values[1] % (8 * values[1].itemsize))  # as C++ does on some CPUs
        with np.errstate(all="ignore"):
            return elementary_function(np, self.name)(*values)

    def at(self, array, indices, values=None):
        """Do it where the indices say, again for those that are repeated."""
        if self.name not in SCATTERING or array.dtype.char not in ATOMIC:
            raise TypeError(f"cupy_{self.name}.at only supports {ATOMIC}, not {array.dtype}")
        getattr(np, self.name).at(inside(array), _key(indices), inside(values))


def _sign(x):
    """Return CuPy's sign of complex numbers: that of the real part, or of the imaginary one where it is 0."""
    return np.where(x.real == 0, np.sign(x.imag), np.sign(x.real)).astype(x.dtype)


_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISON = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "abs": "absolute", "invert": "invert"}


def _operators(name):
    ufunc = Ufunc(name)

    def in_place(self, other):
        return ufunc(self, other, out=self)

    return (lambda self, other: ufunc(self, other)), (lambda self, other: ufunc(other, self)), in_place


for _short, _name in {**_BINARY, **_COMPARISON}.items():
    _forward, _reflected, _in_place = _operators(_name)
    setattr(Array, f"__{_short}__", _forward)
    if _short in _BINARY:
        setattr(Array, f"__r{_short}__", _reflected)
        setattr(Array, f"__i{_short}__", _in_place)
for _short, _name in _UNARY.items():
    setattr(Array, f"__{_short}__", lambda self, name=_name: Ufunc(name)(self))

_SEQUENCES = {"concatenate": "tup", "stack": "tup"}
_ON_HOST = {
    "shape",
    "axis",
    "axes",
    "dtype",
    "order",
    "pad_width",
    "mode",
    "reps",
    "indices_or_sections",
    "newshape",
    "source",
    "destination",
    "casting",
    "keepdims",
    "kind",
    "kth",
    "shift",
    "side",
    "subok",
    "copy",
}
_NUMBERS_ONLY = {"arange", "linspace"}
_DATA_DEPENDENT = {"argwhere", "nonzero"}


def function(name):
    """Return a function that is NumPy's of that name with CuPy's parameters."""

    def call(*arguments, **named):
        given = bind(name, arguments, named)
        if "dtype" in vars(given) and given.dtype is not None:
            checked(given.dtype)
        if name in _DATA_DEPENDENT or (name == "where" and not hasattr(given, "x")):
            WAITS.add(name)
        values = {key: _argument(name, key, value) for key, value in vars(given).items()}
        extra = {"mode": "wrap"} if name == "take" else {}
        with np.errstate(all="ignore"):
            ordered = [values[key] for key in list(vars(given))[: len(arguments)]]
            return wrap(getattr(np, name)(*ordered, **{key: values[key] for key in named}, **extra))

    call.__name__ = name
    return call


def _argument(name, key, value):
    if key == _SEQUENCES.get(name):
        return [_array(part) for part in value]
    if key in _ON_HOST or name in _NUMBERS_ONLY:
        if isinstance(value, Array):
            raise TypeError(f"cupy.{name}: {key} has to be in the host's memory")
        return value
    return _array(value) if key in ("a", "array", "ary", "x1", "x2", "condition", "dst") else inside(value)


def _array(value):
    if not isinstance(value, Array):
        raise TypeError(f"Only arrays of the library can be given, not {type(value)}")
    return value._inside


class Cupyx(threading.local):
    """What stands in for ``cupyx``, of each thread."""

    linalg = None

    @contextmanager
    def errstate(self, linalg):
        """Say whether what fails in ``cupy.linalg`` is raised, for which the host waits."""
        before, self.linalg = self.linalg, linalg
        try:
            yield
        finally:
            self.linalg = before


CUPYX = Cupyx()


class Linalg:
    """What stands in for ``cupy.linalg``: NumPy's functions with CuPy's parameters, for arrays of matrices."""

    def __getattr__(self, name):
        if name not in LINALG:
            raise AttributeError(f"cupy.linalg has no {name}, or it is not in tests/strict_array_library/names.py")
        return partial(_decompose, name)


def _decompose(name, *arguments, **named):
    given = vars(bind(name, arguments, named, LINALG))
    if name in FAILING:
        if CUPYX.linalg is None:
            raise TypeError(f"whether cupy.linalg.{name} failed is not known outside of cupyx.errstate(linalg='raise')")
        if CUPYX.linalg == "raise":
            WAITS.add("linalg")
    operands = [_array(given.pop(key)) for key in ("a", "b") if key in given]
    if any(x.dtype.char not in "fdFD" for x in operands):
        raise TypeError(f"cupy.linalg.{name} is for float32, float64, complex64 and complex128")
    if name == "solve" and CUPYX.linalg == "raise" and np.isnan(operands[0]).any():
        raise np.linalg.LinAlgError("Matrix is singular.")
    if name == "solve" and operands[0].shape[:-1] != operands[1].shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M) or (..., M, K)")
    with np.errstate(all="ignore"):
        result = getattr(np.linalg, name)(*operands, **given)
    return wrap(tuple(result) if isinstance(result, tuple) else result)


class Transforms:
    """What stands in for ``cupy.fft``."""

    def __getattr__(self, name):
        if name not in FFT:
            raise AttributeError(f"module 'cupy.fft' has no attribute '{name}', or it is not in FFT of names.py")

        def call(*arguments, **named):
            given = vars(bind(name, arguments, named, FFT))
            return wrap(getattr(np.fft, name)(_array(given.pop("a")), **given))

        return call


class Library:
    """What kernels are given as ``xp``."""

    ndarray = Array
    linalg = Linalg()
    fft = Transforms()
    __name__ = "cupy"

    def __getattr__(self, name):
        if name in LOOPS:
            return Ufunc(name)
        if name in FUNCTIONS:
            return function(name)
        if name in TYPES:
            return getattr(np, name)
        where = "tests/strict_array_library/names.py"
        raise AttributeError(f"module 'cupy' has no attribute '{name}', or it is not in {where}")

    @staticmethod
    def asarray(a, dtype=None, order=None):
        """Return an array, copied in if it is in the host's memory."""
        if isinstance(a, Array):
            return a if dtype is None or a.dtype == dtype else a.astype(dtype)
        return made(np.array(a, None if dtype is None else checked(dtype), order=order))

    @staticmethod
    def broadcast_shapes(*shapes):
        """Return the shape that shapes broadcast to."""
        return np.broadcast_shapes(*shapes)


class Special:
    """What stands in for ``cupyx.scipy.special``."""

    def __getattr__(self, name):
        if name not in SPECIAL:
            raise AttributeError(f"cupyx.scipy.special has no {name}")
        return Ufunc(name)


xp = Library()
