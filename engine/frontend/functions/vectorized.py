"""``vmap`` and ``vectorized_map``: functions of a single example computed for many at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import nest
from ...base.errors import GraphError, ShapeError, VectorizationError
from ...ir import scopes
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.examples import known_rank, spread
from ...ir.region import Region
from ...ir.tensor import Tensor
from ...vectorize.function import vectorize
from ..control.scopes import name_scope
from ..tracing.leaves import to_tensor, trace_function


@public
def vectorized_map(fn: Callable[..., Any], elems: Any, name: str | None = None) -> Any:
    """Apply a function to every element along the first dimension, to all elements at once.

    The results equal the results of :func:`map_fn`, which calls the function in a loop; here each operation of the
    function becomes an operation on all elements. Loops and branches are described at :func:`vmap`.

    Parameters
    ----------
    fn : callable
        Takes an element, in the structure of `elems`; called once, while the graph is built. Without effects.
    elems : structure of Tensor
        All with the same first dimension, the number of elements.
    name : str, optional
        Name scope of the operations.

    Returns
    -------
    structure of Tensor
        The results of `fn` in its structure, stacked along a new first dimension.

    Raises
    ------
    ShapeError
        If an element is a scalar, or the numbers of elements differ.
    VectorizationError
        If `fn` has effects, or contains an operation without a rule for many elements.

    Examples
    --------
    >>> import tagloom as tg
    >>> weigh = lambda x: tg.reduce_sum(x) * x
    >>> tg.function(lambda: tg.vectorized_map(weigh, tg.constant([[1.0, 2.0], [3.0, 4.0]]))).sync()
    array([[ 3.,  6.],
           [21., 28.]], dtype=float32)
    """
    leaves = nest.flatten(elems)
    arguments = [_Argument(leaf, 0, f"elems{path}") for leaf, (path, _) in zip(leaves, nest.walk(elems), strict=True)]
    with name_scope(name, "vectorized_map"):
        mapped = _Mapped(arguments)
        return mapped.apply(lambda values: (nest.pack_as(elems, values),), fn, 0, "the function of vectorized_map")


@public
def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Return a function to apply `f` to all slices of its arguments at once.

    Each operation of `f` becomes an operation on all slices, so the graph has no loop over them. A branch whose
    predicate differs between slices is computed for all of them, and the results are selected: a slice takes no part in
    a branch not chosen, not even by infinite gradients. A loop whose predicate differs runs until all
    slices are done, and done slices keep their values. Random operations draw numbers for each slice; operations
    with a key draw as they would for a single slice. An Assert checks all slices, a Print shows all of them.

    Parameters
    ----------
    f : callable
        Takes tensors, or structures of tensors; returns a structure of tensors. Called once in each call. Without
        effects, such as assignments.
    in_axes : int, None, or structure of them, optional
        The axis along which arguments are sliced; None for arguments passed whole. A tuple or list has an axis for each
        argument, and a structure an axis for each leaf, or for a part of the structure. Keyword arguments are sliced
        along axis 0.
    out_axes : int, None, or structure of them, optional
        The axis of the slices in the results; None for a result common to all slices.

    Returns
    -------
    callable
        Takes the arguments of `f` with an additional dimension, returns results with an additional dimension.

    Raises
    ------
    ShapeError
        If the sizes of two arguments along their axes are known to differ; a step raises OpError.
    GraphError
        If no argument is sliced, or the axes do not fit the arguments.
    VectorizationError
        If `f` has effects, or contains an operation without a rule for many slices.

    Examples
    --------
    The gradient of each example:

    >>> import numpy as np, tagloom as tg
    >>> loss = lambda w, x: tg.reduce_sum(w * x) ** 2.0
    >>> by_example = tg.vmap(tg.grad(loss), in_axes=(None, 0))
    >>> tg.function(by_example).sync(np.float32([1, 2]), np.float32([[1, 0], [1, 1]])).tolist()
    [[2.0, 0.0], [6.0, 6.0]]

    A loop of its own length for each:

    >>> halvings = lambda x: tg.while_loop(lambda n, x: x > 1.0, lambda n, x: (n + 1, x / 2.0), (0, x))[0]
    >>> tg.function(tg.vmap(halvings)).sync(np.float32([1, 8, 1000])).tolist()
    [0, 3, 10]
    """

    @public
    @functools.wraps(f)
    def call_vectorized(*args: Any, **kwargs: Any) -> Any:
        axes = (*_axes_of(in_axes, args), *([0] * len(nest.flatten(kwargs))))
        paths = [f"argument {path}" for path, _ in nest.walk(args)] + [
            f"keyword {path}" for path, _ in nest.walk(kwargs)
        ]
        leaves = [*nest.flatten(args), *nest.flatten(kwargs)]
        number = len(nest.flatten(args))

        def call(values: list[Any]) -> Any:
            named = nest.pack_as(kwargs, values[number:])
            return functools.partial(f, **named), nest.pack_as(args, values[:number])

        with name_scope(None, "vmap"):
            mapped = _Mapped([_Argument(*each) for each in zip(leaves, axes, paths, strict=True)])
            return mapped.apply_with(call, out_axes, "the function of vmap")

    return call_vectorized


