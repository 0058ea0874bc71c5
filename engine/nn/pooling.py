"""Pooling layers: maximum or mean of windows or of all pixels."""

from __future__ import annotations

from typing import Any

from ..base.shapes import Shape
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.math.reductions import reduce_max, reduce_mean
from ..ops.nn.pooling import avg_pool, avg_pool1d, avg_pool3d, max_pool, max_pool1d, max_pool3d
from ..ops.support.windows import LAYOUTS, is_channels_first, padding_of, spatial_numbers
from .module import Module


class Pooling(Module):
    """Base of layers that pool windows."""

    rank = 2
    # Subclasses wrap it by staticmethod: a plain function would be bound to the layer as a method.
    function: Any = None

    def __init__(
        self,
        pool_size: Any,
        strides: Any = None,
        padding: Any = "VALID",
        data_format: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        first = is_channels_first(data_format, self.rank)
        self.data_format: str = LAYOUTS[self.rank][first]
        self.pool_size: tuple[int, ...] = spatial_numbers(pool_size, self.rank, "pool_size", first)
        self.strides: tuple[int, ...] = (
            self.pool_size if strides is None else spatial_numbers(strides, self.rank, "strides", first)
        )
        self.padding: Any = padding_of(padding, self.rank, first)

    def forward(self, inputs: Any) -> Tensor:
        """Return one element for each window and channel of `inputs`."""
        return self.function(inputs, self.pool_size, self.strides, self.padding, self.data_format)  # type: ignore[no-any-return]


class GlobalPooling(Module):
    """Base of layers that pool all pixels."""

    rank = 2
    function: Any = None

    def __init__(self, data_format: str | None = None, keepdims: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        # Pixels follow the batch, and the channels where these are first.
        first = 2 if is_channels_first(data_format, self.rank) else 1
        self.axes: tuple[int, ...] = tuple(range(first, first + self.rank))
        self.keepdims = keepdims

    def forward(self, inputs: Any) -> Tensor:
        """Return one element for each channel of `inputs`."""
        x = convert_to_tensor(inputs)
        x.shape.merge(Shape([None] * (self.rank + 2)))  # raises ShapeError for another rank
        return self.function(x, self.axes, self.keepdims)  # type: ignore[no-any-return]


class MaxPooling1D(Pooling):
    """Largest element of each window of sequences [batch, length, channels]: see `MaxPooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.MaxPooling1D(2)(tg.ones([2, 8, 3]))
    >>> y.shape
    Shape(2, 4, 3)
    """

    rank = 1
    function = staticmethod(max_pool1d)


class MaxPooling2D(Pooling):
    """Largest element of each window of images [batch, height, width, channels].

    Parameters
    ----------
    pool_size : int or sequence of int
        Sizes of the windows.
    strides : int or sequence of int, optional
        Distances between windows; the sizes of the windows when None.
    padding : str
        'VALID': windows lie inside of the images; 'SAME': ``size / strides`` windows, rounded up.
    data_format : str, optional
        'NCHW' where channels are the first dimension of an image.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.MaxPooling2D(2)(tg.ones([2, 8, 6, 3]))
    >>> y.shape
    Shape(2, 4, 3, 3)
    """

    rank = 2
    function = staticmethod(max_pool)


class MaxPooling3D(Pooling):
    """Largest element of each window of volumes [batch, depth, height, width, channels]: see `MaxPooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.MaxPooling3D([1, 2, 2])(tg.ones([2, 4, 8, 6, 3]))
    >>> y.shape
    Shape(2, 4, 4, 3, 3)
    """

    rank = 3
    function = staticmethod(max_pool3d)


class AveragePooling1D(Pooling):
    """Mean of each window of sequences [batch, length, channels]: see `MaxPooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.AveragePooling1D(2)(tg.ones([2, 8, 3]))
    >>> y.shape
    Shape(2, 4, 3)
    """

    rank = 1
    function = staticmethod(avg_pool1d)


class AveragePooling2D(Pooling):
    """Mean of each window of images [batch, height, width, channels]: see `MaxPooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.AveragePooling2D(2)(tg.ones([2, 8, 6, 3]))
    >>> y.shape
    Shape(2, 4, 3, 3)
    """

    rank = 2
    function = staticmethod(avg_pool)


class AveragePooling3D(Pooling):
    """Mean of each window of volumes [batch, depth, height, width, channels]: see `MaxPooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.AveragePooling3D([1, 2, 2])(tg.ones([2, 4, 8, 6, 3]))
    >>> y.shape
    Shape(2, 4, 4, 3, 3)
    """

    rank = 3
    function = staticmethod(avg_pool3d)


class GlobalMaxPooling1D(GlobalPooling):
    """Largest element of each channel of sequences [batch, length, channels]: see `GlobalAveragePooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.GlobalMaxPooling1D()(tg.ones([2, 8, 3]))
    >>> y.shape
    Shape(2, 3)
    """

    rank = 1
    function = staticmethod(reduce_max)


class GlobalMaxPooling2D(GlobalPooling):
    """Largest element of each channel of images [batch, height, width, channels]: see `GlobalAveragePooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.GlobalMaxPooling2D()(tg.ones([2, 8, 6, 3]))
    >>> y.shape
    Shape(2, 3)
    """

    rank = 2
    function = staticmethod(reduce_max)


class GlobalMaxPooling3D(GlobalPooling):
    """Largest element of each channel of volumes [batch, depth, height, width, channels]: see `GlobalAveragePooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.GlobalMaxPooling3D()(tg.ones([2, 4, 8, 6, 3]))
    >>> y.shape
    Shape(2, 3)
    """

    rank = 3
    function = staticmethod(reduce_max)


class GlobalAveragePooling1D(GlobalPooling):
    """Mean of each channel of sequences [batch, length, channels]: see `GlobalAveragePooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.GlobalAveragePooling1D()(tg.ones([2, 8, 3]))
    >>> y.shape
    Shape(2, 3)
    """

    rank = 1
    function = staticmethod(reduce_mean)


class GlobalAveragePooling2D(GlobalPooling):
    """Mean of each channel of images [batch, height, width, channels], whatever their sizes.

    Parameters
    ----------
    data_format : str, optional
        'NCHW' where channels are the first dimension of an image.
    keepdims : bool
        If True, the pooled dimensions remain, with size 1.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.GlobalAveragePooling2D()(tg.placeholder("float32", [2, None, None, 3]))
    >>> y.shape
    Shape(2, 3)
    """

    rank = 2
    function = staticmethod(reduce_mean)


class GlobalAveragePooling3D(GlobalPooling):
    """Mean of each channel of volumes [batch, depth, height, width, channels]: see `GlobalAveragePooling2D`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     y = tg.nn.GlobalAveragePooling3D()(tg.ones([2, 4, 8, 6, 3]))
    >>> y.shape
    Shape(2, 3)
    """

    rank = 3
    function = staticmethod(reduce_mean)
