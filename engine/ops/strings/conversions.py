"""Conversions between numbers and strings, base64, and hash buckets."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import DtypeError, GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import static_int
from ..support.common import same_as
from ..support.interpreter import iterate_elements
from ..support.literals import c128, f32, f64, flags, i32, i64
from ..support.vectorizing.families import pointwise
from .elementwise import STRINGS, string_array
from .kernels import kernel_for_each, make_numbers, make_strings, python_calls

_NUMBERS = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)
_BASE64 = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def _parse_number(text: str, of: type) -> Any:
    if "_" in text or not text.isascii():  # Python reads digits of all scripts, and underscores between digits
        raise ValueError(repr(text))
    return of(text)


def _to_number(xp: Any, x: Any, dtype: Any) -> Any:
    """Parse the strings of an array; ValueError for strings and integers that the dtype cannot represent."""
    kind = dtypes.as_dtype(dtype)
    of = int if kind.is_integer else float
    try:
        # Numbers too large for float32 become infinite, without a warning.
        with np.errstate(over="ignore"):
            return make_numbers((_parse_number(text, of) for text in iterate_elements(x)), kind.numpy, x.shape)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"string_to_number: this is no {kind}: {error}") from None


define(
    "StringToNumber",
    "input: host string -> output: host @dtype",
    attrs={"dtype": dtypes.float32},
    shape=same_as(0),
    rules=[Vectorize(pointwise), ReadsValues(), Elements(python_calls)],
    kernel=_to_number,
    gradient=STRINGS,
    samples=[
        Sample([string_array(["1.5", " -2e3 ", "inf", "nan"])], f32([1.5, -2000, np.inf, np.nan])),
        Sample([string_array([["7"], ["-3"]])], i64([[7], [-3]]), {"dtype": dtypes.int64}),
        Sample([string_array("0.1")], f64(0.1), {"dtype": dtypes.float64}),
        Sample([string_array([])], i32([]), {"dtype": dtypes.int32}),
    ],
)


@public
def string_to_number(input: Any, out_type: Any = "float32", name: str | None = None) -> Tensor:
    """Parse numbers, elementwise.

    Parameters
    ----------
    input : string Tensor
    out_type : dtype-like
        float32, float64, int32 or int64.

    Returns
    -------
    Tensor
        Of `out_type` and the same shape.

    Raises
    ------
    DtypeError
        For any other `out_type`.
    OpError
        In a step, if a string is no such number, or an integer is too large.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.string_to_number(["1.5", "-2e3"])).sync()
    array([ 1.5e+00, -2.0e+03], dtype=float32)
    """
    wanted = dtypes.as_dtype(out_type)
    if wanted not in _NUMBERS:
        raise DtypeError(
            "strings are not read as this dtype",
            wanted=" or ".join(d.name for d in _NUMBERS),
            got=wanted,
            hint="read another, and cast that",
        )
    return apply("StringToNumber", input, name=name, dtype=wanted)


def _as_string(xp: Any, x: Any, form: str) -> Any:
    # TensorFlow's true and false, and not Python's True and False.
    if x.dtype.kind == "b":
        return make_strings(("true" if value else "false" for value in iterate_elements(x)), x.shape)
    if x.dtype.kind == "c":
        return make_strings((f"({form},{form})" % (value.real, value.imag) for value in iterate_elements(x)), x.shape)
    return make_strings((form % value for value in iterate_elements(x)), x.shape)


define(
    "AsString",
    "input: host T -> output: host string",
    where={"T": (dtypes.bool_, *dtypes.NUMERIC)},
    attrs={"form": REQUIRED},
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=_as_string,
    gradient=NotDifferentiable("its result is strings"),
    samples=[
        Sample([i32([3, -12])], string_array(["3", "-12"]), {"form": "%d"}),
        Sample([f64([[1.5, -0.25]])], string_array([["1.50", "-0.25"]]), {"form": "%.2f"}),
        Sample([flags([True, False])], string_array(["true", "false"]), {"form": "%d"}),
        Sample([c128(1 - 2j)], string_array("(1.000000,-2.000000)"), {"form": "%f"}),
        Sample([np.zeros((0, 2))], string_array(np.zeros((0, 2), str)), {"form": "%f"}),
    ],
)


def _number_format(dtype: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: str) -> str:
    """Return the format of numbers of a dtype for Python's ``%`` operator, as of ``printf`` in C."""
    if dtype.is_differentiable:
        letter = "e" if scientific else "g" if shortest else "f"
    elif scientific or shortest or precision > -1:
        raise GraphError(
            "only floating and complex numbers have digits behind the point",
            wanted="width and fill",
            got=f"precision={precision}, scientific={scientific}, shortest={shortest} for {dtype}",
            hint="leave these out, or cast first",
        )
    else:
        letter = "d"
    return "%" + fill + (str(width) if width > -1 else "") + (f".{precision}" if precision > -1 else "") + letter