def _axes_of(axes: Any, args: tuple[Any, ...]) -> list[int | None]:
    """Return the axis of each leaf of the arguments."""
    if isinstance(axes, list):
        axes = tuple(axes)
    if isinstance(axes, tuple) and len(axes) != len(args):
        raise GraphError(
            "in_axes has another length than the arguments",
            wanted=f"an axis for each of {len(args)} arguments, or one for all",
            got=axes,
            hint="use None for an argument that is passed whole",
        )
    return _broadcast_axes(axes, args, "in_axes")


def _broadcast_axes(axes: Any, values: Any, what: str) -> list[int | None]:
    """Return an axis for each leaf of `values`, an axis in place of a structure repeated for its leaves."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(nest.flatten(values))
    children, parts = nest.children(axes), nest.children(values)
    if children is None or parts is None or [k for k, _ in children] != [k for k, _ in parts]:
        raise GraphError(
            f"{what} does not have the structure of its values",
            wanted="integers, None, or the structure",
            got=axes,
            hint="an axis in place of a structure counts for all of its leaves",
        )
    pairs = zip(children, parts, strict=True)
    return [axis for (_, below), (_, part) in pairs for axis in _broadcast_axes(below, part, what)]


class _Argument:
    """A leaf of the arguments, and the axis along which it is sliced; None for a leaf passed whole."""

    def __init__(self, leaf: Any, axis: int | None, path: str) -> None:
        self.leaf = leaf
        self.axis = axis
        self.path = path
        self.tensor: Tensor | None = None

    def convert(self) -> None:
        """Make a tensor of a sliced leaf, with its slices along the first dimension."""
        if self.axis is None:
            return
        tensor = convert_to_tensor(self.leaf)
        rank = known_rank(tensor)
        if not -rank <= self.axis < rank:
            raise ShapeError(
                f"{self.path} has no axis {self.axis} to be mapped along",
                wanted=f"rank {self.axis + 1 if self.axis >= 0 else -self.axis} or more",
                got=tensor.shape,
                operation=tensor.op,
                hint="pass None in in_axes for an argument that is the same for all",
            )
        axis = self.axis % rank
        order = (axis, *(i for i in range(rank) if i != axis))
        self.tensor = tensor if not axis else apply("Transpose", tensor, perm=order)


class _Mapped:
    """The arguments of a vectorized function, and their number of slices."""

    def __init__(self, arguments: list[_Argument]) -> None:
        self.arguments = arguments
        for each in arguments:
            each.convert()
        self.sliced: list[_Argument] = [a for a in arguments if a.tensor is not None]
        if not self.sliced:
            raise GraphError(
                "no argument of a vectorized function is mapped",
                wanted="at least one axis in in_axes",
                got="None for all arguments",
                hint="call the function itself, or use broadcast_to on the result",
            )
        self.count: Tensor = self._count()

    def _count(self) -> Tensor:
        """Return the number of slices: a constant if known, checked in a step if not."""
        known = [(a, int(size)) for a in self.sliced if (size := _first_size(a)) is not None]
        for other, size in known[1:]:
            if size != known[0][1]:
                raise _different_sizes(known[0][0], other)
        if len(known) == len(self.sliced):
            return constant(np.int32(known[0][1]))
        unknown = [a for a in self.sliced if _first_size(a) is None]
        sizes: list[tuple[_Argument, Tensor]] = [(a, apply("Shape", a.tensor)[0]) for a in unknown]
        first, count = sizes[0]
        if known:
            first, count = known[0][0], constant(np.int32(known[0][1]))
        checks = []
        for other, length in sizes if known else sizes[1:]:
            message = f"{first.path} and {other.path} have different sizes along the axes that are mapped"
            checks.append(apply("Assert", apply("Equal", length, count), [count, length], message=message))
        if checks:
            # The arguments wait for the checks: the operations on them would fail with other words, or broadcast.
            with scopes.within(control_inputs=(*scopes.current().control_inputs, *checks)):
                for argument, _ in sizes:
                    argument.tensor = apply("Identity", argument.tensor)
        return count

    def apply(self, pack: Callable[[list[Any]], tuple[Any, ...]], fn: Any, out_axes: Any, what: str) -> Any:
        """Vectorize `fn`, whose arguments `pack` makes of the leaves."""
        return self.apply_with(lambda values: (fn, pack(values)), out_axes, what)

    def apply_with(self, call: Callable[[list[Any]], tuple[Any, Any]], out_axes: Any, what: str) -> Any:
        """Vectorize a call, a function and arguments made of the leaves, and return its results."""
        structure: list[Any] = []

        def build(region: Region, params: list[Tensor]) -> list[Tensor]:
            slices = iter(params)
            values = [a.leaf if a.tensor is None else next(slices) for a in self.arguments]
            function, arguments = call(values)
            result = trace_function(region, function, arguments, what)
            structure.append(result)
            with scopes.inside(region):
                return [_convert_result(leaf, what) for leaf in nest.flatten(result)]

        tensors = [a.tensor for a in self.sliced if a.tensor is not None]
        results, differ = vectorize(build, tensors, self.count, "slice")
        axes = _broadcast_axes(out_axes, structure[0], "out_axes")
        triples = zip(results, differ, axes, strict=True)
        placed = [_place_slices(t, differs, axis, self.count) for t, differs, axis in triples if t is not None]
        return nest.pack_as(structure[0], placed) if nest.is_container(structure[0]) else placed[0]


def _first_size(argument: _Argument) -> int | None:
    assert argument.tensor is not None
    return argument.tensor.shape.dims[0]


def _different_sizes(one: _Argument, other: _Argument) -> ShapeError:
    """Return the error for arguments of different sizes."""
    assert one.tensor is not None
    assert other.tensor is not None
    return ShapeError(
        "arguments of a vectorized function have different sizes along the axes that are mapped",
        wanted=f"one size: {one.path} has {one.tensor.shape[0]} along axis {one.axis}",
        got=f"{other.path} has {other.tensor.shape[0]} along axis {other.axis}",
        operation=other.tensor.op,
        hint="slice the longer one, or pass None in in_axes for an argument that is the same for all",
    )


def _convert_result(leaf: Any, what: str) -> Tensor:
    """Return a result of the function as a tensor."""
    if leaf is None or hasattr(leaf, "with_flow"):
        raise GraphError(
            f"{what} has to return tensors",
            wanted="a structure of tensors",
            got=leaf,
            hint="return a value; stack() the elements of a TensorArray",
        )
    return to_tensor(leaf)


def _place_slices(result: Tensor, differs: bool, axis: int | None, count: Tensor) -> Tensor:
    """Return a result with its slices along an axis; None for a result common to all slices."""
    if axis is None:
        if differs:
            raise VectorizationError(
                "a result differs between slices, and out_axes is None for it",
                wanted="an axis, or a result that depends on no mapped argument",
                got=result,
                operation=result.op,
                hint="leave out_axes out",
            )
        return result
    full = result if differs else spread(result, count)
    if axis == 0:
        return full
    rank = known_rank(full)
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return apply("Transpose", full, perm=tuple(order))
