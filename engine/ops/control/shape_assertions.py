"""Checks of ranks, dtypes and order: at graph construction where the answer is known, else by a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...base.dtypes import as_dtype
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...base.source_lines import user_source
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..array.shapes import rank as rank_of
from ..array.shapes import reshape
from ..math.comparison import less, less_equal, logical_or
from ..math.reductions import reduce_all
from ..support.arguments import index_tensor
from .assertions import Assertion, Data
from .placeholders import no_op


def _rank_tensor(value: Any) -> Tensor:
    """Return a rank as a tensor; an error unless it is an integer scalar."""
    tensor = index_tensor(value)
    if tensor.rank not in (0, None):
        raise ShapeError("a rank is a scalar", wanted="[]", got=tensor.shape, hint="assert_rank_in takes several")
    if not tensor.dtype.is_integer:
        raise DtypeError("a rank is an integer", wanted="int32", got=tensor.dtype, hint="give a Python integer")
    return tensor


def _check_rank(
    x: Any,
    ranks: Sequence[Any],
    words: str,
    holds: Callable[[int, int], bool],
    compare: str,
    assertion: Assertion,
) -> Operation:
    """Check the rank of a tensor against several ranks, of which one must compare; at once if all are known."""
    tensor, wanted = convert_to_tensor(x), [_rank_tensor(each) for each in ranks]
    known = [static_value(each) for each in wanted]
    if tensor.rank is not None and all(value is not None for value in known):
        numbers = [int(value) for value in known if value is not None]
        if not any(holds(tensor.rank, number) for number in numbers):
            raise ShapeError(
                f"{assertion.prefix}a tensor has the wrong rank",
                wanted=f"rank {words} {' or '.join(map(str, numbers))}",
                got=tensor.shape,
                operation=tensor.op,
                source=user_source(),
                hint="reshape, expand_dims and squeeze change the rank",
            )
        return no_op(assertion.name)
    found = rank_of(tensor)
    condition = apply(compare, found, apply("Cast", wanted[0], dtype=found.dtype))
    for each in wanted[1:]:
        condition = logical_or(condition, apply(compare, found, apply("Cast", each, dtype=found.dtype)))
    shown = [found, *wanted]
    text = f"the rank of {tensor.name} {words} {' or '.join(each.name for each in wanted)}"
    return assertion.require(condition, text, shown)


@public
def assert_rank(
    x: Any, rank: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless the rank of `x` is `rank`; a known rank is checked at once.

    Parameters
    ----------
    x : Tensor of any dtype
    rank : int32 scalar
    message : str
        First words of the error.
    name : str, optional
        Name of the operation.
    data : list of Tensor, optional
        Shown in the error of a step, instead of the ranks.
    summarize : int, optional
        Elements shown of each tensor; 3 when None.

    Returns
    -------
    Operation
        Without outputs.

    Raises
    ------
    ShapeError
        If the ranks are known, and differ.
    OpError
        When a step runs it, if they differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda x: tg.assert_rank(x, 2, message="weights")).sync([1.0, 2.0])
    Traceback (most recent call last):
        ...
    tagloom.base.errors.ShapeError: weights: a tensor has the wrong rank...
    """
    return _check_rank(x, [rank], "is", int.__eq__, "Equal", Assertion(message, name, data, summarize))


