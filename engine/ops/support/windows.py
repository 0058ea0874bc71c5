"""Windows that slide over images: how many there are, and what is padded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from .arguments import static_ints

Padding = str | tuple[tuple[int, int], ...]
LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window along one dimension.

    Attributes
    ----------
    window, stride, dilation : int
    before, after : int
        Elements of padding.
    count : int
        Windows.
    """

    window: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    def places(self, i: int) -> slice:
        """Return where, in the padded dimension, each window has its element `i`."""
        begin = i * self.dilation
        return slice(begin, begin + (self.count - 1) * self.stride + 1, self.stride)


def sliding(
    size: int | None, window: int | None, stride: int, dilation: int, padding: str | tuple[int, int]
) -> Sliding | None:
    """Return how a window slides along a dimension; None if a size is not known.

    Parameters
    ----------
    size : int or None
        Of the dimension.
    window, stride, dilation : int
        `dilation` is how far apart the elements of the window are.
    padding : {'SAME', 'VALID'} or (int, int)
        SAME has ``ceil(size / stride)`` windows, and where that makes the padding uneven one element more at the end.

    Raises
    ------
    ValueError
        If not one window fits.
    """
    if size is None or window is None:
        return None
    length = (window - 1) * dilation + 1
    if padding == "SAME":
        count = -(-size // stride)
        total = max(0, (count - 1) * stride + length - size)
        return Sliding(window, stride, dilation, total // 2, total - total // 2, count)
    before, after = (0, 0) if padding == "VALID" else padding
    padded = size + int(before) + int(after)
    if padded < length:
        raise ValueError(f"a window of {length} elements does not fit into {padded}, padding included")
    return Sliding(window, stride, dilation, int(before), int(after), (padded - length) // stride + 1)


def slidings(
    sizes: Sequence[int | None],
    window: Sequence[int | None],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int],
) -> list[Sliding | None]:
    """Return `sliding` for each dimension of an image."""
    each: Sequence[Any] = [padding] * len(strides) if isinstance(padding, str) else padding
    return [sliding(*given) for given in zip(sizes, window, strides, dilations, each, strict=True)]


def known_slidings(images: Shape, window: Shape, op: Operation) -> list[Sliding | None]:
    """Return how the windows of an operation slide over its images, as far as their static shapes tell.

    Parameters
    ----------
    images : Shape
        [batch, ..., channels].
    window : Shape
    op : Operation
        With attributes as `slidings` takes them.

    Raises
    ------
    ShapeError
        If not one window fits.
    """
    attrs = {key: op.attrs[key] for key in ("strides", "padding", "dilations")}
    try:
        return slidings(images[1:-1].dims, window.dims, **attrs)
    except ValueError as error:
        raise ShapeError(
            "the window is larger than what it slides over",
            got=str(error),
            wanted="room for one window at least",
            operation=op,
            hint="use padding='SAME', or a smaller window or dilation",
        ) from None


def padded(xp: Any, x: Any, along: Sequence[Sliding], value: Any = 0) -> Any:
    """Return images [batch, ..., channels] with their padding."""
    if all(s.before == s.after == 0 for s in along):
        return x
    sizes = [d + s.before + s.after for d, s in zip(x.shape[1:-1], along, strict=True)]
    result = xp.full((x.shape[0], *sizes, x.shape[-1]), value, dtype=x.dtype)
    result[inside(x.shape, along)] = x
    return result


def inside(shape: Sequence[int], along: Sequence[Sliding]) -> tuple[slice, ...]:
    """Return where images of a shape are in what `padded` gives."""
    middle = (slice(s.before, s.before + d) for d, s in zip(shape[1:-1], along, strict=True))
    return (slice(None), *middle, slice(None))


# ---- arguments


def spatial(value: Any, rank: int, what: str, data_format: str) -> tuple[int, ...]:
    """Return an attribute with a number for each dimension of an image.

    Parameters
    ----------
    value : int or sequence of int
        One for all, or as many as the images have dimensions, or with 1 for the batch and the channels.
    rank : int
        Dimensions of an image.
    what : str
        Name of the argument.
    data_format : str
        Where the channels are.
    """
    given = static_ints(1 if value is None else value, what)
    if len(given) == rank + 2:
        channels_first = data_format == LAYOUTS[rank][1]
        inner = given[2:] if channels_first else given[1:-1]
        rest = given[:2] if channels_first else (given[0], given[-1])
        if rest != (1, 1):
            raise GraphError(
                f"{what} has to be 1 for the batch and the channels",
                wanted="1",
                got=list(given),
                hint=f"give {rank} numbers, one for each dimension of an image",
            )
        given = inner
    if len(given) == 1:
        given = given * rank
    if len(given) != rank or min(given) < 1:
        raise GraphError(
            f"{what} has to be positive, a number for each dimension of an image",
            wanted=f"1, {rank} or {rank + 2} numbers",
            got=list(given),
            hint=f"give one number for all {rank}",
        )
    return given


def checked_padding(value: Any, rank: int, data_format: str) -> Padding:
    """Return padding as ``'SAME'``, ``'VALID'`` or a pair of sizes for each dimension of an image."""
    if isinstance(value, str) and value.upper() in ("SAME", "VALID"):
        return value.upper()
    pairs = [] if isinstance(value, str) or not isinstance(value, Sequence) else [static_ints(p) for p in value]
    if len(pairs) == rank + 2:
        pairs = pairs[2:] if data_format == LAYOUTS[rank][1] else pairs[1:-1]
    if len(pairs) != rank or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise GraphError(
            "no such padding",
            wanted=f"'SAME', 'VALID', or {rank} pairs of sizes that are not negative",
            got=repr(value),
            hint="a pair is what is in front and what is behind",
        )
    return tuple((before, after) for before, after in pairs)


def sliding_attrs(rank: int, strides: Any, padding: Any, dilations: Any, data_format: str) -> dict[str, Any]:
    """Return the attributes of what slides windows over images, from what a user gives."""
    return {
        "strides": spatial(strides, rank, "strides", data_format),
        "padding": checked_padding(padding, rank, data_format),
        "dilations": spatial(dilations, rank, "dilations", data_format),
    }


def checked_format(value: str | None, rank: int) -> str:
    """Return the layout of images, by default with the channels last."""
    known = LAYOUTS[rank]
    if value is None:
        return known[0]
    if value not in known:
        raise GraphError("no such data format", wanted=" or ".join(map(repr, known)), got=repr(value), hint=known[0])
    return value


def channels_last(x: Tensor, data_format: str, rank: int) -> Tensor:
    """Return images with their channels last."""
    if data_format == LAYOUTS[rank][0]:
        return x
    return apply("Transpose", x, perm=(0, *range(2, rank + 2), 1))  # type: ignore[no-any-return]


def as_format(y: Tensor, data_format: str, rank: int) -> Tensor:
    """Return images whose channels are last in another layout."""
    if data_format == LAYOUTS[rank][0]:
        return y
    return apply("Transpose", y, perm=(0, rank + 1, *range(1, rank + 1)))  # type: ignore[no-any-return]


def image_shape(shape: Shape, rank: int, what: str) -> Shape:
    """Return a shape that is known to have so many dimensions and two more; ShapeError if it can not."""
    if shape.rank not in (None, rank + 2):
        raise ShapeError(
            f"{what} has another rank",
            wanted=f"rank {rank + 2}",
            got=shape,
            hint="add a dimension with expand_dims, or take another function",
        )
    return shape.merge(Shape([None] * (rank + 2)))
