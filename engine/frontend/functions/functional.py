"""``map_fn``, ``foldl``, ``foldr`` and ``scan``, on while_loop and TensorArray (Yu et al., 2018, Figure 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, Unpack, overload

from ...base import nest
from ...base.calling import call
from ...base.docstrings import Family, name_function
from ...base.settings import WINDOW
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ir.typed import DTypeLike, FoldOptions, MapOptions, NamedFields, ScanOptions, TensorLike
from ..control.scopes import name_scope
from ..state.tensor_array import TensorArray
from .elements import Elements, LoopOptions
from .empty_results import shapes_of_none
from .folding import build_scan, check_mapped_results, fold_elements

Function = Callable[..., Any]
K = TypeVar("K")
NT = TypeVar("NT", bound=NamedFields)
S = TypeVar("S")


# Overloads go from special to general, because type checkers take the first that fits.
@overload
def map_fn(fn: Function, elems: NT, dtype: None = None, **options: Unpack[MapOptions]) -> NT: ...
@overload
def map_fn(fn: Function, elems: TensorLike, dtype: None = None, **options: Unpack[MapOptions]) -> Tensor: ...
@overload
def map_fn(
    fn: Function, elems: tuple[TensorLike, TensorLike], dtype: None = None, **options: Unpack[MapOptions]
) -> tuple[Tensor, Tensor]: ...
@overload
def map_fn(
    fn: Function, elems: tuple[TensorLike, TensorLike, TensorLike], dtype: None = None, **options: Unpack[MapOptions]
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def map_fn(fn: Function, elems: tuple[Any, ...], dtype: None = None, **options: Unpack[MapOptions]) -> Any: ...
@overload
def map_fn(fn: Function, elems: list[Any], dtype: None = None, **options: Unpack[MapOptions]) -> list[Tensor]: ...
@overload
def map_fn(
    fn: Function, elems: Mapping[K, TensorLike], dtype: None = None, **options: Unpack[MapOptions]
) -> dict[K, Tensor]: ...
@overload
def map_fn(fn: Function, elems: S, dtype: None = None, **options: Unpack[MapOptions]) -> S: ...
@overload
def map_fn(fn: Function, elems: Any, dtype: NT, **options: Unpack[MapOptions]) -> NT: ...
@overload
def map_fn(fn: Function, elems: Any, dtype: DTypeLike, **options: Unpack[MapOptions]) -> Tensor: ...
@overload
def map_fn(
    fn: Function, elems: Any, dtype: tuple[DTypeLike, DTypeLike], **options: Unpack[MapOptions]
) -> tuple[Tensor, Tensor]: ...
@overload
def map_fn(
    fn: Function, elems: Any, dtype: tuple[DTypeLike, DTypeLike, DTypeLike], **options: Unpack[MapOptions]
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def map_fn(fn: Function, elems: Any, dtype: tuple[Any, ...], **options: Unpack[MapOptions]) -> Any: ...
@overload
def map_fn(fn: Function, elems: Any, dtype: list[Any], **options: Unpack[MapOptions]) -> list[Tensor]: ...
@overload
def map_fn(
    fn: Function, elems: Any, dtype: Mapping[K, DTypeLike], **options: Unpack[MapOptions]
) -> dict[K, Tensor]: ...
# For calls with options by position, as in TensorFlow 1; so are the last overloads below.
@overload
def map_fn(fn: Function, elems: Any, dtype: Any = None, *args: Any, **options: Any) -> Any: ...
@public
def map_fn(
    fn: Function,
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | str = WINDOW,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    *,
    checkpoint_every: int | None = None,
    batch_size: int | None = None,
) -> Any:
    """Apply a function to every element along the first dimension, and stack the results.

    In Python::

        results = []
        for elem in elems:
            results.append(fn(elem))
        return stack(results)

    Parameters
    ----------
    fn : callable
        Takes one element, in the structure of `elems`; called once, while the graph is built.
    elems : structure of Tensor or SparseTensor
        All with the same first dimension, the number of elements. An element of a SparseTensor is its row, a
        SparseTensor of rank lower by 1.
    dtype : structure of dtype-like, optional
        Structure and dtypes of the results of `fn`; those of `elems` by default, a SparseTensor counting as one tensor.
    parallel_iterations : int or 'auto', optional
        Most elements in flight, at least 1.
    back_prop, swap_memory : bool, optional
        As for :func:`while_loop`.
    infer_shape : bool, optional
        Require equal shapes of all results.
    name : str, optional
        Name scope of the operations.
    checkpoint_every : int, optional
        As for :func:`while_loop`.
    batch_size : int, optional
        Compute so many elements at once, as :func:`vectorized_map` does, and one batch after the other: as fast as all
        at once, with the memory of a batch. `fn` is then called twice unless the number of elements is known to be a
        multiple, and has no effects. None computes element after element.

    Returns
    -------
    structure of Tensor
        The results, stacked along a new first dimension. Without elements their shape is the shape `fn` computes from
        empty elements, if `fn` has no loops, branches or effects; otherwise the static shape.

    Raises
    ------
    ShapeError
        If an element is a scalar, or the numbers of elements differ.
    GraphError
        If `fn` does not return the structure of `dtype`; a DtypeError if its dtypes differ.
    VectorizationError
        With `batch_size`, if `fn` has effects, or contains an operation without a rule for many elements.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.map_fn(lambda x: x * x, tg.range(4))).sync()
    array([0, 1, 4, 9], dtype=int32)
    >>> tg.function(lambda: tg.map_fn(lambda x: x > 1, tg.range(4), dtype="bool")).sync()
    array([False, False,  True,  True])
    >>> tg.function(lambda: tg.map_fn(lambda x: x * x, tg.range(4), batch_size=3)).sync()
    array([0, 1, 4, 9], dtype=int32)
    """
    options = LoopOptions(parallel_iterations, back_prop, swap_memory, checkpoint_every)
    with name_scope(name, "map"):
        if batch_size is not None:
            from .batched_map import map_in_batches  # late: loads the rules of vectorized programs

            return map_in_batches(fn, elems, dtype, batch_size, options)
        source = Elements(elems, "map_fn")
        # Without `dtype` results have the structure and dtypes of the elements.
        kinds = nest.map_structure(lambda t: t.dtype, source.tensors) if dtype is None else dtype
        arrays = [TensorArray(d, source.count, infer_shape=infer_shape) for d in nest.flatten(kinds)]
        traced: list[Tensor] = []
        elements: list[Tensor] = []

        def map_next(k: Tensor, arrays: list[TensorArray]) -> Any:
            element = source.read(k)
            elements.extend(nest.flatten(element))
            values = check_mapped_results(call(fn, [element], "the function of map_fn"), kinds)
            # Both ends of the body's computation, from which shapes_of_none copies operations.
            traced.extend(values)
            return k + 1, [a.write(k, v) for a, v in zip(arrays, values, strict=True)]

        _, arrays = source.loop(map_next, 0, (arrays,), options)
        shapes = shapes_of_none(traced, elements, source)
        return nest.pack_as(kinds, [a.stack_or(shape) for a, shape in zip(arrays, shapes, strict=True)])


class Fold(Protocol):
    """Public function of a fold."""

    @overload
    def __call__(self, fn: Function, elems: NT, initializer: None = None, **options: Unpack[FoldOptions]) -> NT: ...
    @overload
    def __call__(
        self, fn: Function, elems: TensorLike, initializer: None = None, **options: Unpack[FoldOptions]
    ) -> Tensor: ...
    @overload
    def __call__(
        self,
        fn: Function,
        elems: tuple[TensorLike, TensorLike],
        initializer: None = None,
        **options: Unpack[FoldOptions],
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(
        self,
        fn: Function,
        elems: tuple[TensorLike, TensorLike, TensorLike],
        initializer: None = None,
        **options: Unpack[FoldOptions],
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def __call__(
        self, fn: Function, elems: tuple[Any, ...], initializer: None = None, **options: Unpack[FoldOptions]
    ) -> Any: ...
    @overload
    def __call__(
        self, fn: Function, elems: list[Any], initializer: None = None, **options: Unpack[FoldOptions]
    ) -> list[Tensor]: ...
    @overload
    def __call__(
        self, fn: Function, elems: Mapping[K, TensorLike], initializer: None = None, **options: Unpack[FoldOptions]
    ) -> dict[K, Tensor]: ...
    @overload
    def __call__(self, fn: Function, elems: S, initializer: None = None, **options: Unpack[FoldOptions]) -> S: ...
    @overload
    def __call__(self, fn: Function, elems: Any, initializer: NT, **options: Unpack[FoldOptions]) -> NT: ...
    @overload
    def __call__(self, fn: Function, elems: Any, initializer: TensorLike, **options: Unpack[FoldOptions]) -> Tensor: ...
    @overload
    def __call__(
        self, fn: Function, elems: Any, initializer: tuple[TensorLike, TensorLike], **options: Unpack[FoldOptions]
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(
        self,
        fn: Function,
        elems: Any,
        initializer: tuple[TensorLike, TensorLike, TensorLike],
        **options: Unpack[FoldOptions],
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def __call__(
        self, fn: Function, elems: Any, initializer: tuple[Any, ...], **options: Unpack[FoldOptions]
    ) -> Any: ...
    @overload
    def __call__(
        self, fn: Function, elems: Any, initializer: list[Any], **options: Unpack[FoldOptions]
    ) -> list[Tensor]: ...
    @overload
    def __call__(
        self, fn: Function, elems: Any, initializer: Mapping[K, TensorLike], **options: Unpack[FoldOptions]
    ) -> dict[K, Tensor]: ...
    @overload
    def __call__(self, fn: Function, elems: Any, initializer: S, **options: Unpack[FoldOptions]) -> S: ...
    @overload
    def __call__(self, fn: Function, elems: Any, initializer: Any = None, *args: Any, **options: Any) -> Any: ...


_FOLD = Family(
    {
        "fn": "callable\n    Takes the accumulated value and an element, returns the new accumulated value.",
        "elems": "structure of Tensor\n    All with the same first dimension.",
        "initializer": """structure of Tensor, optional
    Value before the first element, with the structure, dtypes and shapes of the result. A Python number takes the
    dtype of the result of `fn`.""",
        "parallel_iterations": "int or 'auto', optional\n    Most elements in flight, at least 1.",
        "back_prop, swap_memory": "bool, optional\n    As for :func:`while_loop`.",
        "name": "str, optional\n    Name scope of the operations.",
        "checkpoint_every": "int, optional\n    As for :func:`while_loop`.",
    },
    "structure of Tensor\n    The accumulated value.",
    {
        "ShapeError": "If there is neither an element nor an initializer, or the numbers of elements differ.",
        "LoopVariableError": "If the result of `fn` has another structure, dtype or shape than the accumulated value.",
    },
)


def _define_fold(name: str, reverse: bool, summary: str, examples: str) -> Fold:
    """Return the public function `name`; its docstring begins with `summary` and ends with `examples`."""

    def fold_structure(
        fn: Function,
        elems: Any,
        initializer: Any = None,
        parallel_iterations: int | str = WINDOW,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str | None = None,
        *,
        checkpoint_every: int | None = None,
    ) -> Any:
        with name_scope(name, fold_structure.__name__):
            source = Elements(elems, fold_structure.__name__, reverse=reverse, from_first=initializer is None)
            options = LoopOptions(parallel_iterations, back_prop, swap_memory, checkpoint_every)
            return fold_elements(fn, source, initializer, options)

    return public(_FOLD.complete(name_function(fold_structure, name, summary), examples))


foldl: Fold = _define_fold(
    "foldl",
    reverse=False,
    summary="""Combine the elements along the first dimension to a single value, from the first to the last.

    In Python::

        total = initializer        # no initializer: the first element
        for elem in elems:         # no initializer: from the second on
            total = fn(total, elem)
        return total""",
    examples=""">>> import tagloom as tg
