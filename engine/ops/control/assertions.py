"""Checks of values: operations which fail the step unless a comparison holds everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.dtypes import float_info
from ...base.errors import DtypeError
from ...ir.apply import apply, as_typed, convert_to_tensor
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ..support.common import scalar_like
from .effects import Assert

Data = Sequence[Any] | None


@dataclass(frozen=True, slots=True)
class Assertion:
    """Arguments common to all assertions: the name of the operation, and the contents of its error.

    Attributes
    ----------
    message : str
        First words of the error.
    name : str or None
        Name of the operation.
    data : list of Tensor, or None
        Tensors shown in the error instead of the compared tensors.
    summarize : int or None
        Elements shown of each tensor; 3 when None.
    """

    message: str
    name: str | None
    data: Data
    summarize: int | None

    @property
    def prefix(self) -> str:
        """The message with a colon, or nothing."""
        return f"{self.message}: " if self.message else ""

    def require(self, condition: Tensor, words: str, shown: Sequence[Tensor]) -> Operation:
        """Return the Assert of a condition, `words` in the error; `shown` are the compared tensors."""
        most = 3 if self.summarize is None else self.summarize
        text = f"{self.prefix}{words} does not hold everywhere"
        return Assert(condition, shown if self.data is None else self.data, most, text, self.name)


def _typed_operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Return two tensors of one dtype; a literal takes the dtype of the other operand, or of the first."""
    second = as_typed(y)
    first = as_typed(x)
    if first is None:
        first = convert_to_tensor(x, None if second is None else second.dtype)
    return first, convert_to_tensor(y, first.dtype) if second is None else second


def _assert_comparison(type: str, words: str, x: Any, y: Any, assertion: Assertion) -> Operation:
    """Return the Assert of a comparison of two tensors."""
    x, y = _typed_operands(x, y)
    return assertion.require(apply(type, x, y), f"{x.name} {words} {y.name}", [x, y])


def _compare_with_zero(type: str, words: str, x: Any, assertion: Assertion) -> Operation:
    """Return the Assert of a comparison of a tensor with 0."""
    tensor = convert_to_tensor(x)
    condition = apply(type, tensor, scalar_like(0, tensor))
    return assertion.require(condition, f"{tensor.name} {words} 0", [tensor])


