"""Slices of sharded variables, and their assembly from other slices or wholes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from ...base.array_like import Array, UnreadArray
from ...frontend.state.partitioned import PARTITIONED, PartitionedVariable
from ...frontend.state.variables import Variable
from ...ir.graph import Graph


class Slice(NamedTuple):
    """Some rows of a whole variable, along one axis.

    Attributes
    ----------
    of : str
        Name of the whole.
    shape : tuple of int
        Shape of the whole.
    axis : int
        The partitioned dimension.
    rows : range
        Indices along `axis`.
    """

    of: str
    shape: tuple[int, ...]
    axis: int
    rows: range

    @property
    def own_shape(self) -> tuple[int, ...]:
        """The shape of the slice."""
        return (*self.shape[: self.axis], len(self.rows), *self.shape[self.axis + 1 :])


def slices_of(graph: Graph) -> dict[str, Slice]:
    """Return the Slice of each shard of a graph, by name.

    An optimizer slot of a shard, with the shard's shape and under its name, is a slice too: of the slot that the
    optimizer would keep for the whole.
    """
    found: dict[str, Slice] = {}
    variables: Sequence[Variable] = graph.collections.get("variables", ())
    for whole in graph.collections.get(PARTITIONED, ()):
        for shard, rows in zip(whole.shards, whole.rows, strict=True):
            found.update(_of_shard(whole, shard, rows, variables))
    return found


def _of_shard(
    whole: PartitionedVariable, shard: Variable, rows: range, variables: Iterable[Variable]
) -> Iterable[tuple[str, Slice]]:
    """Yield a shard and its optimizer slots, each with its name and its Slice."""
    for each in variables:
        suffix = each.name.removeprefix(shard.name)
        # Slots are recognised by name and shape: graphs do not record which variables are slots.
        is_its = each.name == shard.name or (each.name.startswith(shard.name + "/") and each.shape == shard.shape)
        if is_its:
            yield each.name, Slice(whole.name + suffix, whole.shape.as_tuple(), whole.axis, rows)


def aliases_of(graph: Graph) -> dict[str, str]:
    """Return the names that shared optimizer values of first shards would have in a graph without shards.

    Such values, for example Adam's powers of beta, have a shape of their own, so they are not slices.
    """
    variables: Sequence[Variable] = graph.collections.get("variables", ())
    found = {}
    for whole in graph.collections.get(PARTITIONED, ()):
        first = whole.shards[0]
        for each in variables:
            if each.name.startswith(first.name + "/") and each.shape != first.shape:
                found[each.name] = whole.name + each.name.removeprefix(first.name)
    return found


def wholes_of(slices: Mapping[str, Slice]) -> dict[str, list[str]]:
    """Return the names of the slices of each whole."""
    found: dict[str, list[str]] = {}
    for name, each in slices.items():
        found.setdefault(each.of, []).append(name)
    return found


class Assembled(UnreadArray):
    """A slice or a whole, assembled from slices when read.

    Parameters
    ----------
    wanted : Slice
    sources : sequence of (Slice, UnreadArray)
        Slices of the same whole, with arrays of equal dtype.
    """

    def __init__(self, wanted: Slice, sources: Sequence[tuple[Slice, UnreadArray]]) -> None:
        self.dtype: np.dtype[Any] = sources[0][1].dtype
        self.shape: tuple[int, ...] = wanted.own_shape
        self._wanted = wanted
        self._sources = sources

    @property
    def is_complete(self) -> bool:
        """True if the sources cover all wanted rows."""
        axis = self._sources[0][0].axis
        # Sources cut along another axis must all be there, since each has a part of every wanted row.
        needed = self._wanted.rows if axis == self._wanted.axis else range(self._wanted.shape[axis])
        there = np.zeros(len(needed), bool)
        for source, _ in self._sources:
            if source.axis != axis or source.shape != self._wanted.shape:
                return False
            there[_locate_rows(intersect_ranges(needed, source.rows), needed)] = True
        return bool(there.all())

    def copy(self) -> Array:
        """Read the sources one by one, to bound the memory, and copy the wanted rows of each."""
        out = np.empty(self.shape, self.dtype)
        for source, array in self._sources:
            into, taken = self._matching_indices(source)
            if 0 not in out[into].shape:
                out[into] = array.copy()[taken]
        return out

    def _matching_indices(self, source: Slice) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return the target index and the source index of the rows taken from a source."""
        into = [slice(None)] * len(self.shape)
        taken = [slice(None)] * len(self.shape)
        if source.axis == self._wanted.axis:
            both = intersect_ranges(self._wanted.rows, source.rows)
            into[source.axis], taken[source.axis] = (
                _locate_rows(both, self._wanted.rows),
                _locate_rows(both, source.rows),
            )
        else:  # cut along another axis: the source has a part of each wanted row
            into[source.axis] = _locate_rows(source.rows, range(source.shape[source.axis]))
            taken[self._wanted.axis] = _locate_rows(self._wanted.rows, range(source.shape[self._wanted.axis]))
        return tuple(into), tuple(taken)


def intersect_ranges(a: range, b: range) -> range:
    """Return the intersection of two ranges with positive steps, as a range.

    Examples
    --------
    >>> from tagloom.training.checkpoints.slices import intersect_ranges
    >>> intersect_ranges(range(1, 20, 2), range(0, 20, 3)), len(intersect_ranges(range(0, 9, 2), range(1, 9, 2)))
    (range(3, 20, 6), 0)
    """
    begin = max(0, -((a.start - b.start) // a.step))  # index of the first number of `a` not below `b.start`
    # If there is a common number, one is among `b.step` consecutive numbers of `a`.
    first = next((x for x in a[begin : begin + b.step] if x in b), None)
    # Common numbers recur at the least common multiple of both steps.
    return range(0) if first is None else range(first, min(a.stop, b.stop), lcm(a.step, b.step))


def _locate_rows(rows: range, among: range) -> slice:
    """Return the positions of `rows` in `among`, which contains them, as a slice."""
    if not rows:
        return slice(0, 0)
    begin = (rows.start - among.start) // among.step
    step = rows.step // among.step or 1
    return slice(begin, begin + step * (len(rows) - 1) + 1, step)
