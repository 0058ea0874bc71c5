"""IndexedSlices: sparse rows of a dense tensor, the gradient of `gather`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...base.dtypes import DType
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.static_values import static_shape
from ...ir.tensor import Operators, Tensor


@dataclass(frozen=True, eq=False)
class IndexedSlices:
    """Rows ``values[i]`` at ``indices[i]`` of a tensor, zero elsewhere.

    A nested structure of its tensors. Operations on dense tensors convert it, repeated indices adding up, which needs
    the dense shape; accumulation and variable updates keep the slices sparse and need none.

    Attributes
    ----------
    values : Tensor of shape [n, ...]
        The rows.
    indices : int32 or int64 Tensor of shape [n]
        Their positions along axis 0, in any order, with repeats.
    dense_shape : int32 or int64 vector, or None
        Shape of the dense tensor, if known.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     table = tg.constant([[1.0], [2.0], [3.0]])
    ...     (g,) = tg.gradients(tg.gather(table, [2, 0, 2]), [table])
    ...     dense = tg.convert_to_tensor(g)
    >>> with tg.SyncSession(graph) as session:
    ...     [value.tolist() for value in session.run([g.indices, dense])]
    [[2, 0, 2], [[1.0], [0.0], [2.0]]]
    """

    # A NumPy array on the left leaves the operator to the reflected method here.
    __array_ufunc__ = None

    values: Tensor
    indices: Tensor
    dense_shape: Tensor | None = None

    @property
    def dtype(self) -> DType:
        """Dtype of the values."""
        return self.values.dtype

    @property
    def shape(self) -> Shape:
        """Static shape of the dense tensor."""
        if self.dense_shape is None:
            rows: Shape = self.values.shape[1:]
            return Shape([None]) + rows
        if not isinstance(self.dense_shape, Tensor):  # fetched values are arrays
            return Shape(self.dense_shape)
        return static_shape(self.dense_shape)

    def _as_tensor(self) -> Tensor:
        """Return the dense tensor; GraphError without a dense shape."""
        if self.dense_shape is None:
            raise GraphError(
                "IndexedSlices without a dense shape cannot be made one tensor",
                wanted="slices that know how many rows there are",
                got="dense_shape=None",
                operation=self.values.op,
                hint="give IndexedSlices(values, indices, dense_shape), with dense_shape=tg.shape(x)",
            )
        places = apply("ExpandDims", self.indices, axis=-1)
        return apply("ScatterNd", places, self.values, self.dense_shape)

    def _refuse_operator(self, other: Any = None) -> Any:
        """Refuse an operator; NotImplemented beside a tensor, whose own operator then converts the slices."""
        if isinstance(other, Operators):
            return NotImplemented
        raise GraphError(
            "IndexedSlices have no operators",
            wanted="a tensor",
            got=f"rows of a tensor of shape {self.shape}",
            operation=getattr(self.values, "op", None),  # fetched values have none
            hint="convert_to_tensor(slices) is dense; IndexedSlices(2.0 * slices.values, slices.indices, "
            "slices.dense_shape) are other rows",
        )


_BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow")
for _name in ("neg", *_BINARY, *(f"r{name}" for name in _BINARY)):
    setattr(IndexedSlices, f"__{_name}__", IndexedSlices._refuse_operator)
