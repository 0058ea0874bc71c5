"""Blocks of a tensor moved into the batch and back, by reshapes and transposes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support.arguments import index_tensor, static_int, static_ints
from ..support.literals import i32
from ..support.partial_shapes import (
    Part,
    divide_size,
    join_parts,
    leading_sizes,
    multiply_parts,
    rearrange_dimensions,
    trailing_sizes,
    with_parts,
)


def _read_block_sizes(x: Tensor, block_shape: Any, function: str) -> tuple[int, ...]:
    """Return the sizes of a block; ShapeError unless all are 1 or more, and fewer than the dimensions of `x`."""
    sizes = static_ints(block_shape, "block_shape")
    if any(size < 1 for size in sizes) or (x.rank is not None and x.rank <= len(sizes)):
        raise ShapeError(
            f"{function} takes blocks along the dimensions behind the first",
            wanted="sizes of 1 or more, fewer than there are dimensions",
            got=f"block_shape={list(sizes)} for {x.shape}",
            operation=x.op,
            hint="give a size for each dimension that is cut into blocks",
        )
    return sizes


def _read_pairs(value: Any, count: int, what: str) -> list[tuple[Part, Part]]:
    """Return the pairs of sizes, as integers where known, otherwise as int32 scalars."""
    tensor = index_tensor(value)
    known = static_value(tensor)
    wrong = known is not None and (known < 0).any()
    if wrong or not Shape([count, 2]).is_compatible_with(tensor.shape):
        raise ShapeError(
            f"{what} are a pair of sizes for each dimension of a block",
            wanted=f"{count} pairs of 0 or more",
            got=tensor.shape if known is None else known.tolist(),
            operation=tensor.op,
            hint="[0, 0] leaves a dimension as it is",
        )
    if known is not None:
        return [(int(before), int(behind)) for before, behind in known]
    # The sizes are added to int32 sizes of shapes.
    tensor = cast(tensor, dtypes.int32)
    return [(tensor[i, 0], tensor[i, 1]) for i in range(count)]


def _stack_pairs(pairs: Sequence[tuple[Part, Part]]) -> Tensor:
    """Return the pairs as a tensor of shape [n, 2], constant where all sizes are known."""
    flat = [each for pair in pairs for each in pair]
    if all(isinstance(each, int) for each in flat):
        return constant(i32(flat).reshape(-1, 2))
    return apply("Reshape", join_parts(flat), constant(i32([-1, 2])))


@public
def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Distribute the elements of each block over the batch, after padding with zeros.

    Parameters
    ----------
    input : Tensor of any numeric dtype, of shape [batch, ...]
    block_shape : sequence of int
        Sizes of a block along the dimensions after the first.
    paddings : int32 or int64 Tensor of shape ``[len(block_shape), 2]``
        Zeros before and after, along each of these; the padded sizes are multiples of the sizes of a block.

    Returns
    -------
    Tensor
        Same dtype; the first dimension is multiplied by the number of elements of a block, the blocked dimensions are
        divided by its sizes.

    Raises
    ------
    ShapeError
        If blocks do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.space_to_batch_nd([[1, 2, 3]], [2], [[0, 1]])).sync()
    array([[1, 3],
           [2, 0]], dtype=int32)
    """
    x = convert_to_tensor(input)
    blocks = _read_block_sizes(x, block_shape, "space_to_batch_nd")
    x = _pad_block_dimensions(x, _read_pairs(paddings, len(blocks), "paddings"))
    count = len(blocks)
    n, *sizes = leading_sizes(x, count + 1)
    rest = trailing_sizes(x, count + 1)
    outer = [divide_size(size, b, x, "padded tensor") for size, b in zip(sizes, blocks, strict=True)]
    apart = [n, *(each for pair in zip(outer, blocks, strict=True) for each in pair), multiply_parts(rest)]
    # [n, outer_0, block_0, outer_1, block_1, ..., rest] -> [block_0, block_1, ..., n, outer_0, outer_1, ..., rest]
    perm = (*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), 2 * count + 1)
    return rearrange_dimensions(x, apart, perm, [n * math.prod(blocks), *outer, *rest], name)


