"""Initializers: functions from shape and dtype to a parameter's initial value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtypes import DType, as_dtype
from ..base.shapes import Shape
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.creation import fill
from ..ops.array.shapes import reshape
from ..ops.math.casting import cast
from ..ops.math.random import random_normal, random_uniform, truncated_normal


class Initializer:
    """A function from a shape, and optionally a dtype, to an initial value.

    For layers, `get_variable`, and ``Variable(initializer, shape=...)``.

    Parameters
    ----------
    make : callable
        Function of a list of sizes and a DType; returns a tensor or array-like.
    dtype : dtype-like
        Dtype of calls without a dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> halves = tg.nn.Initializer(lambda shape, dtype: tg.fill(shape, tg.cast(0.5, dtype)))
    >>> tg.function(lambda: halves([2], "float64")).sync()
    array([0.5, 0.5])
    """

    def __init__(self, make: Callable[[list[int], DType], Any], dtype: Any = "float32") -> None:
        self.dtype: DType = as_dtype(dtype)
        self._make = make

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        size = list(Shape([shape] if isinstance(shape, int) else shape).as_tuple())
        return convert_to_tensor(self._make(size, wanted), wanted)


def zeros_initializer(dtype: Any = "float32") -> Initializer:
    """Return an initializer of zeros, for all dtypes except strings.

    Parameters
    ----------
    dtype : dtype-like

    Returns
    -------
    Initializer

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     v = tg.Variable(tg.nn.zeros_initializer(), shape=[2, 3])
    >>> v.initial_value.shape
    Shape(2, 3)
    """
    return Initializer(lambda shape, wanted: fill(shape, cast(0, wanted)), dtype)


def ones_initializer(dtype: Any = "float32") -> Initializer:
    """Return an initializer of ones, for all dtypes except strings.

    Parameters
    ----------
    dtype : dtype-like

    Returns
    -------
    Initializer

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.nn.ones_initializer("int32")([2])).sync()
    array([1, 1], dtype=int32)
    """
    return Initializer(lambda shape, wanted: fill(shape, cast(1, wanted)), dtype)


def constant_initializer(value: Any = 0, dtype: Any = "float32") -> Initializer:
    """Return an initializer with constant numbers.

    Parameters
    ----------
    value : number or array-like
        A number for all elements, or as many numbers as elements, which are reshaped.
    dtype : dtype-like

    Returns
    -------
    Initializer
        Raises ShapeError when called with a shape of another number of elements.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.nn.constant_initializer([1, 2, 3, 4])([2, 2])).sync()
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """

    def fill_shape(shape: list[int], wanted: DType) -> Tensor:
        values = convert_to_tensor(value, wanted)
        # Reshaped, not broadcast: a wrong number of elements is an error.
        return fill(shape, values) if values.rank == 0 else reshape(values, shape)

    return Initializer(fill_shape, dtype)


def random_normal_initializer(
    mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = "float32"
) -> Initializer:
    """Return an initializer that draws from a normal distribution.

    Parameters
    ----------
    mean, stddev : float or floating scalar Tensor
    seed : int, optional
        As for `random_uniform`: without a seed, variables differ, but not between runs of a program.
    dtype : dtype-like
        A floating dtype.

    Returns
    -------
    Initializer

    Examples
    --------
    >>> import tagloom as tg
    >>> drawn = tg.function(lambda: tg.nn.random_normal_initializer(5.0, 0.1)([10000])).sync()
    >>> round(float(drawn.mean()), 1), round(float(drawn.std()), 2)
    (5.0, 0.1)
    """
    return Initializer(lambda shape, wanted: random_normal(shape, mean, stddev, wanted, seed), dtype)


def random_uniform_initializer(
    minval: Any = -0.05, maxval: Any = 0.05, seed: int | None = None, dtype: Any = "float32"
) -> Initializer:
    """Return an initializer that draws from a uniform distribution.

    Parameters
    ----------
    minval, maxval : number or scalar Tensor
        The range; an integer `dtype` needs integers.
    seed : int, optional
        As for `random_normal_initializer`.
    dtype : dtype-like
        A floating or integer dtype.

    Returns
    -------
    Initializer

    Examples
    --------
    >>> import tagloom as tg
    >>> drawn = tg.function(lambda: tg.nn.random_uniform_initializer(2, 4, dtype="int32")([100])).sync()
    >>> int(drawn.min()), int(drawn.max())
    (2, 3)
    """
    return Initializer(lambda shape, wanted: random_uniform(shape, minval, maxval, wanted, seed), dtype)


def truncated_normal_initializer(
    mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = "float32"
) -> Initializer:
    """Return an initializer that draws from a normal distribution within two standard deviations of the mean.

    Parameters
    ----------
    mean, stddev : float or floating scalar Tensor
    seed : int, optional
        As for `random_normal_initializer`.
    dtype : dtype-like
        A floating dtype.

    Returns
    -------
    Initializer

    Examples
    --------
    >>> import tagloom as tg
    >>> drawn = tg.function(lambda: tg.nn.truncated_normal_initializer(stddev=0.1)([10000])).sync()
    >>> bool(abs(drawn).max() <= 0.2)
    True
    """
    return Initializer(lambda shape, wanted: truncated_normal(shape, mean, stddev, wanted, seed), dtype)
