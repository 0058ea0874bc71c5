"""Lookups in tables whose shards may be on several devices (Abadi et al., 2016, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ops.array.concat import concat
from ...ops.array.creation import range as range_
from ...ops.array.gather import gather
from ...ops.array.partitioning import dynamic_partition, dynamic_stitch
from ...ops.array.shapes import expand_dims, reshape, size
from ...ops.control.checks import clip_by_norm
from ...ops.math.casting import cast
from ...ops.math.comparison import greater_equal
from ...ops.math.cumulative import cumsum
from ...ops.math.reductions import reduce_sum
from ...ops.support.arguments import index_tensor
from ...ops.support.common import shape_of, size_along
from ..state.partitioned import MOD, PartitionedVariable, check_strategy


@public
def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str | None = None,
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Tensor:
    """Return rows of a table by their indices; the table may be in shards on several devices.

    The indices are partitioned among the shards, each shard's rows are gathered on its device, and the results are
    stitched together: no table leaves its device, only indices and rows are copied. The gradient of a shard is an
    IndexedSlices of its gathered rows, on its device. For a table in a single piece this is a `gather`.

    Parameters
    ----------
    params : Tensor, list of Tensor, or PartitionedVariable
        The table, or its shards along dimension 0: of any dtype, of shape ``[rows, ...]``; only `rows` may differ.
    ids : int32 or int64 Tensor of any shape
        Indices of rows, at least 0 and less than the number of rows of all shards; always checked when the step runs.
    partition_strategy : {'mod', 'div'}, optional
        Assignment of rows to shards. 'mod': row i is row ``i // n`` of shard ``i % n``; 'div': the first rows are in
        the first shard, the rows after them in the second. Default: 'mod', or the strategy of a PartitionedVariable.
    validate_indices : bool
        Ignored; present for TensorFlow's argument order.
    max_norm : floating scalar, optional
        Rows of larger Euclidean norm are scaled down to `max_norm`.

    Returns
    -------
    Tensor
        Of the dtype of `params` and shape ``ids.shape + params.shape[1:]``.

    Raises
    ------
    GraphError
        If there is no shard, the strategy is unknown, or a PartitionedVariable has another strategy or is not cut
        along dimension 0.
    DtypeError
        If the dtypes of the shards differ.
    ShapeError
        If the rows of the shards differ in shape, or `max_norm` is used with rows of unknown rank.

    Examples
    --------
    >>> import tagloom as tg
    >>> shards = [[[0.0], [2.0], [4.0]], [[1.0], [3.0]]]
    >>> tg.function(lambda: tg.embedding_lookup([tg.constant(s) for s in shards], [4, 1, 1])).sync().tolist()
    [[4.0], [1.0], [1.0]]
    """
    shards = Shards.of(params, partition_strategy)
    with scopes.within(name=name_in_scope(name or "embedding_lookup")):
        return shards.lookup(convert_to_tensor(index_tensor(ids)), max_norm)


def name_in_scope(name: str) -> str:
    """Return a name inside the current name scope."""
    outer = scopes.current().name
    return f"{outer}/{name}" if outer else name


@dataclass(frozen=True)
class Shards:
    """A table in shards along its first dimension.

    Attributes
    ----------
    parts : list of Tensor or Variable
        With the same row shape and dtype.
    strategy : {'mod', 'div'}
        Assignment of rows to shards, as in `embedding_lookup`.
    """

    parts: Sequence[Any]
    strategy: str

    @classmethod
    def of(cls, params: Any, strategy: str | None) -> Shards:
        """Return the shards of a table, checked, from the arguments of `embedding_lookup`."""
        if strategy is not None:
            check_strategy(strategy)
        if isinstance(params, PartitionedVariable):
            return cls(_along_rows(params, strategy), params.partition_strategy)
        listed = list(params) if isinstance(params, (list, tuple)) else [params]
        if not listed:
            raise GraphError("a table has at least one shard", wanted="one or more", got=params, hint="give [table]")
        # Variables stay variables, to be read on their own devices by each lookup.
        parts = [p if hasattr(p, "handle") else convert_to_tensor(p) for p in listed]
        _check_alike(parts)
        # 'mod' is the default of TensorFlow 1.
        return cls(parts, strategy or MOD)

    @property
    def row(self) -> Shape:
        """Static shape of a row."""
        row = Shape(None)
        for part in self.parts:
            row = row if part.shape.rank is None else row.merge(part.shape[1:])
        return row

    def beside(self, number: int) -> Any:
        """Open a scope on the device of a shard, regardless of the surrounding scopes."""
        device = self.parts[number].device
        return scopes.within(device=(device,) if device else (), colocate=None)

    def sizes(self) -> list[Any]:
        """Return the number of rows of each shard: integers, or int32 scalars if unknown while building."""
        static_sizes = [None if p.shape.rank is None else p.shape[0] for p in self.parts]
        return [
            size_along(convert_to_tensor(p), 0) if n is None else n
            for n, p in zip(static_sizes, self.parts, strict=True)
        ]

    def assign_to_shards(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return for each id of a vector the number of its shard, int32, and its index within the shard.

        Ids out of range stay out of range within their shard, so that the shard's gather reports them.
        """
        count = len(self.parts)
        if self.strategy == MOD:
            return cast(ids % count, "int32"), ids // count
        # Without the end of the last shard: ids beyond the table go to this shard, whose gather refuses them.
        ends = cast(cumsum(index_tensor(self.sizes()[:-1])), ids.dtype)
        # An id's shard is the number of shard ends at or below the id; shards are few, so no binary search.
        shard_numbers = reduce_sum(cast(greater_equal(expand_dims(ids, 1), ends), "int32"), 1)
        starts = concat([cast(index_tensor([0]), ids.dtype), ends], 0)
        return shard_numbers, ids - gather(starts, shard_numbers)

    def lookup(self, ids: Tensor, max_norm: Any = None) -> Tensor:
        """Return the rows of ids of any shape, as `embedding_lookup`."""
        if len(self.parts) == 1:
            # A single shard keeps the order of the ids: there is nothing to partition or stitch.
            return self._gather_rows(0, ids, max_norm)
        flat_ids = ids if ids.rank == 1 else reshape(ids, [-1])
        shard_numbers, shard_ids = self.assign_to_shards(flat_ids)
        count = len(self.parts)
        # Partition the ids, gather on each shard's device, and stitch the rows back into the order of the ids.
        ids_by_shard = dynamic_partition(shard_ids, shard_numbers, count)
        positions = dynamic_partition(range_(size(flat_ids)), shard_numbers, count)
        merged = dynamic_stitch(
            positions, [self._gather_rows(i, ids_of_shard, max_norm) for i, ids_of_shard in enumerate(ids_by_shard)]
        )
        if ids.rank != 1:
            merged = reshape(merged, concat([shape_of(ids), shape_of(merged)[1:]], 0))
        merged.set_shape(ids.shape + self.row)
        return merged

    def _gather_rows(self, number: int, ids: Tensor, max_norm: Any) -> Tensor:
        """Gather rows of a shard on its device, and clip their norms there, before the rows are copied."""
        with self.beside(number):
            rows = gather(self.parts[number], ids)
            if max_norm is None:
                return rows
            if rows.rank is None or ids.rank is None:
                raise ShapeError(
                    "the norm of rows of unknown rank is not known",
                    wanted="ids and params of known rank",
                    got=f"{ids.shape} and {self.parts[number].shape}",
                    hint="use set_shape, with None for dimensions that are not known",
                )
            # Dimensions after those of the ids are a row's.
            return clip_by_norm(rows, max_norm, list(range(ids.rank, rows.rank)))


