"""Joining of strings, along dimensions or elementwise, and splitting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.reductions import AXES, reduced_axes, reduced_shape
from ..support.arguments import static_ints
from ..support.interpreter import iterate_elements, repeated_numbers
from ..support.literals import i64
from ..support.vectorizing.families import one_by_one
from ..support.vectorizing.shapes import reduce_join_examples
from .elementwise import STRINGS, string_array
from .kernels import join_texts, make_string_vector, make_strings, python_calls, split_text


@public
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """Join the strings of several tensors, elementwise.

    Parameters
    ----------
    inputs : sequence of string Tensor
        Shapes broadcast.
    separator : str
        Text between the strings.

    Returns
    -------
    Tensor
        Of dtype string and the broadcast shape.

    Raises
    ------
    GraphError
        If `inputs` is empty.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.string_join([["a", "b"], "c"], separator="-")).sync().tolist()
    ['a-c', 'b-c']
    """
    parts = [convert_to_tensor(part, dtypes.string) for part in inputs]
    if not parts:
        raise GraphError("there is nothing to join", wanted="one tensor or more", got="none", hint="fill([], '')")
    joined = parts[0]
    for part in parts[1:]:
        joined = apply("Add", apply("Add", joined, separator) if separator else joined, part)
    # Identity carries the name, also for a single tensor.
    return apply("Identity", joined, name=name)


def _joined_shape(op: Operation) -> Shape:
    return reduced_shape(op.inputs[0].shape, op.attrs["axis"], op.attrs["keepdims"])


def _compute_reduce_join(xp: Any, x: Any, axis: Any, keepdims: bool, separator: str) -> Any:
    gone = reduced_axes(axis, x.ndim)[:: -1 if axis else 1]  # the last axis varies fastest
    kept = [i for i in range(x.ndim) if i not in gone]
    count = math.prod(x.shape[i] for i in gone)
    rows, texts = math.prod(x.shape[i] for i in kept), iterate_elements(x.transpose([*kept, *gone]))
    shape = tuple(1 if i in gone else d for i, d in enumerate(x.shape) if keepdims or i not in gone)
    return make_strings((join_texts(islice(texts, count), separator) for _ in range(rows)), shape)


_X = string_array([["a", "b"], ["c", "d"]])

define(
    "ReduceJoin",
    "inputs: host string -> output: host string",
    attrs={**AXES, "separator": ""},
    shape=_joined_shape,
    rules=[Vectorize(reduce_join_examples), Elements(python_calls)],
    kernel=_compute_reduce_join,
    gradient=STRINGS,
    samples=[
        Sample([_X], string_array("abcd")),
        Sample([_X], string_array(["ac", "bd"]), {"axis": (0,)}),
        Sample([_X], string_array([["a b"], ["c d"]]), {"axis": (-1,), "keepdims": True, "separator": " "}),
        Sample([_X], string_array("acbd"), {"axis": (0, 1)}),
        Sample([string_array(np.zeros((2, 0), str))], string_array(["", ""]), {"axis": (1,)}),
        Sample([string_array(np.zeros((0, 2), str))], string_array([]), {"axis": (1,)}),
        Sample([string_array("a")], string_array("a")),
    ],
)


@public
def reduce_join(
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "", name: str | None = None
) -> Tensor:
    """Join strings along axes.

    Parameters
    ----------
    inputs : string Tensor
    axis : int or sequence of int, optional
        Axes to reduce, of which the first varies fastest; all when None, with the last varying fastest.
    keepdims : bool
        Keep the reduced axes, with size 1.
    separator : str
        Text between the strings.

    Returns
    -------
    Tensor
        Of dtype string, without the reduced axes.

    Raises
    ------
    ShapeError
        If an axis is out of range, or appears twice.

    Examples
    --------
    >>> import tagloom as tg
    >>> words = [["a", "b"], ["c", "d"]]
    >>> tg.function(lambda: [tg.reduce_join(words, axis) for axis in (0, [0, 1])]).sync()
    [array(['ac', 'bd'], dtype=StringDType()), array('acbd', dtype=StringDType())]
    """
    axes = None if axis is None else static_ints(axis)
    return apply("ReduceJoin", inputs, name=name, axis=axes, keepdims=bool(keepdims), separator=separator)


class SplitStrings(NamedTuple):
    """The parts of strings, as a sparse matrix with a row for each string.

    Attributes
    ----------
    indices : Tensor of dtype int64, shape [parts, 2]
        Row and column of each part.
    values : Tensor of dtype string, shape [parts]
        The parts, row after row.
    dense_shape : Tensor of dtype int64, shape [2]
        The number of strings, and the largest number of parts of a string.

    Examples
    --------
    >>> import tagloom as tg
    >>> parts = tg.function(lambda: tg.string_split(["a b", "c"])).sync()
    >>> parts.indices.tolist(), parts.values.tolist(), parts.dense_shape.tolist()
    ([[0, 0], [0, 1], [1, 0]], ['a', 'b', 'c'], [2, 2])
    """

    indices: Any
    values: Any
    dense_shape: Any


def _split_shape(op: Operation) -> list[Shape]:
    if op.inputs[0].rank not in (1, None):
        raise ShapeError(
            "string_split takes a vector", wanted="rank 1", got=op.inputs[0].shape, operation=op, hint="reshape to [-1]"
        )
    return [Shape([None, 2]), Shape([None]), Shape([2])]


def _compute_split(xp: Any, x: Any, sep: str, skip_empty: bool) -> list[Any]:
    """Split each string of a vector; return the indices, values and dense shape of the parts."""
    if x.ndim != 1:
        raise ValueError(f"string_split takes a vector, got the shape {x.shape}")
    counts = np.zeros(x.size, np.int64)

    def iterate_parts() -> Iterator[str]:
        for i, text in enumerate(iterate_elements(x)):
            found = split_text(text, sep, skip_empty)
            counts[i] = len(found)
            yield from found

    # Takes the parts in blocks, and thereby fills `counts`, which is read only afterwards.
    values = make_string_vector(iterate_parts())
    rows = repeated_numbers(counts)
    # The running number of a part, less the running number of the first part of its string.
    columns = np.arange(values.size) - (np.cumsum(counts) - counts)[rows]
    return [np.stack([rows, columns], 1), values, i64([x.size, counts.max(initial=0)])]


define(
    "StringSplit",
    "source: host string -> indices: host int64, values: host string, dense_shape: host int64",
    attrs={"sep": " ", "skip_empty": True},
    shape=_split_shape,
    rules=[Vectorize(one_by_one), ReadsValues(), Elements(python_calls)],
    kernel=_compute_split,
    gradient=STRINGS,
    samples=[
        Sample([string_array(["a  b", ""])], (i64([[0, 0], [0, 1]]), string_array(["a", "b"]), i64([2, 2]))),
        Sample(
            [string_array(["a,b;", "c"])],
            (i64([[0, 0], [0, 1], [0, 2], [1, 0]]), string_array(["a", "b", "", "c"]), i64([2, 3])),
            {"sep": ",;", "skip_empty": False},
        ),
        Sample([string_array(["äb"])], (i64([[0, 0], [0, 1]]), string_array(["ä", "b"]), i64([1, 2])), {"sep": ""}),
        Sample([string_array([])], (np.zeros((0, 2), np.int64), string_array([]), i64([0, 0]))),
    ],
)


@public
def string_split(source: Any, sep: str | None = None, skip_empty: bool = True, name: str | None = None) -> SplitStrings:
    """Split strings at each of some characters.

    Parameters
    ----------
    source : string vector
    sep : str, optional
        Separating characters, a blank by default. An empty string splits into characters.
    skip_empty : bool
        Leave empty parts out.

    Returns
    -------
    SplitStrings
        ``indices, values, dense_shape``, the parts of a sparse tensor in TensorFlow.

    Raises
    ------
    ShapeError
        If the source is no vector.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.string_split(["a,b", "c;d"], sep=",;").values).sync().tolist()
    ['a', 'b', 'c', 'd']
    """
    return SplitStrings(
        *apply("StringSplit", source, name=name, sep=" " if sep is None else sep, skip_empty=bool(skip_empty))
    )
