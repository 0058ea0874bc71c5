"""Variables in shards: what of a whole a shard is, and how any shards, or the whole, are made of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from ...base.array_like import Array, UnreadArray
from ...frontend.partitioned import PARTITIONED, PartitionedVariable
from ...frontend.variables import Variable
from ...ir.graph import Graph


class Slice(NamedTuple):
    """Some rows of a whole.

    Attributes
    ----------
    of : str
        Name of the whole.
    shape : tuple of int
        Of the whole.
    axis : int
        The dimension that is cut.
    rows : range
        Which of it.
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
    """Return what the variables of a graph are of which wholes, by name, as far as they are shards.

    What an optimizer keeps for a shard, in the shard's shape and under its name, is a slice too: of what it would keep
    for the whole.
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
    for each in variables:
        behind = each.name.removeprefix(shard.name)
        is_its = each.name == shard.name or (each.name.startswith(shard.name + "/") and each.shape == shard.shape)
        if is_its:
            yield each.name, Slice(whole.name + behind, whole.shape.as_tuple(), whole.axis, rows)


def aliases_of(graph: Graph) -> dict[str, str]:
    """Return what the variables of a graph that an optimizer keeps beside a first shard would be called with the whole.

    Of a shape of their own, as Adam's powers of beta, they are no slices of anything.
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
    """Return the names of what there is of each whole."""
    found: dict[str, list[str]] = {}
    for name, each in slices.items():
        found.setdefault(each.of, []).append(name)
    return found


class Assembled(UnreadArray):
    """A slice, or a whole, made of slices.

    Parameters
    ----------
    wanted : Slice
    sources : sequence of (Slice, UnreadArray)
        All of one whole, of one dtype.
    """

    def __init__(self, wanted: Slice, sources: Sequence[tuple[Slice, UnreadArray]]) -> None:
        self.dtype: np.dtype[Any] = sources[0][1].dtype
        self.shape: tuple[int, ...] = wanted.own_shape
        self._wanted = wanted
        self._sources = sources

    @property
    def is_complete(self) -> bool:
        """Whether the sources have all of it."""
        axis = self._sources[0][0].axis
        needed = self._wanted.rows if axis == self._wanted.axis else range(self._wanted.shape[axis])
        there = np.zeros(len(needed), bool)
        for source, _ in self._sources:
            if source.axis != axis or source.shape != self._wanted.shape:
                return False
            there[_places(common(needed, source.rows), needed)] = True
        return bool(there.all())

    def copy(self) -> Array:
        """Read the sources, one after the other, and put the rows of each to their places."""
        out = np.empty(self.shape, self.dtype)
        for source, array in self._sources:
            into, taken = self._indices(source)
            if 0 not in out[into].shape:
                out[into] = array.copy()[taken]
        return out

    def _indices(self, source: Slice) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return where rows of a source go, and which these are."""
        into = [slice(None)] * len(self.shape)
        taken = [slice(None)] * len(self.shape)
        if source.axis == self._wanted.axis:
            both = common(self._wanted.rows, source.rows)
            into[source.axis], taken[source.axis] = _places(both, self._wanted.rows), _places(both, source.rows)
        else:  # cut the other way: it has a part of each wanted row
            into[source.axis] = _places(source.rows, range(source.shape[source.axis]))
            taken[self._wanted.axis] = _places(self._wanted.rows, range(source.shape[self._wanted.axis]))
        return tuple(into), tuple(taken)


def common(a: range, b: range) -> range:
    """Return the numbers that two ranges, of steps above 0, have in common: a range too.

    Examples
    --------
    >>> from tagloom.training.checkpoints.slices import common
    >>> common(range(1, 20, 2), range(0, 20, 3)), len(common(range(0, 9, 2), range(1, 9, 2)))
    (range(3, 20, 6), 0)
    """
    begin = max(0, -((a.start - b.start) // a.step))  # of a, the first that is not below b's
    first = next((x for x in a[begin : begin + b.step] if x in b), None)
    return range(0) if first is None else range(first, min(a.stop, b.stop), lcm(a.step, b.step))


def _places(rows: range, among: range) -> slice:
    """Return the places of rows, all of which are there, among others."""
    if not rows:
        return slice(0, 0)
    begin = (rows.start - among.start) // among.step
    step = rows.step // among.step or 1
    return slice(begin, begin + step * (len(rows) - 1) + 1, step)
