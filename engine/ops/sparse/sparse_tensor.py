"""Sparse tensors: the structure of three tensors, its fed and fetched values, and its placeholder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, as_symbolic, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..control.placeholders import placeholder
from ..support.arguments import index_tensor


class SparseTensorValue(NamedTuple):
    """The arrays of a sparse tensor, as steps return them for fetches and accept them for feeds.

    Attributes
    ----------
    indices : array-like of int64, of shape [n, rank]
    values : array-like of shape [n]
    dense_shape : array-like of int64, of shape [rank]

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.sparse_placeholder("float32", [2, 3])
    ...     total = tg.sparse_reduce_sum(x, axis=1)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(total, {x: tg.SparseTensorValue([[0, 2], [1, 0]], [5.0, 7.0], [2, 3])})
    array([5., 7.], dtype=float32)
    """

    indices: Any
    values: Any
    dense_shape: Any


@dataclass(frozen=True, eq=False)
class SparseTensor:
    """A tensor with ``values[i]`` at ``indices[i]``, zero elsewhere.

    A nested structure of its three tensors: branches return it, loops carry it, and steps fetch and feed it as a
    SparseTensorValue. Its gradient is the gradient of its values. Most operations want distinct places in the order of
    rows, as `sparse_reorder` sorts them.

    Attributes
    ----------
    indices : int64 Tensor of shape [n, rank]
        Lists, arrays and int32 are converted.
    values : Tensor of any dtype, of shape [n]
    dense_shape : int64 Tensor of shape [rank]
        Shape of the dense tensor.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.SparseTensor([[0, 1], [2, 0]], [5.0, 7.0], [3, 2])
    ...     dense = tg.sparse_tensor_to_dense(x * 2.0)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(dense).tolist()
    [[0.0, 10.0], [0.0, 0.0], [14.0, 0.0]]
    """

    # A NumPy array on the left leaves the operator to the reflected method, if any.
    __array_ufunc__ = None

    indices: Tensor
    values: Tensor
    dense_shape: Tensor

    def __post_init__(self) -> None:
        sizes = _index_tensor(self.dense_shape, [0])
        rank = sizes.shape[0] if sizes.rank == 1 else None
        values = self.values if isinstance(self.values, Tensor) else convert_to_tensor(self.values)
        made = (_index_tensor(self.indices, [0, rank or 0]), values, sizes)
        for field, tensor, rank in zip(SparseTensorValue._fields, made, (2, 1, 1), strict=True):
            if tensor.rank not in (rank, None):
                raise ShapeError(
                    f"the {field} of a sparse tensor have rank {rank}",
                    wanted="[n, rank]" if rank == 2 else "[n]" if field == "values" else "[rank]",
                    got=tensor.shape,
                    operation=tensor.op,
                    hint="give SparseTensor(indices=[[row, column], ...], values=[...], dense_shape=[rows, columns])",
                )
            # The dataclass is frozen for its users.
            object.__setattr__(self, field, tensor)
        _check_sizes(*made)

    if TYPE_CHECKING:

        def _fetched(self) -> SparseTensorValue: ...  # see `ir/typed.py`

    def _with_leaves(self, *leaves: Any) -> Any:
        """Return the structure with other leaves: a SparseTensor of tensors, else a SparseTensorValue."""
        kind = SparseTensor if all(isinstance(leaf, Tensor) for leaf in leaves) else SparseTensorValue
        return kind(*leaves)

    @property
    def dtype(self) -> DType:
        """Dtype of the values."""
        return self.values.dtype

    @property
    def shape(self) -> Shape:
        """Static shape of the dense tensor."""
        found = static_shape(self.dense_shape)
        return Shape([None] * self.rank) if found.rank is None and self.rank is not None else found

    @property
    def rank(self) -> int | None:
        """Number of dimensions, None if unknown."""
        known = [t.shape[axis] for t, axis in ((self.dense_shape, 0), (self.indices, 1)) if t.rank is not None]
        # The sizes and the indices may each know the rank.
        return next((size for size in known if size is not None), None)

    def with_values(self, new_values: Any) -> SparseTensor:
        """Return a sparse tensor with other values at the same places.

        Parameters
        ----------
        new_values : Tensor of shape [n]

        Returns
        -------
        SparseTensor
            Of the dtype of `new_values`.
        """
        return SparseTensor(self.indices, convert_to_tensor(new_values), self.dense_shape)

    def __neg__(self) -> SparseTensor:
        return self.with_values(-self.values)

    def __mul__(self, other: Any) -> SparseTensor:
        return self.with_values(self.values * self._at_places(other))

    def __truediv__(self, other: Any) -> SparseTensor:
        return self.with_values(self.values / self._at_places(other))

    def _at_places(self, other: Any) -> Any:
        """Return the elements, at the places of the values, of a dense operand broadcast to the shape."""
        if isinstance(other, SparseTensor):
            raise GraphError(
                "two sparse tensors have no product element by element",
                wanted="a dense tensor, or a number",
                got=other,
                operation=other.values.op,
                hint="sparse_tensor_to_dense(y) is dense; sparse_add, sparse_maximum and sparse_minimum take two",
            )
        dense = convert_to_tensor(other, None if isinstance(other, Tensor) else self.dtype)
        if dense.rank == 0:
            return dense
        return apply("GatherNd", apply("BroadcastTo", dense, self.dense_shape), self.indices)


def _is_empty(value: Any) -> bool:
    try:
        return np.size(value) == 0
    except ValueError:  # rows of several lengths, which `index_tensor` refuses
        return False


def _index_tensor(value: Any, empty: list[int]) -> Tensor:
    """Return indices or sizes as an int64 tensor; an empty list has the shape `empty`."""
    if isinstance(value, Tensor):
        tensor = value  # unconverted: its region may not be open yet
    elif not as_symbolic(value) and not isinstance(value, Shape) and _is_empty(value):
        # An empty matrix keeps its number of columns.
        return constant(np.zeros(np.shape(value) if np.ndim(value) == len(empty) > 1 else empty, np.int64))
    else:
        tensor = index_tensor(value)
    if tensor.dtype is dtypes.int64:
        return tensor
    if not tensor.dtype.is_integer:
        raise DtypeError(
            "places and sizes of sparse tensors are integers",
            wanted=dtypes.int64,
            got=tensor.dtype,
            operation=tensor.op,
            hint="cast them to int64",
        )
    # A constant is cast now and stays a constant, from which static shapes are read.
    if tensor.op.is_constant:
        return constant(tensor.op.attrs["value"].astype(np.int64))
    return apply("Cast", tensor, dtype=dtypes.int64)


def _check_sizes(indices: Tensor, values: Tensor, dense_shape: Tensor) -> None:
    """Raise ShapeError if the three tensors are known to disagree about the number of values or the rank."""
    counts = [None if t.rank is None else t.shape[0] for t in (indices, values)]
    ranks = [None if t.rank is None else t.shape[axis] for t, axis in ((indices, 1), (dense_shape, 0))]
    for known, what in ((counts, "index for each value"), (ranks, "number in each index for each dimension")):
        if None not in known and len(set(known)) > 1:
            raise ShapeError(
                f"a sparse tensor has one {what}",
                wanted=f"indices of shape [{values.shape[0] if values.rank else '?'}, {ranks[1] or '?'}]",
                got=f"indices {indices.shape}, values {values.shape}, dense_shape {dense_shape.shape}",
                operation=indices.op,
                hint="indices are [[row, column], ...], one line for each value",
            )


def as_sparse(value: Any, what: str) -> SparseTensor:
    """Return `value`, a sparse argument of the function `what`; a SparseTensorValue becomes constants."""
    if isinstance(value, SparseTensor):
        return value
    if isinstance(value, SparseTensorValue):
        return SparseTensor(*value)
    raise GraphError(
        f"{what} wants a sparse tensor",
        wanted="SparseTensor(indices, values, dense_shape), or a SparseTensorValue",
        got=repr(value),
        hint="sparse_from_dense(x) makes one of a dense tensor",
    )


def known_rank(sp: SparseTensor, what: str) -> int:
    """Return the rank of a sparse tensor; ShapeError if unknown, as the function `what` needs it while building."""
    if sp.rank is None:
        raise ShapeError(
            f"{what} has to know the rank of the sparse tensor",
            wanted="indices of shape [n, rank], or a dense_shape of known length",
            got=f"indices {sp.indices.shape}, dense_shape {sp.dense_shape.shape}",
            operation=sp.indices.op,
            hint="give sparse_placeholder a shape, as [None, None], or call set_shape of the dense_shape",
        )
    return sp.rank


def sizes_of(sp: SparseTensor, rank: int) -> list[Any]:
    """Return the dimensions of a sparse tensor: integers where known, else int64 scalars."""
    return [sp.dense_shape[i] if size is None else size for i, size in enumerate(sp.shape.merge(Shape([None] * rank)))]


def sizes_vector(sizes: Sequence[Any]) -> Tensor:
    """Return `sizes`, integers and int64 scalars, as a vector."""
    if not any(isinstance(size, Tensor) for size in sizes):
        return constant(np.asarray(sizes, np.int64))
    return apply("Stack", [convert_to_tensor(s, dtypes.int64) for s in sizes], axis=0)


def extreme_size(type: str, x: Any, y: Any) -> Any:
    """Return the minimum or maximum of two sizes, `x` and `y`; `type` is "Minimum" or "Maximum"."""
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return apply(type, x, y)
    return min(x, y) if type == "Minimum" else max(x, y)


@public
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Declare a sparse tensor that is fed when a step runs.

    Parameters
    ----------
    dtype : dtype-like
        Dtype of the values.
    shape : sequence of int or None, optional
        If fully known, feeds must have this shape; of a shape with None only the rank counts, and None leaves the rank
        open too.

    Returns
    -------
    SparseTensor
        To be fed a SparseTensorValue, or another triple of indices, values and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.sparse_placeholder("float32", [None, None])
    ...     y = tg.sparse_transpose(x)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(y, {x: ([[0, 2]], [1.5], [1, 4])}).indices
    array([[2, 0]])
    """
    known = Shape(shape)
    prefix = name or "sparse_placeholder"
    if known.is_fully_known:
        sizes = constant(np.asarray(known.as_tuple(), np.int64), name=f"{prefix}/shape")
    else:
        sizes = placeholder(dtypes.int64, [known.rank], name=f"{prefix}/shape")
    indices = placeholder(dtypes.int64, [None, known.rank], name=f"{prefix}/indices")
    return SparseTensor(indices, placeholder(dtype, [None], name=f"{prefix}/values"), sizes)