@public
def assert_equal(
    x: Any, y: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x == y`` everywhere.

    Parameters
    ----------
    x, y : Tensor of any dtype
        Same dtype; shapes broadcast.
    message : str
        First words of the error.
    name : str, optional
        Name of the operation.
    data : list of Tensor, optional
        Shown in the error, instead of `x` and `y`.
    summarize : int, optional
        Elements shown of each tensor; 3 when None.

    Returns
    -------
    Operation
        Without outputs. Put dependent operations under ``control_dependencies([operation])``; functions of
        :func:`function` wait for the check anyway.

    Raises
    ------
    ShapeError
        If the static shapes do not broadcast.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_equal([1, 2], [1, 3], message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _assert_comparison("Equal", "==", x, y, Assertion(message, name, data, summarize))


@public
def assert_none_equal(
    x: Any, y: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x != y`` everywhere.

    Parameters
    ----------
    x, y : Tensor of any dtype
        Same dtype; shapes broadcast.
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    ShapeError
        If the static shapes do not broadcast.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_none_equal([1, 2], [3, 2], message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _assert_comparison("NotEqual", "!=", x, y, Assertion(message, name, data, summarize))


@public
def assert_less(
    x: Any, y: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x < y`` everywhere.

    Parameters
    ----------
    x, y : Tensor of a real dtype
        Same dtype; shapes broadcast.
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    ShapeError
        If the static shapes do not broadcast.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_less([1, 2], 2, message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _assert_comparison("Less", "<", x, y, Assertion(message, name, data, summarize))


@public
def assert_less_equal(
    x: Any, y: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x <= y`` everywhere.

    Parameters
    ----------
    x, y : Tensor of a real dtype
        Same dtype; shapes broadcast.
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    ShapeError
        If the static shapes do not broadcast.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_less_equal([1, 3], 2, message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _assert_comparison("LessEqual", "<=", x, y, Assertion(message, name, data, summarize))


@public
def assert_greater(
    x: Any, y: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x > y`` everywhere.

    Parameters
    ----------
    x, y : Tensor of a real dtype
        Same dtype; shapes broadcast.
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    ShapeError
        If the static shapes do not broadcast.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_greater([1, 2], 1, message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _assert_comparison("Greater", ">", x, y, Assertion(message, name, data, summarize))


@public
def assert_greater_equal(
    x: Any, y: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x >= y`` everywhere.

    Parameters
    ----------
    x, y : Tensor of a real dtype
        Same dtype; shapes broadcast.
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    ShapeError
        If the static shapes do not broadcast.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_greater_equal([0, 1], 1, message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _assert_comparison("GreaterEqual", ">=", x, y, Assertion(message, name, data, summarize))


@public
def assert_positive(
    x: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x > 0`` everywhere.

    Parameters
    ----------
    x : Tensor of a real dtype
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    DtypeError
        If the dtype has no order.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_positive([1, 0], message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _compare_with_zero("Greater", ">", x, Assertion(message, name, data, summarize))


@public
def assert_negative(
    x: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x < 0`` everywhere.

    Parameters
    ----------
    x : Tensor of a real dtype
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    DtypeError
        If the dtype has no order.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_negative([-1, 0], message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _compare_with_zero("Less", "<", x, Assertion(message, name, data, summarize))


@public
def assert_non_negative(
    x: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x >= 0`` everywhere.

    Parameters
    ----------
    x : Tensor of a real dtype
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    DtypeError
        If the dtype has no order.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_non_negative([0, -1], message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _compare_with_zero("GreaterEqual", ">=", x, Assertion(message, name, data, summarize))


@public
def assert_non_positive(
    x: Any, message: str = "", name: str | None = None, data: Data = None, summarize: int | None = None
) -> Operation:
    """Return an operation which fails unless ``x <= 0`` everywhere.

    Parameters
    ----------
    x : Tensor of a real dtype
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    DtypeError
        If the dtype has no order.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_non_positive([0, 1], message="sizes")).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: sizes: ... does not hold everywhere...
    """
    return _compare_with_zero("LessEqual", "<=", x, Assertion(message, name, data, summarize))


@public
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    message: str = "",
    name: str | None = None,
    data: Data = None,
    summarize: int | None = None,
) -> Operation:
    """Return an operation which fails unless ``abs(x - y) <= atol + rtol * abs(y)`` everywhere.

    Parameters
    ----------
    x, y : Tensor of a floating dtype
        Same dtype; shapes broadcast.
    rtol, atol : scalar of that dtype, optional
        Ten times the dtype's epsilon when None.
    message, name, data, summarize
        As for :func:`assert_equal`.

    Returns
    -------
    Operation
        Without outputs; see :func:`assert_equal`.

    Raises
    ------
    DtypeError
        If the dtype is not a floating one.
    OpError
        When a step runs the check, and the check fails.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.assert_near([1.0, 2.0], [1.0, 2.1], atol=0.01)).sync()
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: ... is near ... does not hold everywhere...
    """
    x, y = _typed_operands(x, y)
    if not x.dtype.is_floating:
        raise DtypeError(
            "assert_near compares numbers of a floating dtype",
            wanted="a floating dtype",
            got=x.dtype,
            operation=x.op,
            hint="use assert_equal for integers",
        )
    # Ten epsilons as in TensorFlow, of ml_dtypes because NumPy does not know bfloat16.
    default = 10 * float(float_info(x.dtype.numpy).eps)
    relative, absolute = (scalar_like(default, x) if each is None else each for each in (rtol, atol))
    allowed = convert_to_tensor(absolute, x.dtype) + apply("Abs", y) * relative
    condition = apply("LessEqual", apply("Abs", x - y), allowed)
    return Assertion(message, name, data, summarize).require(condition, f"{x.name} is near {y.name}", [x, y])