def _pad_block_dimensions(x: Tensor, pairs: Sequence[tuple[Part, Part]]) -> Tensor:
    """Pad the dimensions after the first with zeros; return `x` itself if all sizes are known to be 0."""
    if not any(isinstance(each, Tensor) or each for pair in pairs for each in pair):
        return x
    own = [(0, 0), *pairs]
    if x.rank is not None:
        around = _stack_pairs([*own, *[(0, 0)] * (x.rank - len(own))])
    else:
        # only the step knows how many dimensions are left without padding
        rest = join_parts([apply("Rank", x) - len(own), 2])
        around = apply("Concat", [_stack_pairs(own), apply("Fill", rest, constant(np.int32(0)))], axis=0)
    return apply("Pad", x, around, constant(np.zeros((), x.dtype.numpy)))


@public
def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Assemble blocks from the tensors of a batch, and crop the edges: the inverse of `space_to_batch_nd`.

    Parameters
    ----------
    input : Tensor of any dtype, of shape [batch, ...]
        The batch is a multiple of the number of elements of a block.
    block_shape : sequence of int
        Sizes of a block along the dimensions after the first.
    crops : int32 or int64 Tensor of shape ``[len(block_shape), 2]``
        Rows to cut off before and after, along each of these.

    Returns
    -------
    Tensor
        Same dtype; the first dimension is divided by the number of elements of a block, the blocked dimensions are
        multiplied by its sizes.

    Raises
    ------
    ShapeError
        If blocks do not fit, or the crops exceed a size.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.batch_to_space_nd([[1, 3], [2, 0]], [2], [[0, 1]])).sync()
    array([[1, 2, 3]], dtype=int32)
    """
    x = convert_to_tensor(input)
    blocks = _read_block_sizes(x, block_shape, "batch_to_space_nd")
    pairs, count = _read_pairs(crops, len(blocks), "crops"), len(blocks)
    n, *sizes = leading_sizes(x, count + 1)
    rest = trailing_sizes(x, count + 1)
    few, inner = divide_size(n, math.prod(blocks), x, "batch"), multiply_parts(rest)
    whole = [size * b for size, b in zip(sizes, blocks, strict=True)]
    # [block_0, block_1, ..., n, size_0, size_1, ..., rest] -> [n, size_0, block_0, size_1, block_1, ..., rest]
    perm = (count, *(each for i in range(count) for each in (count + 1 + i, i)), 2 * count + 1)
    spread = rearrange_dimensions(x, [*blocks, few, *sizes, inner], perm, [few, *whole, inner], None)
    left = [size - before - behind for size, (before, behind) in zip(whole, pairs, strict=True)]
    for size in left:
        if isinstance(size, int) and size < 0:
            raise ShapeError(
                "batch_to_space_nd cannot cut off more than there is",
                wanted=f"crops within {whole}",
                got=pairs,
                operation=x.op,
                hint="crops are what space_to_batch_nd was given as paddings",
            )
    begin, size = (
        join_parts([0, *(before for before, _ in pairs), 0]),
        join_parts([few, *map(_make_negative_invalid, left), inner]),
    )
    cropped = apply("Slice", spread, begin, size)
    return with_parts(apply("Reshape", cropped, join_parts([few, *left, *rest]), name=name), [few, *left, *rest])


def _make_negative_invalid(size: Part) -> Part:
    """Return the size, doubled if negative: a computed -1 would mean the whole dimension, and no slice accepts -2."""
    return size if isinstance(size, int) else size + apply("Minimum", size, 0)


@public
def space_to_batch(
    input: Any, paddings: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """Distribute the pixels of each square block over the batch: `space_to_batch_nd` with two equal sizes.

    Parameters
    ----------
    input : Tensor of any numeric dtype, of shape [batch, height, width, channels]
    paddings : int32 or int64 Tensor of shape [2, 2]
    block_size : int
    block_shape : sequence of int, optional
        Instead of `block_size`: the sizes of a block, as `space_to_batch_nd` takes them.

    Returns
    -------
    Tensor
        Same dtype.

    Raises
    ------
    GraphError
        If neither or both of `block_size` and `block_shape` are given.
    ShapeError
        If blocks do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.space_to_batch([[[[1], [2]], [[3], [4]]]], [[0, 0], [0, 0]], 2)).sync().ravel()
    array([1, 2, 3, 4], dtype=int32)
    """
    return space_to_batch_nd(input, _read_block_shape(block_size, block_shape), paddings, name)


@public
def batch_to_space(
    input: Any, crops: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """Assemble square blocks from the images of a batch: `batch_to_space_nd` with two equal sizes.

    Parameters
    ----------
    input : Tensor of any dtype, of shape [batch, height, width, channels]
    crops : int32 or int64 Tensor of shape [2, 2]
    block_size : int
    block_shape : sequence of int, optional
        Instead of `block_size`: the sizes of a block, as `batch_to_space_nd` takes them.

    Returns
    -------
    Tensor
        Same dtype.

    Raises
    ------
    GraphError
        If neither or both of `block_size` and `block_shape` are given.
    ShapeError
        If blocks do not fit, or the crops exceed a size.

    Examples
    --------
    >>> import tagloom as tg
    >>> images = [[[[1]]], [[[2]]], [[[3]]], [[[4]]]]
    >>> tg.function(lambda: tg.batch_to_space(images, [[0, 0], [0, 1]], 2)).sync().tolist()
    [[[[1]], [[3]]]]
    """
    return batch_to_space_nd(input, _read_block_shape(block_size, block_shape), crops, name)


def _read_block_shape(block_size: Any, block_shape: Any) -> Any:
    """Return the block shape from `block_size` or `block_shape`; GraphError for both or neither."""
    if (block_size is None) == (block_shape is None):
        raise GraphError(
            "a block has one size, or sizes",
            wanted="block_size or block_shape",
            got=f"block_size={block_size}, block_shape={block_shape}",
            hint="block_size=2 is block_shape=[2, 2]",
        )
    return [static_int(block_size, "block_size")] * 2 if block_shape is None else block_shape


@public
def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Find the least paddings to whole blocks, and the crops to undo them.

    Parameters
    ----------
    input_shape : int32 or int64 Tensor of shape [n]
        Sizes of the dimensions to cut into blocks.
    block_shape : int32 or int64 Tensor of shape [n]
    base_paddings : int32 or int64 Tensor of shape [n, 2], optional
        Least paddings; 0 when None.

    Returns
    -------
    paddings : Tensor
        Of shape [n, 2], for `space_to_batch_nd`; missing rows are added at the end.
    crops : Tensor
        Of shape [n, 2], for `batch_to_space_nd`: the rows at the end in excess of `base_paddings`.

    Examples
    --------
    >>> import tagloom as tg
    >>> paddings, crops = tg.function(lambda: tg.required_space_to_batch_paddings([5, 6], [2, 3])).sync()
    >>> paddings.tolist(), crops.tolist()
    ([[0, 1], [0, 0]], [[0, 1], [0, 0]])
    """
    base = [[0, 0]] if base_paddings is None else base_paddings
    tensors = [cast(index_tensor(value), dtypes.int32) for value in (input_shape, block_shape, base)]
    known = [static_value(tensor) for tensor in tensors]
    if any(value is None for value in known):
        sizes, blocks, around = tensors
        # The least number that makes the padded size a multiple of the block.
        missing = apply("FloorMod", -(sizes + apply("Sum", around, axis=(1,))), blocks)
        # Mul by 0 makes zeros of the shape of `missing`
        behind = apply("Stack", [apply("Mul", missing, 0), missing], axis=1)
        return apply("Add", around, behind, name=name), behind
    size_values, block_values, base_values = known
    missing_values = -(size_values + base_values.sum(1)) % block_values  # type: ignore[union-attr]
    ends = np.stack([np.zeros_like(missing_values), missing_values], 1)
    return constant(base_values + ends, name=name), constant(ends)
