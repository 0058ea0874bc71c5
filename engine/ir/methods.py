"""Methods of NumPy's arrays for tensors and variables: each builds the operation of the public function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.public_names import load

if TYPE_CHECKING:
    from .tensor import Tensor


def _call_public(function: str, *arguments: Any) -> Tensor:
    result: Tensor = load(function)(*arguments)
    return result


class ArrayMethods:
    """Reductions and rearrangements with the signatures of NumPy's methods; `axis` is None, an int or several."""

    __slots__ = ()
    dtype: Any

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Add elements up along axes: `reduce_sum`."""
        return self._reduce_along("reduce_sum", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Average elements along axes: `reduce_mean`, but integers are cast first, so no mean is truncated."""
        if self.dtype.is_integer:
            return _call_public("reduce_mean", _call_public("cast", self, "float32"), axis, keepdims)
        return self._reduce_along("reduce_mean", axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Multiply elements along axes: `reduce_prod`."""
        return self._reduce_along("reduce_prod", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Return the largest elements along axes: `reduce_max`."""
        return self._reduce_along("reduce_max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Return the smallest elements along axes: `reduce_min`."""
        return self._reduce_along("reduce_min", axis, keepdims)

    def std(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Return the standard deviation along axes: `reduce_std`."""
        return self._reduce_along("reduce_std", axis, keepdims)

    def var(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Return the variance along axes: `reduce_variance`."""
        return self._reduce_along("reduce_variance", axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Return a bool tensor: True where an element along the axes is true, or a number other than 0."""
        return _call_public("reduce_any", self._as_truth(), axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Return a bool tensor: True where all elements along the axes are true, or numbers other than 0."""
        return _call_public("reduce_all", self._as_truth(), axis, keepdims)

    def argmax(self, axis: int | None = None) -> Tensor:
        """Return the places of the largest elements along an axis, or among all elements: `argmax`."""
        return self._find_place("argmax", axis)

    def argmin(self, axis: int | None = None) -> Tensor:
        """Return the places of the smallest elements along an axis, or among all elements: `argmin`."""
        return self._find_place("argmin", axis)

    def cumsum(self, axis: int | None = None) -> Tensor:
        """Return running sums along an axis, or of all elements in a row: `cumsum`."""
        return self._accumulate_along("cumsum", axis)

    def cumprod(self, axis: int | None = None) -> Tensor:
        """Return running products along an axis, or of all elements in a row: `cumprod`."""
        return self._accumulate_along("cumprod", axis)

    def transpose(self, *axes: Any) -> Tensor:
        """Permute the dimensions, passed as numbers or as a list; without arguments reverse them."""
        # Both t.transpose(1, 0) and t.transpose([1, 0]).
        listed = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return _call_public("transpose", self, list(listed) if listed else None)

    def squeeze(self, axis: Any = None) -> Tensor:
        """Remove dimensions of size 1, all or only the given axes: `squeeze`."""
        return _call_public("squeeze", self, axis)

    def flatten(self) -> Tensor:
        """Return all elements as a vector."""
        return _call_public("reshape", self, [-1])

    def ravel(self) -> Tensor:
        """Return all elements as a vector."""
        return self.flatten()

    def _reduce_along(self, function: str, axis: Any, keepdims: bool) -> Tensor:
        return _call_public(function, self, axis, keepdims)

    def _as_truth(self) -> Any:
        return self if self.dtype.name == "bool" else _call_public("not_equal", self, 0)

    def _find_place(self, function: str, axis: int | None) -> Tensor:
        return _call_public(function, self.flatten(), 0) if axis is None else _call_public(function, self, axis)

    def _accumulate_along(self, function: str, axis: int | None) -> Tensor:
        return _call_public(function, self.flatten() if axis is None else self, axis or 0)