@public
def assert_rank_at_least(
    x: Any, rank: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless the rank of `x` is `rank` or more; a known rank is checked at once.

    Parameters
    ----------
    x : Tensor of any dtype
    rank : int32 scalar
    message, name, data, summarize
        As for :func:`assert_rank`.

    Returns
    -------
    Operation
        Without outputs.

    Raises
    ------
    ShapeError
        If the ranks are known, and that of `x` is smaller.
    OpError
        When a step runs it, if that of `x` is smaller.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda x: tg.assert_rank_at_least(x, 2)).sync([1.0, 2.0])
    Traceback (most recent call last):
        ...
    tagloom.base.errors.ShapeError: a tensor has the wrong rank...
    """
    return _check_rank(x, [rank], "is at least", int.__ge__, "GreaterEqual", Assertion(message, name, data, summarize))


@public
def assert_rank_in(
    x: Any,
    ranks: Iterable[Any],
    message: str = "",
    name: str | None = None,
    data: Data = None,
    summarize: int | None = None,
) -> Operation:
    """Return an operation which fails unless the rank of `x` is one of several; a known rank is checked at once.

    Parameters
    ----------
    x : Tensor of any dtype
    ranks : iterable of int32 scalar
        At least one.
    message, name, data, summarize
        As for :func:`assert_rank`.

    Returns
    -------
    Operation
        Without outputs.

    Raises
    ------
    GraphError
        If `ranks` is empty.
    ShapeError
        If the ranks are known, and that of `x` is none of them.
    OpError
        When a step runs it, if that of `x` is none of them.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda x: tg.assert_rank_in(x, [2, 3])).sync([1.0, 2.0])
    Traceback (most recent call last):
        ...
    tagloom.base.errors.ShapeError: a tensor has the wrong rank...
    """
    wanted = list(ranks)
    if not wanted:
        raise GraphError("assert_rank_in needs a rank", wanted="at least one", got="none", hint="as ranks=[2, 3]")
    return _check_rank(x, wanted, "is", int.__eq__, "Equal", Assertion(message, name, data, summarize))


@public
def assert_scalar(tensor: Any, message: str = "", name: str | None = None) -> Tensor:
    """Return a tensor of known rank 0.

    Parameters
    ----------
    tensor : Tensor of any dtype
    message : str
        First words of the error.
    name : str, optional
        Name of the operation which checks an unknown rank.

    Returns
    -------
    Tensor
        The same value; its shape is known to be [].

    Raises
    ------
    ShapeError
        If the rank is known, and not 0.
    OpError
        When a step runs the check, and the rank is not 0.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_scalar([1.0])).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.ShapeError: a scalar has no dimensions...
    """
    x = convert_to_tensor(tensor)
    if x.rank not in (0, None):
        raise ShapeError(
            f"{message + ': ' if message else ''}a scalar has no dimensions",
            wanted="[]",
            got=x.shape,
            operation=x.op,
            source=user_source(),
            hint="take one element of it, as t[0]",
        )
    return x if x.rank == 0 else apply("EnsureShape", x, name=name, shape=Shape([]))


@public
def assert_type(tensor: Any, tf_type: Any, message: str = "", name: str | None = None) -> Operation:
    """Check the dtype of a tensor at once; return an operation which does nothing.

    Parameters
    ----------
    tensor : Tensor
    tf_type : dtype-like
    message : str
        First words of the error.

    Returns
    -------
    Operation
        Without outputs: a dtype is known while the graph is built.

    Raises
    ------
    DtypeError
        If the tensor has another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_type([1.0], "int32", message="labels")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.DtypeError: labels: a tensor has the wrong dtype...
    """
    x, wanted = convert_to_tensor(tensor), as_dtype(tf_type)
    if x.dtype is not wanted:
        raise _wrong_dtype(x, str(wanted), message, f"cast(..., '{wanted}') converts it")
    return no_op(name)


@public
def assert_integer(x: Any, message: str = "", name: str | None = None) -> Operation:
    """Check for an integer dtype at once; return an operation which does nothing.

    Parameters
    ----------
    x : Tensor
    message : str
        First words of the error.

    Returns
    -------
    Operation
        Without outputs: a dtype is known while the graph is built.

    Raises
    ------
    DtypeError
        If the tensor has no integer dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_integer([1.0], message="labels")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.DtypeError: labels: a tensor has the wrong dtype...
    """
    tensor = convert_to_tensor(x)
    if not tensor.dtype.is_integer:
        raise _wrong_dtype(tensor, "an integer dtype", message, "cast(..., 'int32') leaves out fractions")
    return no_op(name)


def _wrong_dtype(x: Tensor, wanted: str, message: str, hint: str) -> DtypeError:
    text = f"{message + ': ' if message else ''}a tensor has the wrong dtype"
    return DtypeError(text, wanted=wanted, got=x.dtype, operation=x.op, source=user_source(), hint=hint)


@public
def assert_proper_iterable(values: Any) -> None:
    """Raise a GraphError unless `values` is an iterable, other than a tensor, an array or a text.

    Parameters
    ----------
    values : object
        A single tensor instead of a list of tensors is a mistake which iteration over its rows would hide.

    Returns
    -------
    None

    Raises
    ------
    GraphError
        If `values` is a tensor, a sparse tensor, a variable, an array or a text, or no iterable.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.assert_proper_iterable([np.zeros(2), np.ones(2)])
    >>> tg.assert_proper_iterable(np.zeros(2))
    Traceback (most recent call last):
        ...
    tagloom.base.errors.GraphError: one value stands where several are wanted...
    """
    alone = isinstance(values, (Tensor, str, bytes)) or hasattr(values, "__dlpack__") or hasattr(values, "dense_shape")
    if alone or hasattr(values, "_as_tensor"):
        raise GraphError(
            "one value stands where several are wanted",
            wanted="a list, tuple, dict or another iterable",
            got=repr(values),
            source=user_source(),
            hint="put it in a list",
        )
    if not isinstance(values, Iterable):
        raise GraphError(
            "this is no iterable",
            wanted="a list, tuple, dict or another iterable",
            got=repr(values),
            source=user_source(),
            hint="put it in a list",
        )


@public
def is_numeric_tensor(tensor: Any) -> bool:
    """Return True for a tensor of numbers: of an integer, floating or complex dtype.

    Parameters
    ----------
    tensor : object

    Returns
    -------
    bool
        Known while the graph is built; False for other objects than tensors.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     [tg.is_numeric_tensor(x) for x in (tg.constant(1), tg.constant(True), tg.constant("a"), 1)]
    [True, False, False, False]
    """
    return isinstance(tensor, Tensor) and tensor.dtype.is_numeric


@public
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Return True if each element is at least as large as its predecessor, in row-major order.

    Parameters
    ----------
    x : Tensor of a real dtype

    Returns
    -------
    Tensor
        A bool scalar; True for fewer than two elements.

    Examples
    --------
    >>> import tagloom as tg
    >>> [tg.function(tg.is_non_decreasing).sync(x).item() for x in ([1, 1, 2], [1, 2, 1], [])]
    [True, False, True]
    """
    # Fewer than two elements leave nothing to compare: the result is True.
    flat = reshape(convert_to_tensor(x), [-1])
    return reduce_all(less_equal(flat[:-1], flat[1:]), name=name)


@public
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Return True if each element is larger than its predecessor, in row-major order.

    Parameters
    ----------
    x : Tensor of a real dtype

    Returns
    -------
    Tensor
        A bool scalar; True for fewer than two elements.

    Examples
    --------
    >>> import tagloom as tg
    >>> [tg.function(tg.is_strictly_increasing).sync(x).item() for x in ([1, 2, 3], [1, 1, 2], [])]
    [True, False, True]
    """
    flat = reshape(convert_to_tensor(x), [-1])
    return reduce_all(less(flat[:-1], flat[1:]), name=name)