>>> tg.function(lambda: tg.foldl(lambda a, x: a * 10 + x, tg.constant([1, 2, 3]))).sync()
array(123, dtype=int32)""",
)

foldr: Fold = _define_fold(
    "foldr",
    reverse=True,
    summary="""Combine the elements along the first dimension to a single value, from the last to the first.

    In Python::

        total = initializer              # no initializer: the last element
        for elem in reversed(elems):     # no initializer: from the last but one
            total = fn(total, elem)
        return total""",
    examples=""">>> import tagloom as tg
>>> tg.function(lambda: tg.foldr(lambda a, x: a * 10 + x, tg.constant([1, 2, 3]))).sync()
array(321, dtype=int32)""",
)


@overload
def scan(fn: Function, elems: NT, initializer: None = None, **options: Unpack[ScanOptions]) -> NT: ...
@overload
def scan(fn: Function, elems: TensorLike, initializer: None = None, **options: Unpack[ScanOptions]) -> Tensor: ...
@overload
def scan(
    fn: Function, elems: tuple[TensorLike, TensorLike], initializer: None = None, **options: Unpack[ScanOptions]
) -> tuple[Tensor, Tensor]: ...
@overload
def scan(
    fn: Function,
    elems: tuple[TensorLike, TensorLike, TensorLike],
    initializer: None = None,
    **options: Unpack[ScanOptions],
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def scan(fn: Function, elems: tuple[Any, ...], initializer: None = None, **options: Unpack[ScanOptions]) -> Any: ...
@overload
def scan(fn: Function, elems: list[Any], initializer: None = None, **options: Unpack[ScanOptions]) -> list[Tensor]: ...
@overload
def scan(
    fn: Function, elems: Mapping[K, TensorLike], initializer: None = None, **options: Unpack[ScanOptions]
) -> dict[K, Tensor]: ...
@overload
def scan(fn: Function, elems: S, initializer: None = None, **options: Unpack[ScanOptions]) -> S: ...
@overload
def scan(fn: Function, elems: Any, initializer: NT, **options: Unpack[ScanOptions]) -> NT: ...
@overload
def scan(fn: Function, elems: Any, initializer: TensorLike, **options: Unpack[ScanOptions]) -> Tensor: ...
@overload
def scan(
    fn: Function, elems: Any, initializer: tuple[TensorLike, TensorLike], **options: Unpack[ScanOptions]
) -> tuple[Tensor, Tensor]: ...
@overload
def scan(
    fn: Function, elems: Any, initializer: tuple[TensorLike, TensorLike, TensorLike], **options: Unpack[ScanOptions]
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def scan(fn: Function, elems: Any, initializer: tuple[Any, ...], **options: Unpack[ScanOptions]) -> Any: ...
@overload
def scan(fn: Function, elems: Any, initializer: list[Any], **options: Unpack[ScanOptions]) -> list[Tensor]: ...
@overload
def scan(
    fn: Function, elems: Any, initializer: Mapping[K, TensorLike], **options: Unpack[ScanOptions]
) -> dict[K, Tensor]: ...
@overload
def scan(fn: Function, elems: Any, initializer: S, **options: Unpack[ScanOptions]) -> S: ...
@overload
def scan(fn: Function, elems: Any, initializer: Any = None, *args: Any, **options: Any) -> Any: ...
@public
def scan(
    fn: Function,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int | str = WINDOW,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
    *,
    checkpoint_every: int | None = None,
) -> Any:
    """Combine the elements along the first dimension, and return every intermediate value (a generalised prefix sum).

    In Python::

        total, totals = initializer, []      # no initializer: the first element, which is also the first result
        for elem in elems:                   # no initializer: from the second on
            total = fn(total, elem)
            totals.append(total)
        return stack(totals)                 # reverse: from the last element, results at the elements' places

    Parameters
    ----------
    fn : callable
        Takes the accumulated value and an element, returns the new accumulated value.
    elems : structure of Tensor
        All with the same first dimension.
    initializer : structure of Tensor, optional
        Value before the first element, with the structure, dtypes and shapes of each result. A Python number takes the
        dtype of the result of `fn`.
    parallel_iterations : int or 'auto', optional
        Most elements in flight, at least 1.
    back_prop, swap_memory : bool, optional
        As for :func:`while_loop`.
    infer_shape : bool, optional
        Require equal shapes of all results.
    reverse : bool, optional
        Go from the last element to the first.
    name : str, optional
        Name scope of the operations.
    checkpoint_every : int, optional
        As for :func:`while_loop`.

    Returns
    -------
    structure of Tensor
        One result for each element, stacked along a new first dimension.

    Raises
    ------
    ShapeError, LoopVariableError
        As for :func:`foldl`.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.scan(lambda a, x: a + x, tg.constant([1, 2, 3]))).sync()
    array([1, 3, 6], dtype=int32)
    >>> tg.function(lambda: tg.scan(lambda a, x: a + x, tg.constant([1, 2, 3]), initializer=10)).sync()
    array([11, 13, 16], dtype=int32)
    """
    with name_scope(name, "scan"):
        source = Elements(elems, "scan", reverse, from_first=initializer is None)
        options = LoopOptions(parallel_iterations, back_prop, swap_memory, checkpoint_every)
        return build_scan(fn, source, initializer, infer_shape, options)
