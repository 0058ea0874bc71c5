"""Windows sliding over the spatial dimensions of images: the elements that each window sees.

Kernels iterate over the places in a window and not over the windows: the elements of all windows at a place are a
strided view.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED
from ...ir.tensor import Tensor
from .arguments import static_ints

WINDOWS = {"window": REQUIRED, "strides": REQUIRED, "rates": REQUIRED, "padding": REQUIRED, "channels_first": False}
LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows along an axis.

    Attributes
    ----------
    size : int
        Elements along the axis.
    window, stride, rate : int
        Elements in a window, from a window to the next, and from an element of a window to the next.
    before : int
        Elements of padding before the first.
    count : int
        Number of windows.
    """

    size: int
    window: int
    stride: int
    rate: int
    before: int
    count: int

    def at(self, place: int) -> tuple[slice, slice]:
        """Return the slice of windows with an element (not padding) at a place, and the slice of these elements."""
        # Window i sees at `place` the element i * stride - offset: first and last are the i for which it exists.
        offset = self.before - place * self.rate
        first = max(0, -(-offset // self.stride))
        last = min(self.count, (self.size - 1 + offset) // self.stride + 1)
        if last <= first:
            return slice(0, 0), slice(0, 0)
        # The stop is one after the last element, so that both slices have `last - first` entries.
        start = first * self.stride - offset
        return slice(first, last), slice(start, start + (last - first - 1) * self.stride + 1, self.stride)

    def lengths(self) -> list[int]:
        """Return the number of elements in each window, without padding."""
        found = [0] * self.count
        for place in range(self.window):
            # Places in the padding belong to no window here.
            for i in range(*self.at(place)[0].indices(self.count)):
                found[i] += 1
        return found


def windows_along(size: int, window: int, stride: int, rate: int, padding: Any) -> Windows:
    """Return the windows along an axis of an image; ValueError if it is smaller than a window by more than a stride."""
    count, reach = _count_windows(size, window, stride, rate, padding), (window - 1) * rate + 1
    if count < 0:
        raise ValueError(f"a window of {reach} elements is larger than the image, of {size} with padding {padding}")
    if padding == "VALID":
        before = 0
    elif padding == "SAME":
        # The number of windows follows from the stride alone; an odd element of padding goes after the image.
        before = max((count - 1) * stride + reach - size, 0) // 2
    else:
        before = padding[0]
    return Windows(size, window, stride, rate, before, count)


def _count_windows(size: int, window: int, stride: int, rate: int, padding: Any) -> int:
    """Return the number of windows; 0 or less if the image is smaller than a window."""
    if padding == "SAME":
        return -(-size // stride)
    # An image smaller than a window by at most a stride has 0 windows, which is no error.
    around = 0 if padding == "VALID" else sum(padding)
    return (size + around - (window - 1) * rate - 1 + stride) // stride


def _padding_per_axis(attrs: Mapping[str, Any]) -> Sequence[Any]:
    padding = attrs["padding"]
    return [padding] * len(attrs["window"]) if isinstance(padding, str) else padding


def spatial_axes(attrs: Mapping[str, Any]) -> range:
    """Return the spatial axes of an image."""
    first = 2 if attrs["channels_first"] else 1
    return range(first, first + len(attrs["window"]))


def windows_of(sizes: Sequence[int], attrs: Mapping[str, Any]) -> list[Windows]:
    """Return the windows along each spatial axis of an image of these sizes; ValueError for a wrong rank."""
    if len(sizes) != len(attrs["window"]) + 2:
        raise ValueError(
            f"images with {len(attrs['window'])} spatial dimensions are wanted, not of shape {list(sizes)}"
        )
    spatial = [sizes[i] for i in spatial_axes(attrs)]
    each = zip(spatial, attrs["window"], attrs["strides"], attrs["rates"], _padding_per_axis(attrs), strict=True)
    return [windows_along(*one) for one in each]


def check_not_empty(windows: Sequence[Windows]) -> None:
    """Raise ValueError if a window has nothing but padding."""
    for each in windows:
        if not all(each.lengths()):
            what = f"a window of {each.window} elements, {each.rate} apart"
            raise ValueError(f"{what}, lies in the padding of an image of size {each.size} as a whole")


def iterate_places(windows: Sequence[Windows], attrs: Mapping[str, Any]) -> Iterator[tuple[int, tuple[Any, ...], Any]]:
    """Yield, per place in a window, its number, the index of windows with an element there, and the element index."""
    lead = (slice(None),) * spatial_axes(attrs)[0]
    # Row-major: the number is the place's index in the flattened window.
    for number, place in enumerate(itertools.product(*(range(each.window) for each in windows))):
        pairs = [each.at(k) for each, k in zip(windows, place, strict=True)]
        yield number, (*lead, *(outer for outer, _ in pairs)), (*lead, *(inner for _, inner in pairs))


def counts_in(sizes: Sequence[int], windows: Sequence[Windows], attrs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return `sizes` with the spatial dimensions replaced by the numbers of windows."""
    result = list(sizes)
    for axis, each in zip(spatial_axes(attrs), windows, strict=True):
        result[axis] = each.count
    return tuple(result)


def check_fits(
    found: Sequence[int], sizes: Sequence[int], windows: Sequence[Windows], attrs: Mapping[str, Any]
) -> None:
    """Raise ValueError unless `found` is the shape of an element for each window of an image."""
    wanted = counts_in(sizes, windows, attrs)
    if tuple(found) != wanted:
        raise ValueError(f"an image of shape {tuple(sizes)} has windows of shape {wanted}, not {tuple(found)}")


def windows_shape(shape: Shape, attrs: Mapping[str, Any]) -> Shape:
    """Return the static shape of a result for each window of an image."""
    check_windows(attrs)
    image = list(shape.with_rank(len(attrs["window"]) + 2))
    each = zip(
        spatial_axes(attrs), attrs["window"], attrs["strides"], attrs["rates"], _padding_per_axis(attrs), strict=True
    )
    for axis, *how in each:
        size = image[axis]
        image[axis] = None if size is None else _static_count(size, *how)
    return Shape(image)


def _static_count(size: int, window: int, stride: int, rate: int, padding: Any) -> int:
    """Return the number of windows; ShapeError if the image is smaller than a window by more than a stride."""
    count = _count_windows(size, window, stride, rate, padding)
    if count < 0:
        raise ShapeError(
            "a window is larger than the image",
            wanted=f"at most {size} elements, and padding",
            got=(window - 1) * rate + 1,
            hint="pad with padding='SAME', or take smaller windows",
        )
    return count


def check_windows(attrs: Mapping[str, Any]) -> None:
    """Raise GraphError for invalid windows: a graph read from text may contain anything."""
    numbers = [attrs[key] for key in ("window", "strides", "rates")]
    if any(not isinstance(n, int) or n < 1 for each in numbers for n in each) or len({len(n) for n in numbers}) != 1:
        raise GraphError(
            "windows, strides and rates are positive numbers, one for each spatial dimension",
            wanted="1 or more",
            got=", ".join(map(str, numbers)),
            hint="give one number for all dimensions",
        )
    if attrs["padding"] not in ("SAME", "VALID"):
        check_padding(attrs["padding"], len(attrs["window"]))


def check_padding(padding: Any, rank: int) -> None:
    """Raise GraphError for padding other than a pair of sizes for each spatial dimension."""
    pairs = not isinstance(padding, str) and len(padding) == rank and all(len(p) == 2 for p in padding)
    if not pairs or any(not isinstance(n, int) or n < 0 for pair in padding for n in pair):
        raise GraphError(
            "no such padding",
            wanted="'SAME', 'VALID', or a pair of sizes for each spatial dimension",
            got=repr(padding),
            hint="'SAME' keeps the size where strides are 1",
        )


def patch_size(attrs: Mapping[str, Any]) -> int:
    """Return the number of elements in a window."""
    return math.prod(attrs["window"])


def spatial_numbers(value: Any, rank: int, what: str, channels_first: bool = False) -> tuple[int, ...]:
    """Read an argument with a number for each spatial dimension.

    Parameters
    ----------
    value : int or sequence of int
        A number for all, a number for each, or a number for each dimension of the image, 1 for batch and channels.
    rank : int
        Number of spatial dimensions.
    what : str
        Name of the argument.
    channels_first : bool
        Whether channels are before the spatial dimensions.

    Returns
    -------
    tuple of int
        A number for each spatial dimension.
    """
    numbers = static_ints(value, what)
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) == rank + 2:
        first = 2 if channels_first else 1
        others = numbers[:first] + numbers[first + rank :]
        # The empty tuple fails the check below.
        numbers = numbers[first : first + rank] if others == (1, 1) else ()
    if len(numbers) != rank or min(numbers) < 1:
        raise GraphError(
            f"'{what}' has to have a positive number for each spatial dimension",
            wanted=f"{rank} numbers; or {rank + 2}, of which those of batch and channels are 1",
            got=value,
            hint="transpose the image to go along other dimensions",
        )
    return numbers


def is_channels_first(data_format: str | None, rank: int) -> bool:
    """Read the data format of images with `rank` spatial dimensions; True if channels are first."""
    last, first = LAYOUTS[rank]
    if not isinstance(data_format, str | None) or data_format not in (None, last, first):
        raise GraphError(
            "no such data format",
            wanted=f"'{last}' or '{first}'",
            got=repr(data_format),
            hint="transpose the value to one of these",
        )
    return data_format == first


def channels_last(x: Tensor, rank: int, channels_first: bool = True) -> Tensor:
    """Return images with their channels last, transposed if `channels_first`."""
    order = (0, *range(2, rank + 2), 1)
    return apply("Transpose", x, perm=order) if channels_first else x


def channels_first_again(y: Tensor, rank: int, name: str | None = None) -> Tensor:
    """Return images `y` of `rank` spatial dimensions, whose channels are last, with the channels first."""
    return apply("Transpose", y, perm=(0, rank + 1, *range(1, rank + 1)), name=name)


def padding_of(value: Any, rank: int, channels_first: bool = False) -> Any:
    """Read the padding of images: 'SAME', 'VALID', or pairs of sizes."""
    if isinstance(value, str):
        return value.upper()
    if not hasattr(value, "__iter__") or isinstance(value, (Tensor, dict)):
        raise ShapeError(
            "this is not a padding",
            wanted="'SAME', 'VALID', or a pair of sizes for each dimension",
            got=repr(value),
            hint="padding='SAME' keeps the size",
        )
    pairs = tuple(static_ints(pair, "padding") for pair in value)
    if len(pairs) == rank + 2:
        first = 2 if channels_first else 1
        others = {*pairs[:first], *pairs[first + rank :]}
        # Pairs that pad the batch or the channels stay too many, and `check_padding` rejects them.
        pairs = pairs[first : first + rank] if others == {(0, 0)} else pairs
    return pairs


@dataclass(frozen=True, slots=True)
class Sliding:
    """The arguments of a public function for the way its windows go over images.

    Attributes
    ----------
    rank : int
        Number of spatial dimensions.
    strides, dilations : int or sequence of int
        Distances of windows, and of the elements in a window.
    padding : str or sequence of pairs
    data_format : str or None
        Order of the dimensions; with the channels last when None.
    """

    rank: int
    strides: Any
    padding: Any
    dilations: Any
    data_format: str | None

    @property
    def is_channels_first(self) -> bool:
        """True if the channels are the second dimension; GraphError for an unknown format."""
        return is_channels_first(self.data_format, self.rank)

    def convolution_attrs(self) -> dict[str, Any]:
        """Return the attributes of a convolution."""
        first = self.is_channels_first
        strides = 1 if self.strides is None else self.strides
        dilations = 1 if self.dilations is None else self.dilations
        return {
            "strides": spatial_numbers(strides, self.rank, "strides", first),
            "padding": padding_of(self.padding, self.rank, first),
            "dilations": spatial_numbers(dilations, self.rank, "dilations", first),
        }

    def window_attrs(self, window: Any) -> dict[str, Any]:
        """Return the attributes of an operation on windows of a size."""
        first = self.is_channels_first
        return window_attrs(window, self.strides, self.dilations, self.padding, self.rank, first)


def window_attrs(
    window: Any, strides: Any, rates: Any, padding: Any, rank: int, channels_first: bool = False
) -> dict[str, Any]:
    """Return the attributes of a windowed operation from the arguments of its public function."""
    return {
        "window": spatial_numbers(window, rank, "ksize", channels_first),
        "strides": spatial_numbers(strides, rank, "strides", channels_first),
        "rates": spatial_numbers(rates, rank, "rates", channels_first),
        "padding": padding_of(padding, rank, channels_first),
        "channels_first": channels_first,
    }
