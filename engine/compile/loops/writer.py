"""Write operations into the region of a program that a pass changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.shapes import Shape
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.tensor import Tensor
from ...ops.array import strided as _operation  # noqa: F401  declares StridedSlice


class Writer:
    """Appends operations to a region in the place of another.

    Parameters
    ----------
    region : Region
    like : Operation
        Whose name, device and line they have.
    what : str, optional
        The rest of their names.
    """

    def __init__(self, region: Region, like: Operation, what: str = "inputs") -> None:
        self.region = region
        self.like = like
        self.what = what

    def emit(self, type: str, inputs: list[Tensor], dims: Any, attrs: Any = None, dtype: Any = None) -> Tensor:
        """Append an operation with one result, of the dtype of `like` unless said otherwise."""
        like, name = self.like, self.region.graph.unique_name(f"{self.like.name}/{self.what}")
        outputs = [(dtype or like.outputs[0].dtype, Shape(dims))]
        made = Operation(self.region, type, name, inputs, outputs, attrs=attrs, device=like.device, source=like.source)
        return made.outputs[0]

    def constant(self, value: Any, dtype: DType) -> Tensor:
        """Append a constant."""
        array = np.asarray(value, dtype.numpy)
        return self.emit("Const", [], array.shape, {"value": array}, dtype)

    def reshape(self, tensor: Tensor, dims: list[int]) -> Tensor:
        """Give a tensor of the dtype of `like` another shape, of which one dimension may be -1."""
        shape = [None if d < 0 else d for d in dims]
        return self.emit("Reshape", [tensor, self.constant(dims, dtypes.int32)], shape)

    def rows(self, matrix: Tensor, start: int, stop: int | None) -> Tensor:
        """Append a slice of a matrix."""
        dims = matrix.shape.as_tuple()
        height = (dims[0] if stop is None else stop) - start
        return self.emit("StridedSlice", [matrix], [height, *dims[1:]], {"spec": (slice(start, stop, None),)})