def classes_of(weights: Any, biases: Any, strategy: str | None) -> tuple[Shards, Shards]:
    """Return weights and biases of classes: a table with vectors as rows, and a table with scalars as rows."""
    tables = Shards.of(weights, strategy), Shards.of(biases, strategy)
    expected = (("weights", "[num_classes, dim]", 1), ("biases", "[num_classes]", 0))
    for shards, (name, wanted_shape, row_rank) in zip(tables, expected, strict=True):
        if shards.row.rank not in (None, row_rank):
            raise ShapeError(
                f"the {name} of classes have another shape",
                wanted=wanted_shape,
                got=Shape([None]) + shards.row,
                hint="each class has a vector of weights and one bias; reshape(biases, [-1]) makes a vector",
            )
    return tables


def _along_rows(variable: PartitionedVariable, strategy: str | None) -> list[Any]:
    """Return the shards of a variable; GraphError unless cut along dimension 0, by `strategy` if not None."""
    if variable.axis and len(variable) > 1:
        raise GraphError(
            "rows are looked up in what is cut along dimension 0",
            wanted="axis 0",
            got=f"axis {variable.axis} of {variable!r}",
            hint="make it with fixed_size_partitioner(num_shards, axis=0)",
        )
    if strategy not in (None, variable.partition_strategy) and len(variable) > 1:
        raise GraphError(
            "the rows of a variable in shards are not where this strategy looks for them",
            wanted=f"'{variable.partition_strategy}', as {variable!r} was made",
            got=f"'{strategy}'",
            hint=f"leave partition_strategy out, or make it with PartitionedVariable(partition_strategy='{strategy}')",
        )
    return list(variable.shards)


def _check_alike(parts: Sequence[Any]) -> None:
    """Raise ShapeError or DtypeError unless all shards have the same row shape and dtype."""
    row, dtype = Shape(None), parts[0].dtype
    for part in parts:
        if part.shape.rank == 0 or not (part.shape.rank is None or row.is_compatible_with(part.shape[1:])):
            raise ShapeError(
                "the shards of a table have rows of one shape",
                wanted=Shape([None]) + row if row.rank is not None else "rank 1 or more",
                got=part.shape,
                hint="shards are parts of one table along dimension 0",
            )
        if part.dtype is not dtype:
            raise DtypeError(
                "the shards of a table have one dtype", wanted=dtype, got=part.dtype, hint="cast one of them"
            )
        row = row if part.shape.rank is None else row.merge(part.shape[1:])
