"""Docstring texts shared by convolutions and pooling: their parameters and errors.

A docstring refers to a text by its name in braces after the function's own parameter name: ``stride : {strides}``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .windows import LAYOUTS

F = TypeVar("F", bound=Callable[..., Any])

_SAME = "SAME pads so that there are ``ceil(size / stride)`` windows."


def _text_on_numbers(rank: int | None) -> str:
    """Return the text about numbers for the spatial dimensions."""
    each = "" if rank == 1 else "one for each dimension, "
    whole = "those" if rank is None else f"{rank + 2}"
    return f"One number, {each}or {whole} with 1 for the batch and the channels."


def _text_on_pairs(rank: int | None) -> str:
    whole = "those" if rank is None else f"{rank + 2}"
    return f"A pair for each dimension, or {whole} with (0, 0) for batch and channels, are before and after."


def _list_formats(rank: int | None) -> str:
    last, first = zip(*LAYOUTS.values()) if rank is None else ([LAYOUTS[rank][0]], [LAYOUTS[rank][1]])
    return f"{{{', '.join(map(repr, (*last, *first)))}}}"


def of_convolution(rank: int | None = None) -> dict[str, str]:
    """Return the texts of a convolution over `rank` spatial dimensions; over any number when None."""
    return {
        "strides": f"int or sequence of int\nFrom one window to the next. {_text_on_numbers(rank)}",
        "padding": "{'VALID', 'SAME'} or sequence of pairs\n"
        f"VALID has only windows that lie inside. {_SAME} {_text_on_pairs(rank)} Padding is zeros.",
        "data_format": f"{_list_formats(rank)}, optional\n"
        "Whether channels are the last dimension (the default), or the second, which is transposed before and after.",
        "dilations": f"int or sequence of int\nDistance of the elements in a window. {_text_on_numbers(rank)}",
        "errors": "ShapeError\n"
        "    If ranks or channels do not fit, or no window fits into the input.\n"
        "GraphError\n"
        "    If strides, padding, dilations or data format are none.",
    }


def of_transposed(rank: int) -> dict[str, str]:
    """Return the texts of operations from a convolution's result back to its input, or to its filters."""
    errors = "ShapeError\n    If a convolution of these shapes does not give such a result, as far as they are known.\n"
    return {**of_convolution(rank), "errors": errors + of_convolution(rank)["errors"].partition("input.\n")[2]}


def of_pooling(rank: int | None = None) -> dict[str, str]:
    """Return the texts of pooling over `rank` spatial dimensions; over any number when None."""
    return {
        "ksize": "int or sequence of int\n"
        f"Size of the windows, and how far they are from one another. {_text_on_numbers(rank)}",
        "padding": "{'VALID', 'SAME'} or sequence of pairs\n"
        f"VALID has only windows that lie inside. {_SAME} {_text_on_pairs(rank)} Padding never counts.",
        "data_format": f"{_list_formats(rank)}, optional\n"
        "Whether channels are the last dimension (the default), or the second.",
        "errors": "ShapeError\n"
        "    If a window is larger than the input, or has nothing but padding; in a step, as the cause of an OpError.\n"
        "GraphError\n"
        "    If sizes, strides, padding or data format are none.",
    }


def fill_docstring(texts: Mapping[str, str]) -> Callable[[F], F]:
    """Return a decorator replacing names in braces in a function's docstring by texts.

    Parameters
    ----------
    texts : mapping of str to str
        The text of a parameter has its type in the first line; the text of errors is a whole section.
    """

    def put_texts(function: F) -> F:
        lines = []
        for line in (function.__doc__ or "").split("\n"):
            before, brace, name = line.rstrip().removesuffix("}").rpartition("{")
            known = brace and line.rstrip().endswith("}") and name in texts
            lines += _laid_out(before, texts[name]) if known else [line]
        function.__doc__ = "\n".join(lines)
        return function

    return put_texts


def _laid_out(before: str, text: str) -> list[str]:
    """Return the lines of a text after the name of its parameter, or of a section after its indent."""
    indent = before[: len(before) - len(before.lstrip())]
    first, _, rest = text.partition("\n")
    if not before.strip():
        return textwrap.indent(text, indent).split("\n")
    filled = textwrap.wrap(rest, 120 - len(indent) - 4)
    return [before + first, *textwrap.indent("\n".join(filled), indent + " " * 4).split("\n")]
