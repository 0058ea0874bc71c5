"""Conversion of elements to arrays of given dtypes and shapes, with errors for misfits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.array_like import as_array
from ...base.errors import DtypeError, ShapeError
from .elements import describe_element, in_order_of, is_structure, leaves_of, skeleton_of

Array = np.ndarray[Any, Any]


class Conform:
    """A callable for conversion of an element to its leaves as arrays of a spec's dtypes and shapes.

    Bytes become vectors of uint8; numbers, strings and lists become arrays.

    Parameters
    ----------
    spec : structure of TensorSpec

    Raises
    ------
    DtypeError, ShapeError
        If an element does not fit.
    """

    def __init__(self, spec: object) -> None:
        self.spec: Any = spec
        self._skeleton = skeleton_of(spec)
        self._leaves = [_Leaf(each) for each in leaves_of(spec)]
        parts = list(spec.values()) if isinstance(spec, dict) else list(spec) if isinstance(spec, tuple) else []
        self._is_flat = bool(parts) and not any(map(is_structure, parts))
        self._keys = list(spec) if isinstance(spec, dict) and self._is_flat else None

    def __call__(self, element: object) -> list[Array]:
        return [leaf(value) for leaf, value in zip(self._leaves, self._leaf_values(element), strict=True)]

    def _leaf_values(self, element: object) -> Any:
        """Return the leaves of an element in the spec's order, with a fast path for structures of a single level."""
        if self._keys is not None and type(element) is dict and element.keys() == self._skeleton.keys():
            return [element[key] for key in self._keys]
        if self._keys is None and self._is_flat and type(element) is tuple and len(element) == len(self._leaves):
            return element
        if self._skeleton is None:
            return (element,)
        if skeleton_of(element) != self._skeleton:
            raise _other_structure(self.spec, element)
        return leaves_of(in_order_of(self._skeleton, element))


class _Leaf:
    """A callable for conversion of a value to an array of a spec's dtype and shape."""

    __slots__ = ("_dims", "_dtype", "_kind", "_least", "_most", "_spec")

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._dtype: np.dtype[Any] = spec.dtype.numpy
        self._dims: tuple[int | None, ...] | None = None if spec.shape.rank is None else spec.shape.dims
        self._kind: type | None = None  # Python type of numbers that need no conversion
        self._least: Any = 0  # bounds of the values that the dtype holds
        self._most: Any = 0
        if self._dims in ((), None):
            integral, floating = spec.dtype.is_integer, spec.dtype.is_floating
            self._kind = int if integral else float if floating else None
            if self._kind is not None:
                self._least, self._most = spec.dtype.min, spec.dtype.max

    def __call__(self, value: object) -> Array:
        if isinstance(value, np.ndarray) and value.dtype == self._dtype and self._has_fitting_shape(value.shape):
            return value
        if type(value) is self._kind and self._least <= value <= self._most:
            return np.array(value, self._dtype)
        return self._convert_value(value)

    def _has_fitting_shape(self, shape: tuple[int, ...]) -> bool:
        dims = self._dims
        return dims is None or (
            len(shape) == len(dims) and all(d is None or d == n for d, n in zip(dims, shape, strict=True))
        )

    def _convert_value(self, value: Any) -> Array:
        """Return the array of any other value; DtypeError or ShapeError for a misfit."""
        if is_structure(value):
            raise _other_structure(self._spec, value)
        try:
            data = np.frombuffer(value, np.uint8) if isinstance(value, (bytes, bytearray)) else value
            array = as_array(data, self._spec.dtype)
        except DtypeError as error:
            raise DtypeError(
                f"an element has another dtype than its spec: {error.what}",
                wanted=self._spec,
                got=describe_element(value),
                hint="cast it in a map, as by numpy.asarray(value, dtype)",
            ) from error
        if not self._has_fitting_shape(array.shape):
            raise ShapeError(
                "an element has another shape than its spec",
                wanted=self._spec,
                got=f"{array.dtype}{list(array.shape)}",
                hint="give None for dimensions that vary",
            )
        return array


def _other_structure(spec: object, element: object) -> ShapeError:
    return ShapeError(
        "an element has another structure than its spec",
        wanted=spec,
        got=describe_element(element),
        hint="let the last map return the structure of the spec",
    )
