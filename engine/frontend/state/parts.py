"""Assignment to parts of variables: ``v[1:3].assign(x)`` as an update at index vectors."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import int32
from ...base.errors import GraphError, ShapeError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.indexing import slice_tensor
from ...ir.tensor import PART, Tensor
from ...ops.support.common import shape_of
from ...ops.support.late_axes import join_vectors
from .scattering import Scattered


class Indexed(Scattered):
    """Base class of variables: indexing returns assignable parts."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        part = super().__getitem__(key)
        part._derived[PART] = (self, key)  # for assign() of the part
        return part

    @public
    def assign_part(self, key: Any, value: Any, name: str | None = None, *, ordered: bool = True) -> Tensor:
        """Replace a part: ``v.assign_part(key, value)`` is ``v[key].assign(value)``.

        Parameters
        ----------
        key : int, slice, ellipsis, integer scalar, or tuple of them
            As in ``v[key]``; without new axes.
        value : Tensor of the variable's dtype
        Of a shape that broadcasts to the part's.
        ordered : bool, optional
            As in `assign`.

        Returns
        -------
        Tensor
            The new value of the whole variable; run its ``op`` to update only.

        Raises
        ------
        GraphError
        If the rank is unknown, or `key` has new axes.
        ShapeError
        If the value is known not to fit the part.
        """
        whole = convert_to_tensor(self)
        if whole.rank is None:
            raise GraphError(
                "the rank of a variable of which a part is assigned is not known",
                wanted="a shape with dimensions, which may be open",
                got=whole.shape,
                hint="give the variable a shape",
            )
        parts = _spread_key(key, whole.rank)
        part = slice_tensor(whole, key)
        new = convert_to_tensor(value, whole.dtype)
        if not _may_broadcast(new, part):
            raise ShapeError(
                "a value does not fit the part of the variable that it is assigned to",
                wanted=part.shape,
                got=new.shape,
                hint="sizes are equal, or 1 in the value",
            )
        from ...ops.array.broadcasting import broadcast_to  # only here: every session loads variables
        from ...ops.array.grids import meshgrid

        new = broadcast_to(new, shape_of(part))
        if not parts:
            return self._assign_whole(new, whole, name, ordered)
        sizes = shape_of(whole)
        places = [_select_indices(sizes[axis], each) for axis, each in enumerate(parts)]
        # A part is the product of its dimensions' indices; trailing full dimensions become blocks.
        grid = meshgrid(*places, indexing="ij") if len(places) > 1 else places
        indices = apply("Stack", [each.reshape([-1]) for each in grid], axis=1)
        updates = new.reshape(join_vectors([-1], sizes[len(parts) :]))
        return self.scatter_nd_update(indices, updates, name=name, ordered=ordered)

    def _assign_whole(self, new: Tensor, whole: Tensor, name: str | None, ordered: bool) -> Tensor:
        """Assign a value of the variable's size."""
        return self.assign(new.reshape(shape_of(whole)), name, ordered=ordered)  # type: ignore[attr-defined, no-any-return]


def _spread_key(key: Any, rank: int) -> list[Any]:
    """Return a key's index or slice for each dimension, without trailing full slices."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(part is None for part in parts):
        raise GraphError(
            "a part of a variable has no new axes", got=key, wanted="numbers, slices and ...", hint="reshape the value"
        )
    # Without an Ellipsis the dimensions left out are the last, as in NumPy.
    dots = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    after = parts[dots + 1 :]
    parts = [*parts[:dots], *[slice(None)] * (rank - dots - len(after)), *after]
    # Trailing full slices would only enlarge the grid of indices.
    while parts and isinstance(parts[-1], slice) and parts[-1] == slice(None):
        parts.pop()
    return parts


def _select_indices(size: Tensor, part: Any) -> Tensor:
    """Return the indices of a dimension selected by a key, as a vector."""
    every = apply("Range", *(convert_to_tensor(bound, int32) for bound in (0, size, 1)))
    return slice_tensor(every, part).reshape([-1])


def _may_broadcast(value: Tensor, part: Tensor) -> bool:
    """Return False if a value is known not to broadcast to a part."""
    if value.rank is None or part.rank is None:
        return True
    pairs = zip(reversed(value.shape.dims or ()), reversed(part.shape.dims or ()), strict=False)
    return value.rank <= part.rank and all(v in (1, None, p) or p is None for v, p in pairs)