def fed_parts(sp: SparseTensor, value: Any) -> list[tuple[Tensor, Any]]:
    """Return the tensors of a sparse tensor to feed, each with its array; a constant shape must be equal.

    Parameters
    ----------
    sp : SparseTensor
    value : SparseTensorValue or triple, or None
        None if only the tensors matter.

    Raises
    ------
    GraphError, ShapeError
        If `value` is no triple of arrays, or has another shape.
    """
    if value is not None and (not isinstance(value, (tuple, list)) or len(value) != 3):
        raise GraphError(
            "a sparse tensor is fed three arrays",
            wanted="SparseTensorValue(indices, values, dense_shape)",
            got=value,
            operation=sp.values.op,
            hint="a scipy.sparse matrix m is (numpy.transpose(m.coords), m.data, m.shape), made by m.tocoo()",
        )
    parts: Sequence[Any] = value or (None, None, None)
    indices: Any
    sizes: Any
    indices, values, sizes = parts
    # An empty list has no rank, and NumPy makes it a float array.
    if np.size(indices) == 0:
        indices = np.zeros(np.shape(indices) if np.ndim(indices) == 2 else (0, sp.rank or 0), np.int64)
    if not sp.dense_shape.op.is_constant:
        return [(sp.indices, indices), (sp.values, values), (sp.dense_shape, sizes)]
    wanted = sp.dense_shape.op.attrs["value"].tolist()
    if value is not None and list(map(int, sizes)) != wanted:
        raise ShapeError(
            "the sparse value that is fed has another shape",
            wanted=wanted,
            got=list(sizes),
            operation=sp.values.op,
            hint="leave dimensions that change as None in sparse_placeholder",
        )
    return [(sp.indices, indices), (sp.values, values)]
