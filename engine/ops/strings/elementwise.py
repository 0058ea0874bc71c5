"""Elementwise functions of strings: length, case and parts."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor, one_of
from ..support.common import broadcast_all, same_as
from ..support.interpreter import iterate_elements
from ..support.literals import i32, i64
from ..support.vectorizing.families import pointwise
from .kernels import cut_text, kernel_for_each, make_numbers, make_strings, python_calls

STRINGS = NotDifferentiable("strings have no gradient")
UNITS = ("BYTE", "UTF8_CHAR")
# str.strip() by itself would also take Unicode's whitespace.
_WHITESPACE = " \t\n\v\f\r"
# By the attribute `case`. str.lower and str.upper change the letters of all scripts, and may change the length; so
# there are two tables for ASCII.
_SMALL, _LARGE = string.ascii_lowercase, string.ascii_uppercase
_CASES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "ascii lower": lambda text: text.translate(str.maketrans(_LARGE, _SMALL)),
    "ascii upper": lambda text: text.translate(str.maketrans(_SMALL, _LARGE)),
}


def string_array(values: Any) -> Any:
    """Return an array of strings."""
    return np.array(values, dtypes.string.numpy)


def _compute_length(xp: Any, x: Any, unit: str) -> Any:
    counts = (len(text.encode() if unit == "BYTE" else text) for text in iterate_elements(x))
    return make_numbers(counts, np.int32, x.shape)


define(
    "StringLength",
    "input: host string -> length: host int32",
    attrs={"unit": "BYTE"},
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=_compute_length,
    gradient=STRINGS,
    samples=[
        Sample([string_array(["a", "äß", ""])], i32([1, 4, 0])),
        Sample([string_array(["a", "äß", ""])], i32([1, 2, 0]), {"unit": "UTF8_CHAR"}),
        Sample([string_array("abc")], i32(3)),
    ],
)


@public
def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Count the bytes or characters of strings, elementwise.

    Parameters
    ----------
    input : string Tensor
    unit : {'BYTE', 'UTF8_CHAR'}
        Bytes in UTF-8, or characters.

    Returns
    -------
    Tensor
        Of dtype int32 and the same shape.

    Raises
    ------
    GraphError
        If the unit is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: [tg.string_length(["ab", "ä"], unit=unit) for unit in ("BYTE", "UTF8_CHAR")]).sync()
    [array([2, 2], dtype=int32), array([2, 1], dtype=int32)]
    """
    return apply("StringLength", input, name=name, unit=one_of(unit, UNITS, "unit"))


define(
    "StringCase",
    "input: host string -> output: host string",
    attrs={"case": REQUIRED},
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=lambda xp, x, case: kernel_for_each(_CASES[case])(xp, x),
    gradient=STRINGS,
    samples=[
        Sample([string_array([["aB", "Äz"]])], string_array([["ab", "Äz"]]), {"case": "ascii lower"}),
        Sample([string_array([["aB", "Äz"]])], string_array([["AB", "ÄZ"]]), {"case": "ascii upper"}),
        Sample([string_array(["aB", "Äz"])], string_array(["ab", "äz"]), {"case": "lower"}),
        Sample([string_array("ß")], string_array("SS"), {"case": "upper"}),
        Sample([string_array([])], string_array([]), {"case": "upper"}),
    ],
)


def _apply_case(input: Any, case: str, encoding: str, name: str | None) -> Tensor:
    """Convert all letters to a case, 'lower' or 'upper', for the encoding 'utf-8'; only ASCII letters for ''."""
    is_ascii = one_of(encoding, ("", "utf-8"), "encoding") == ""
    return apply("StringCase", input, name=name, case=f"ascii {case}" if is_ascii else case)


