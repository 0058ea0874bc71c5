"""``associative_scan``: all prefixes of a sequence under an associative function, in logarithmic depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base import nest
from ...base.calling import call
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ops.array.concat import concat, stack
from ...ops.array.layout import reverse as reverse_along
from ...ops.support.common import shape_of, size_along
from ..control.loops import while_loop
from ..control.scopes import control_dependencies, name_scope

Leaves = list[Tensor]


@public
def associative_scan(
    fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0, name: str | None = None
) -> Any:
    """Combine elements along a dimension by an associative function, and return every intermediate value.

    The values of :func:`scan` without an initializer, in another order of operations: neighbours are combined first,
    for all pairs at once, so that `fn` is called on whole slices about ``2 * log2(n)`` times in sequence instead of n
    times (Blelloch, 1990, "Prefix Sums and Their Applications"). Rounding may therefore differ from that of `scan`.

    Parameters
    ----------
    fn : callable
        ``fn(a, b)`` takes two slices of `elems` along `axis`, of any equal length, in the structure of `elems`, and
        returns a slice of the same structure, dtypes and shapes: for each place the combination of the element of `a`,
        the earlier one, and of `b`. Must be associative, ``fn(fn(a, b), c) == fn(a, fn(b, c))``, and treat each place
        by itself. Called several times, while the graph is built.
    elems : structure of Tensor
        All with the same size along `axis`.
    reverse : bool, optional
        Go from the last element to the first.
    axis : int, optional
        The dimension along which the elements lie, from the end if negative.
    name : str, optional
        Name scope of the operations.

    Returns
    -------
    structure of Tensor
        One result for each element, in the structure and shapes of `elems`; empty without elements. With a size known
        while the graph is built, the graph has a part for each level; with an unknown size, a loop combines all
        elements with those 1, 2, 4, ... places before, which is more work: ``n * log2(n)`` instead of ``2 * n``.

    Raises
    ------
    ShapeError
        If an element has no dimension `axis`, if the sizes along `axis` differ, or if `fn` changes a shape.
    DtypeError
        If `fn` changes a dtype.
    GraphError
        If `elems` has no tensor, or `fn` returns another structure.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.associative_scan(tg.add, tg.constant([1, 2, 3, 4]))).sync()
    array([ 1,  3,  6, 10], dtype=int32)

    A linear recurrence ``y[t] = a[t] * y[t - 1] + b[t]``:

    >>> def after(first, second):
    ...     (a, b), (c, d) = first, second
    ...     return a * c, b * c + d
    >>> a, b = np.full(3, 0.5, np.float32), np.ones(3, np.float32)
    >>> tg.function(lambda a, b: tg.associative_scan(after, (a, b))[1]).sync(a, b)
    array([1.  , 1.5 , 1.75], dtype=float32)
    """
    with name_scope(name, "associative_scan"):
        leaves = [convert_to_tensor(leaf) for leaf in nest.flatten(elems)]
        scan = _Prefixes(fn, elems, leaves, axis)
        if reverse:
            leaves = [scan.flip_leaf(leaf) for leaf in leaves]
        found = scan.all_prefixes(leaves)
        return nest.pack_as(elems, [scan.flip_leaf(leaf) for leaf in found] if reverse else found)


class _Prefixes:
    """The function of a scan on lists of leaves, and slices along the axis."""

    def __init__(self, fn: Callable[..., Any], structure: Any, leaves: Leaves, axis: int) -> None:
        self.fn = fn
        self.structure = structure
        self.axis: int = _checked_axis(leaves, axis)
        self.length: int | None = _known_length(leaves, self.axis)
        self.leaves = leaves

    def all_prefixes(self, leaves: Leaves) -> Leaves:
        """Return the combinations of all elements up to each element."""
        if self.length is None:
            return self._by_doubling(leaves)
        return self._by_pairs(leaves, self.length)

    def _by_pairs(self, leaves: Leaves, count: int) -> Leaves:
        """Combine neighbours, scan the half as many pairs, and combine these with the elements between."""
        if count < 2:
            return leaves
        pairs = self.combine_slices(self.take_slice(leaves, 0, count - 1, 2), self.take_slice(leaves, 1, count, 2))
        # The prefixes of pairs are those that end at odd places.
        odd = self._by_pairs(pairs, count // 2)
        first = self.take_slice(leaves, 0, 1)
        if count == 2:
            return self._join(first, odd)
        before = self.take_slice(odd, 0, (count - 1) // 2)
        even = self._join(first, self.combine_slices(before, self.take_slice(leaves, 2, count, 2)))
        return self._interleave(even, odd, count)

    def _interleave(self, even: Leaves, odd: Leaves, count: int) -> Leaves:
        """Return the elements at even and odd places in turn, the last alone if `count` is odd."""
        half = count // 2
        pairs = [stack(both, axis=self.axis + 1) for both in zip(self.take_slice(even, 0, half), odd, strict=True)]
        mixed = [self._flatten_pairs(pair, half) for pair in pairs]
        return self._join(mixed, self.take_slice(even, half, half + 1)) if count % 2 else mixed

    def _flatten_pairs(self, pair: Tensor, half: int) -> Tensor:
        """Return a tensor with the dimension of `half` pairs, and the dimension of 2, as a dimension."""
        sizes, at = shape_of(pair), self.axis
        shape = apply("Concat", [sizes[:at], constant([2 * half], "int32"), sizes[at + 2 :]], axis=0)
        result: Tensor = apply("Reshape", pair, shape)
        known = pair.shape
        result.set_shape(known[:at] + Shape([2 * half]) + known[at + 2 :])
        return result

    def _by_doubling(self, leaves: Leaves) -> Leaves:
        """Combine all elements with those 1, 2, 4, ... places before, in a loop (Hillis and Steele, 1986)."""
        count = self._checked_count()

        def double_offset(offset: Tensor, leaves: Leaves) -> Any:
            combined = self.combine_slices(
                self.take_slice(leaves, 0, count - offset), self.take_slice(leaves, offset, None)
            )
            joined = self._join(self.take_slice(leaves, 0, offset), combined)
            for new, old in zip(joined, leaves, strict=True):
                new.set_shape(old.shape)
            return offset * 2, joined

        _, found = while_loop(lambda offset, _: offset < count, double_offset, (constant(1, "int32"), leaves))
        return list(found)

    def _checked_count(self) -> Tensor:
        """Return the number of elements, checked in the step to be the same for all leaves."""
        sizes = [size_along(leaf, self.axis) for leaf in self.leaves]
        message = "associative_scan was given different numbers of elements"
        checks = [apply("Assert", apply("Equal", n, sizes[0]), sizes, message=message) for n in sizes[1:]]
        with control_dependencies(checks):
            return apply("Identity", sizes[0]) if checks else sizes[0]

    def combine_slices(self, left: Leaves, right: Leaves) -> Leaves:
        """Call the function on two slices, and check its result."""
        given = [nest.pack_as(self.structure, side) for side in (left, right)]
        result = call(self.fn, given, "the function of associative_scan")
        difference = nest.difference(self.structure, result, outer=False)
        if difference:
            raise GraphError(
                "the function of associative_scan returns another structure than it was given",
                wanted="the structure of elems",
                got=difference,
                hint="return a combination for each tensor of the elements",
            )
        pairs = zip(nest.flatten_as(self.structure, result), right, strict=True)
        return [_checked_result(leaf, like) for leaf, like in pairs]

    def take_slice(self, leaves: Leaves, start: Any, stop: Any, step: int = 1) -> Leaves:
        """Return the elements from `start` to before `stop`, every `step`-th."""
        key = (slice(None),) * self.axis + (slice(start, stop, step),)
        return [leaf[key] for leaf in leaves]

    def flip_leaf(self, leaf: Tensor) -> Tensor:
        """Return a leaf with its elements in reverse order."""
        return reverse_along(leaf, [self.axis])

    def _join(self, left: Leaves, right: Leaves) -> Leaves:
        return [concat(list(both), axis=self.axis) for both in zip(left, right, strict=True)]


def _checked_axis(leaves: Leaves, axis: Any) -> int:
    """Return the number of the dimension, counted from the front."""
    if not leaves:
        raise GraphError(
            "associative_scan was given nothing to go through",
            wanted="at least one tensor",
            got="none",
            hint="pass a tensor, or a structure with some",
        )
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise GraphError("the axis of associative_scan is not an integer", wanted="an int", got=repr(axis), hint="as 0")
    _require_dimension(leaves, axis)
    rank = leaves[0].rank
    return axis if axis >= 0 or rank is None else axis + rank


def _require_dimension(leaves: Leaves, axis: int) -> None:
    """Raise ShapeError if an element has no dimension `axis`, or a negative one differs between the elements."""
    ranks = {leaf.rank for leaf in leaves}
    if axis < 0 and len(ranks) > 1:
        raise ShapeError(
            "a negative axis of associative_scan means another dimension for each rank",
            wanted="elements of one known rank",
            got=[leaf.shape for leaf in leaves],
            hint="count the dimension from the front",
        )
    for leaf in leaves:
        if (leaf.rank is None and axis < 0) or (leaf.rank is not None and not -leaf.rank <= axis < leaf.rank):
            raise ShapeError(
                "associative_scan was given an element without its dimension",
                wanted=f"a dimension {axis}",
                got=leaf.shape,
                operation=leaf.op,
                hint="pass another axis, or stack a list of elements first",
            )


def _known_length(leaves: Leaves, axis: int) -> int | None:
    """Return the number of elements if known of all leaves; ShapeError if known to differ."""
    sizes = [None if leaf.rank is None else leaf.shape[axis] for leaf in leaves]
    known = set(sizes) - {None}
    if len(known) > 1:
        raise ShapeError(
            "associative_scan was given different numbers of elements",
            wanted=f"one size along dimension {axis}",
            got=[leaf.shape for leaf in leaves],
            hint="slice the longer ones",
        )
    return None if None in sizes else known.pop()


def _checked_result(leaf: Any, like: Tensor) -> Tensor:
    """Return a result of the function as a tensor, checked to have the dtype and shape of a slice."""
    result = convert_to_tensor(leaf, None if hasattr(leaf, "dtype") else like.dtype)
    if result.dtype is not like.dtype:
        raise DtypeError(
            "the function of associative_scan changes a dtype",
            wanted=like.dtype,
            got=result.dtype,
            operation=result.op,
            hint=f"use cast(..., '{like.dtype}')",
        )
    if not result.shape.is_compatible_with(like.shape):
        raise ShapeError(
            "the function of associative_scan changes a shape",
            wanted=like.shape,
            got=result.shape,
            operation=result.op,
            hint="combine the elements place by place: slices of any length are passed",
        )
    return result
