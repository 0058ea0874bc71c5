"""What CuPy has of what kernels use: functions with their parameters, universal functions with their loops, methods."""

from types import SimpleNamespace

# Parameters in CuPy's order and by CuPy's names, with * before those that are given by name only.
FUNCTIONS = {
    "angle": "z deg",
    "all": "a axis out keepdims",
    "any": "a axis out keepdims",
    "arange": "start stop step dtype",
    "argmax": "a axis dtype out keepdims",
    "argmin": "a axis dtype out keepdims",
    "argsort": "a axis kind",
    "argwhere": "a",
    "ascontiguousarray": "a dtype",
    "broadcast_to": "array shape",
    "clip": "a a_min a_max out",
    "concatenate": "tup axis out * dtype casting",
    "copyto": "dst src casting where",
    "count_nonzero": "a axis",
    "cumprod": "a axis dtype out",
    "cumsum": "a axis dtype out",
    "diagonal": "a offset axis1 axis2",
    "empty": "shape dtype order",
    "empty_like": "prototype dtype order subok shape",
    "expand_dims": "a axis",
    "flip": "a axis",
    "full": "shape fill_value dtype order",
    "full_like": "a fill_value dtype order subok shape",
    "imag": "val",
    "isin": "element test_elements assume_unique invert",
    "lexsort": "keys",
    "linspace": "start stop num endpoint retstep dtype axis",
    "matmul": "x1 x2 out",
    "max": "a axis out keepdims",
    "mean": "a axis dtype out keepdims",
    "min": "a axis out keepdims",
    "moveaxis": "a source destination",
    "nonzero": "a",
    "ones": "shape dtype order",
    "ones_like": "a dtype order subok shape",
    "pad": "array pad_width mode",
    "partition": "a kth axis",
    "prod": "a axis dtype out keepdims",
    "real": "val",
    "reshape": "a newshape order * copy",
    "roll": "a shift axis",
    "searchsorted": "a v side sorter",
    "sort": "a axis kind",
    "split": "ary indices_or_sections axis",
    "squeeze": "a axis",
    "stack": "tup axis out * dtype casting",
    "sum": "a axis dtype out keepdims",
    "swapaxes": "a axis1 axis2",
    "take": "a indices axis out",
    "take_along_axis": "a indices axis",
    "tile": "A reps",
    "transpose": "a axes",
    "tril": "m k",
    "triu": "m k",
    "where": "condition x y",
    "zeros": "shape dtype order",
    "zeros_like": "a dtype order subok shape",
}

_BOOL, _SIGNED, _INTEGERS, _FLOATS, _COMPLEX = "?", "bhilq", "bBhHiIlLqQ", "efd", "FD"
_REAL, _NUMBERS, _INEXACT = _INTEGERS + _FLOATS, _INTEGERS + _FLOATS + _COMPLEX, _FLOATS + _COMPLEX

# The dtypes, by their characters, for which a universal function is compiled; others are converted to one of them.
LOOPS = {
    **dict.fromkeys(
        ("add", "subtract", "multiply", "maximum", "minimum", "absolute", "abs", "negative"), _BOOL + _NUMBERS
    ),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _BOOL + _NUMBERS),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not", "floor", "ceil"), _BOOL + _REAL),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "invert"), _BOOL + _INTEGERS),
    **dict.fromkeys(("left_shift", "right_shift"), _INTEGERS),
    **dict.fromkeys(("square", "reciprocal", "sign", "conjugate", "power"), _NUMBERS),
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), _REAL),
    **dict.fromkeys(("trunc", "nextafter"), _FLOATS),
    **dict.fromkeys(("divide", "true_divide"), "qQ" + _INEXACT),
    **dict.fromkeys(
        (
            "sin",
            "cos",
            "tan",
            "arcsin",
            "arccos",
            "arctan",
            "sinh",
            "cosh",
            "tanh",
            "arcsinh",
            "arccosh",
            "arctanh",
            "exp",
            "expm1",
            "log",
            "log1p",
            "sqrt",
            "rint",
        ),
        _INEXACT,
    ),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _INEXACT),
    **dict.fromkeys(("arctan2", "logaddexp"), _FLOATS),
}

# Of cupy.linalg; those that may fail say so inside of ``cupyx.errstate(linalg="raise")`` only.
LINALG = {
    "cholesky": "a",
    "det": "a",
    "eigh": "a UPLO",
    "eigvalsh": "a UPLO",
    "inv": "a",
    "qr": "a mode",
    "slogdet": "a",
    "solve": "a b",
    "svd": "a full_matrices compute_uv",
}
FAILING = {"cholesky", "eigh", "eigvalsh", "inv", "solve", "svd"}

_SINGLE = "fd"
SPECIAL = {  # of cupyx.scipy.special
    **dict.fromkeys(("erf", "erfc"), _FLOATS),
    **dict.fromkeys(("digamma", "erfinv", "expi", "gamma", "gammaln", "ndtri"), _SINGLE),
    **dict.fromkeys(("betainc", "gammainc", "gammaincc", "zeta"), _SINGLE),
    **dict.fromkeys(("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1"), _SINGLE),
}
FFT = {  # of cupy.fft
    "fftn": "a s axes norm",
    "ifftn": "a s axes norm",
    "rfftn": "a s axes norm",
    "irfftn": "a s axes norm",
}
ATOMIC = "iILQefd"  # what `ufunc.at` can add on a GPU
SCATTERING = {"add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}
DTYPES = _BOOL + _NUMBERS  # that an array can have; `l` is `q` by another name
TYPES = (
    "bool_",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "intp",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)

METHODS = {
    "all",
    "any",
    "argmax",
    "argmin",
    "clip",
    "conj",
    "conjugate",
    "cumprod",
    "cumsum",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "squeeze",
    "sum",
    "swapaxes",
    "take",
    "transpose",
}


def bind(name, arguments, named, functions=FUNCTIONS):
    """Return the arguments of a call by their names; TypeError for those that the function does not take."""
    given, keyword_only = SimpleNamespace(), False
    words = functions[name].split()
    positions = words[: words.index("*")] if "*" in words else words
    keyword_only = set(words) - {"*"}
    if len(arguments) > len(positions) or not set(named) <= keyword_only - set(positions[: len(arguments)]):
        raise TypeError(f"cupy.{name}({', '.join(words)}) got {len(arguments)} arguments and {sorted(named)}")
    vars(given).update(zip(positions, arguments, strict=False), **named)
    return given