@public
def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert letters to lower case, elementwise.

    Parameters
    ----------
    input : string Tensor
    encoding : {'', 'utf-8'}
        By default only ASCII letters change; with 'utf-8' letters of all scripts, and a string may become longer.

    Returns
    -------
    Tensor
        Of dtype string and the same shape.

    Raises
    ------
    GraphError
        For any other encoding.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.string_lower(["Ab", "ÄB"])).sync().tolist()
    ['ab', 'Äb']
    """
    return _apply_case(input, "lower", encoding, name)


@public
def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert letters to upper case, elementwise.

    Parameters
    ----------
    input : string Tensor
    encoding : {'', 'utf-8'}
        By default only ASCII letters change; with 'utf-8' letters of all scripts, and a string may become longer.

    Returns
    -------
    Tensor
        Of dtype string and the same shape.

    Raises
    ------
    GraphError
        For any other encoding.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.string_upper(["ab", "äb"], encoding="utf-8")).sync().tolist()
    ['AB', 'ÄB']
    """
    return _apply_case(input, "upper", encoding, name)


define(
    "StringStrip",
    "input: host string -> output: host string",
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=kernel_for_each(lambda text: text.strip(_WHITESPACE)),
    gradient=STRINGS,
    samples=[
        Sample([string_array([" a b\n", "\t", ""])], string_array(["a b", "", ""])),
        Sample([string_array(" a")], string_array("a")),
    ],
)


@public
def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Strip ASCII whitespace from both ends of each string, elementwise.

    Parameters
    ----------
    input : string Tensor

    Returns
    -------
    Tensor
        Of dtype string and the same shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.string_strip([" a b ", "c"])).sync().tolist()
    ['a b', 'c']
    """
    return apply("StringStrip", input, name=name)


def _compute_substr(xp: Any, x: Any, pos: Any, length: Any, unit: str) -> Any:
    shape = np.broadcast_shapes(x.shape, pos.shape, length.shape)
    texts, starts, lengths = (iterate_elements(np.broadcast_to(a, shape)) for a in (x, pos, length))
    cuts = zip(texts, starts, lengths, strict=True)
    substrings = (cut_text(text, start, count, as_bytes=unit == "BYTE") for text, start, count in cuts)
    return make_strings(substrings, shape)


define(
    "Substr",
    "input: host string, pos: host I, len: host I -> output: host string",
    where={"I": dtypes.INDEX},
    attrs={"unit": "BYTE"},
    shape=broadcast_all,
    rules=[Vectorize(pointwise), ReadsValues(), Elements(python_calls)],
    kernel=_compute_substr,
    gradient=STRINGS,
    samples=[
        Sample([string_array(["hello", "wörld"]), i32(1), i32([3, 3])], string_array(["ell", "ör"])),
        Sample([string_array("wörld"), i64([0, -3]), i64([2, 9])], string_array(["wö", "rld"]), {"unit": "UTF8_CHAR"}),
        Sample([string_array(["ab"]), i32([2]), i32([5])], string_array([""])),
        Sample([string_array([]), i32(0), i32(1)], string_array([])),
    ],
)


@public
def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Extract a substring of each string.

    Parameters
    ----------
    input : string Tensor
    pos, len : int32 or int64 Tensor
        Start of the substring, counted from the end if negative, and its greatest length. All shapes broadcast.
    unit : {'BYTE', 'UTF8_CHAR'}
        Unit of both numbers: bytes in UTF-8, or characters.

    Returns
    -------
    Tensor
        Of dtype string and the broadcast shape.

    Raises
    ------
    GraphError
        If the unit is unknown.
    OpError
        In a step, if a substring starts outside of its string, a length is negative, or a character is cut in two.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.substr(["hello", "world"], [1, -2], 3)).sync().tolist()
    ['ell', 'ld']
    """
    start, length = index_tensor(pos), index_tensor(len)
    if start.dtype is not length.dtype:
        start, length = (apply("Cast", t, dtype=dtypes.int64) for t in (start, length))
    return apply("Substr", input, start, length, name=name, unit=one_of(unit, UNITS, "unit"))
