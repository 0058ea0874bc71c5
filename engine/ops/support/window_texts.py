"""Docstring families of convolutions and pooling: their shared parameters and errors."""

from __future__ import annotations

import functools
import textwrap

from ...base.docstrings import Family
from .windows import LAYOUTS

_SAME = "SAME pads so that there are ``ceil(size / stride)`` windows."


def _text_on_numbers(rank: int | None) -> str:
    """Return the text about the forms of strides, dilations and window sizes."""
    each = "" if rank == 1 else "one for each dimension, "
    all_numbers = "those" if rank is None else f"{rank + 2}"
    return f"One number, {each}or {all_numbers} with 1 for the batch and the channels."


def _text_on_pairs(rank: int | None) -> str:
    """Return the text about explicit paddings."""
    all_pairs = "those" if rank is None else f"{rank + 2}"
    return f"A pair for each dimension, or {all_pairs} with (0, 0) for batch and channels, are before and after."


def _list_formats(rank: int | None) -> str:
    """Return the data formats in braces, channels-last formats first, such as ``{'NHWC', 'NCHW'}``."""
    layouts = list(LAYOUTS.values()) if rank is None else [LAYOUTS[rank]]
    names = [last for last, _ in layouts] + [first for _, first in layouts]
    return f"{{{', '.join(map(repr, names))}}}"


def _entry(kind: str, text: str) -> str:
    """Return the entry of a parameter: its type, and a description, filled to the width of a line."""
    return kind + "\n" + textwrap.indent(textwrap.fill(text, 112), "    ")


def _padding(rank: int | None, contents: str) -> str:
    text = f"VALID has only windows that lie inside. {_SAME} {_text_on_pairs(rank)} {contents}"
    return _entry("{'VALID', 'SAME'} or sequence of pairs", text)


@functools.cache
def of_convolution(rank: int | None = None) -> Family:
    """Return the family of convolutions over `rank` spatial dimensions; over any number when None."""
    strides = _entry("int or sequence of int", f"From one window to the next. {_text_on_numbers(rank)}")
    dilations = _entry("int or sequence of int", f"Distance of the elements in a window. {_text_on_numbers(rank)}")
    formats = _entry(
        f"{_list_formats(rank)}, optional",
        "Whether channels are the last dimension (the default), or the second, which is transposed before and after.",
    )
    return Family(
        {
            "strides": strides,
            "stride": strides,
            "padding": _padding(rank, "Padding is zeros."),
            "data_format": formats,
            "rate, dilations": dilations,
            "dilations": dilations,
            "dilation_rate": dilations,
            "rate": dilations,
        },
        raises={
            "ShapeError": "If ranks or channels do not fit, or no window fits into the input.",
            "GraphError": "If strides, padding, dilations or data format are none.",
        },
    )


@functools.cache
def of_transposed(rank: int) -> Family:
    """Return the family of operations from a convolution's result back to its input, or to its filters."""
    wrong = "If a convolution of these shapes does not give such a result, as far as they are known."
    family = of_convolution(rank)
    return Family(family.parameters, raises={**family.raises, "ShapeError": wrong})


@functools.cache
def of_pooling(rank: int | None = None) -> Family:
    """Return the family of pooling over `rank` spatial dimensions; over any number when None."""
    size = f"Size of the windows, and how far they are from one another. {_text_on_numbers(rank)}"
    empty = "If a window is larger than the input, or has nothing but padding; in a step, as the cause of an OpError."
    return Family(
        {
            "ksize, strides": _entry("int or sequence of int", size),
            "padding": _padding(rank, "Padding never counts."),
            "data_format": _entry(
                f"{_list_formats(rank)}, optional",
                "Whether channels are the last dimension (the default), or the second.",
            ),
        },
        raises={"ShapeError": empty, "GraphError": "If sizes, strides, padding or data format are none."},
    )


def padding_alone(family: Family) -> Family:
    """Return a family with the text of its parameter `padding` only."""
    return Family({"padding": family.parameters["padding"]})