@public
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Write numbers, elementwise, as C's ``printf`` does.

    Parameters
    ----------
    input : Tensor of bool or any numeric dtype
    precision : int
        Digits after the point, of floating and complex numbers; 6 by default.
    scientific : bool
        With an exponent.
    shortest : bool
        With an exponent or without, whichever is shorter.
    width : int
        Least number of characters.
    fill : {'', '0', ' ', '+', '-', '#'}
        Flag of ``printf``: '0' pads with zeros, '-' with blanks on the right, '+' and ' ' show a sign; the default is
        blanks on the left.

    Returns
    -------
    Tensor
        Of dtype string and the same shape; "true" or "false" for bool.

    Raises
    ------
    GraphError
        If options contradict each other, or do not fit the dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.as_string([3.14159, -2.5], precision=2)).sync().tolist()
    ['3.14', '-2.50']
    >>> tg.function(lambda: tg.as_string([7, 42], width=4, fill="0")).sync().tolist()
    ['0007', '0042']
    """
    x = convert_to_tensor(input)
    if (scientific and shortest) or not isinstance(fill, str) or fill not in ("", "0", " ", "+", "-", "#"):
        raise GraphError(
            "a number cannot be written like this",
            wanted="scientific or shortest, and a fill of '', '0', ' ', '+', '-' or '#'",
            got=f"scientific={scientific}, shortest={shortest}, fill={fill!r}",
            hint="leave one out",
        )
    form = _number_format(
        x.dtype, static_int(precision, "precision"), scientific, shortest, static_int(width, "width"), fill
    )
    return apply("AsString", x, name=name, form=form)


def _encode_text(text: str, pad: bool) -> str:
    code = base64.urlsafe_b64encode(text.encode()).decode()
    return code if pad else code.rstrip("=")


# The padding is removed and restored, because Python's decoder wants groups of four characters.
def _decode_text(code: str) -> str:
    try:
        # Python's decoder would skip characters outside of the alphabet.
        if not _BASE64.fullmatch(code):
            raise ValueError("a character that does not belong there")
        return base64.urlsafe_b64decode(code.rstrip("=") + "=" * (-len(code.rstrip("=")) % 4)).decode()
    except ValueError as error:
        raise ValueError(f"decode_base64: {code!r} is not the code of a string: {error}") from None


define(
    "EncodeBase64",
    "input: host string -> output: host string",
    attrs={"pad": False},
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=lambda xp, x, pad: kernel_for_each(lambda text: _encode_text(text, pad))(xp, x),
    gradient=STRINGS,
    samples=[
        Sample([string_array(["a", "ab", "abc", ""])], string_array(["YQ", "YWI", "YWJj", ""])),
        Sample([string_array("a")], string_array("YQ=="), {"pad": True}),
        Sample([string_array("?>~ÿ")], string_array("Pz5-w78")),
    ],
)

define(
    "DecodeBase64",
    "input: host string -> output: host string",
    shape=same_as(0),
    rules=[Vectorize(pointwise), ReadsValues(), Elements(python_calls)],
    kernel=kernel_for_each(_decode_text),
    gradient=STRINGS,
    samples=[Sample([string_array([["YQ", "YQ=="], ["Pz5-w78", ""]])], string_array([["a", "a"], ["?>~ÿ", ""]]))],
)


@public
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Encode the UTF-8 bytes of each string in base64, with ``-`` and ``_`` as in URLs (RFC 4648).

    Parameters
    ----------
    input : string Tensor
    pad : bool
        Pad the code with ``=`` to a multiple of four characters.

    Returns
    -------
    Tensor
        Of dtype string and the same shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.encode_base64(["hello", ""])).sync().tolist()
    ['aGVsbG8', '']
    """
    return apply("EncodeBase64", input, name=name, pad=bool(pad))


@public
def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """Decode strings encoded by `encode_base64`, with or without padding.

    Parameters
    ----------
    input : string Tensor

    Returns
    -------
    Tensor
        Of dtype string and the same shape.

    Raises
    ------
    OpError
        In a step, if a string is no base64 code, or its bytes are not UTF-8.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.decode_base64(["aGVsbG8", "aGVsbG8="])).sync().tolist()
    ['hello', 'hello']
    """
    return apply("DecodeBase64", input, name=name)


def _compute_hash_bucket(xp: Any, x: Any, num_buckets: int) -> Any:
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in iterate_elements(x))
    return make_numbers((int.from_bytes(d, "little") % num_buckets for d in digests), np.int64, x.shape)


define(
    "StringToHashBucket",
    "input: host string -> bucket: host int64",
    attrs={"num_buckets": REQUIRED},
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=_compute_hash_bucket,
    gradient=STRINGS,
    samples=[
        Sample([string_array([["a"], ["b"], [""]])], i64([[928], [668], [756]]), {"num_buckets": 1000}),
        Sample([string_array("a")], i64(0), {"num_buckets": 1}),
    ],
)


@public
def string_to_hash_bucket(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Assign strings to buckets by their hash, the same on all machines and in all runs.

    The hash is the BLAKE2b digest (RFC 7693) of 8 bytes of the string in UTF-8, as a little-endian number; the bucket
    is its remainder by `num_buckets`. TensorFlow's buckets differ.

    Parameters
    ----------
    input : string Tensor
    num_buckets : int

    Returns
    -------
    Tensor
        Of dtype int64 and the same shape, from 0 to ``num_buckets - 1``.

    Raises
    ------
    GraphError
        If `num_buckets` is less than 1.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.string_to_hash_bucket(["cat", "dog", "cat"], 1000)).sync()
    array([939, 465, 939])
    """
    count = static_int(num_buckets, "num_buckets")
    if count < 1:
        raise GraphError("there have to be buckets", wanted="1 or more", got=count, hint="see num_buckets")
    return apply("StringToHashBucket", input, name=name, num_buckets=count)
