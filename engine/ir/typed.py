"""Types for editors and type checkers: arrays for fetched tensors, tensors for results of branches.

None of them is used at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np

from ..base.dtypes import DType
from .operation import Operation
from .tensor import Tensor

Array: TypeAlias = np.ndarray[Any, Any]
V_co = TypeVar("V_co", covariant=True)


class Fetchable(Protocol[V_co]):
    """Tensor, variable, operation or other fetchable object; `V_co` is the type of its value."""

    def _fetched(self) -> V_co: ...


class AsTensor(Protocol):
    """Object convertible to a tensor on use, such as a variable."""

    def _as_tensor(self) -> Tensor: ...


class NamedFields(Protocol):
    """Named tuple, whose type matters beside its length."""

    def _asdict(self) -> dict[str, Any]: ...


class HasArray(Protocol):
    """Array of another library, which NumPy converts."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


TensorLike: TypeAlias = "Tensor | AsTensor | np.ndarray[Any, Any] | np.generic | complex | str | bytes"
ArrayLike: TypeAlias = "TensorLike | HasArray | Sequence[Any]"  # nested sequences too; an array is made of them
DTypeLike: TypeAlias = "DType | str | type[Any] | np.dtype[Any]"
Result: TypeAlias = "TensorLike | Operation"  # of a branch: an operation becomes true when it has run


class LoopOptions(TypedDict, total=False):
    """Keyword arguments of `while_loop` without influence on the type of its result."""

    parallel_iterations: int | str
    back_prop: bool
    swap_memory: bool
    maximum_iterations: Any
    name: str | None
    independent: bool
    checkpoint_every: int | None


class FoldOptions(TypedDict, total=False):
    """Keyword arguments of `foldl` and `foldr`."""

    parallel_iterations: int | str
    back_prop: bool
    swap_memory: bool
    name: str | None
    checkpoint_every: int | None


class MapOptions(FoldOptions, total=False):
    """Keyword arguments of `map_fn`."""

    infer_shape: bool
    batch_size: int | None


class ScanOptions(FoldOptions, total=False):
    """Keyword arguments of `scan`."""

    infer_shape: bool
    reverse: bool
