"""``cond``, ``smart_cond``, ``case`` and ``switch_case``: run one of several branches, chosen by data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from ...base import nest
from ...base.calling import call
from ...base.dtypes import bool_, int32
from ...base.errors import DtypeError, GraphError, ShapeError
from ...ir import scopes
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ...ir.typed import NamedFields, Result
from ...ops.support.arguments import list_argument
from ..tracing.leaves import from_tensor, to_tensor
from .branches import build_branches, unpack_single

Function = Callable[[], Any]
K = TypeVar("K")
NT = TypeVar("NT", bound=NamedFields)
S = TypeVar("S")
Branches: TypeAlias = Sequence[Callable[[], S]] | Sequence[tuple[int, Callable[[], S]]] | Mapping[int, Callable[[], S]]


# Overloads go from special to general, because type checkers take the first that fits.
@overload
def cond(
    pred: Any, true_fn: Callable[[], NT], false_fn: Callable[[], NT], strict: bool = False, name: str | None = None
) -> NT: ...
@overload
def cond(
    pred: Any,
    true_fn: Callable[[], Result],
    false_fn: Callable[[], Result],
    strict: bool = False,
    name: str | None = None,
) -> Tensor: ...
@overload
def cond(
    pred: Any,
    true_fn: Callable[[], tuple[Result, Result]],
    false_fn: Callable[[], tuple[Result, Result]],
    strict: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def cond(
    pred: Any,
    true_fn: Callable[[], tuple[Result, Result, Result]],
    false_fn: Callable[[], tuple[Result, Result, Result]],
    strict: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def cond(
    pred: Any,
    true_fn: Callable[[], Mapping[K, Result]],
    false_fn: Callable[[], Mapping[K, Result]],
    strict: bool = False,
    name: str | None = None,
) -> dict[K, Tensor]: ...
@overload
def cond(
    pred: Any,
    true_fn: Callable[[], list[Any]],
    false_fn: Callable[[], list[Any]],
    strict: bool = False,
    name: str | None = None,
) -> Any: ...
@overload
def cond(
    pred: Any, true_fn: Callable[[], S], false_fn: Callable[[], S], strict: bool = False, name: str | None = None
) -> S: ...
@public
def cond(
    pred: Any,
    true_fn: Function,
    false_fn: Function,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """Run one of two branches (Yu et al., 2018, section 2.1).

    In Python: ``true_fn() if pred else false_fn()``. Each function is called once, while the graph is built; only
    operations built by the functions are conditional. Operations built outside run in any case.

    Parameters
    ----------
    pred : Tensor of bool, scalar
    true_fn, false_fn : callable
        Without arguments; return the same nested structure with the same dtypes. A literal takes the dtype of the
        other branch's result; an int beside a float becomes a float. An operation stands for a bool, true in the true
        branch, and available after the operation ran.
    strict : bool, optional
        Return lists and tuples of a single element as such; otherwise they are unpacked.

    Returns
    -------
    structure of Tensor
        The results of the branch; dimensions in which the branches differ are unknown.

    Raises
    ------
    BranchMismatchError
        If the branches differ in structure or dtype, or return different TensorArrays.
    GraphError
        If `pred` is a Python bool, or a branch returns None.

    Examples
    --------
    >>> import tagloom as tg
    >>> f = tg.function(lambda x: tg.cond(x > 0.0, lambda: x * 2.0, lambda: -x))
    >>> float(f.sync(3.0)), float(f.sync(-5.0))
    (6.0, 5.0)
    """
    if isinstance(pred, bool):
        raise GraphError("the predicate of cond is a Python bool", got=pred, hint="use Python's `if`, or smart_cond")
    predicate = _convert_predicate(pred, bool_, "cond")
    # A conditional chooses its branch by number: False is branch 0.
    return build_branches(predicate, [false_fn, true_fn], strict, name or "cond")


@overload
def smart_cond(pred: Any, true_fn: Callable[[], NT], false_fn: Callable[[], NT], name: str | None = None) -> NT: ...
@overload
def smart_cond(
    pred: Any, true_fn: Callable[[], Result], false_fn: Callable[[], Result], name: str | None = None
) -> Tensor: ...
@overload
def smart_cond(
    pred: Any,
    true_fn: Callable[[], tuple[Result, Result]],
    false_fn: Callable[[], tuple[Result, Result]],
    name: str | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def smart_cond(
    pred: Any,
    true_fn: Callable[[], tuple[Result, Result, Result]],
    false_fn: Callable[[], tuple[Result, Result, Result]],
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def smart_cond(
    pred: Any,
    true_fn: Callable[[], Mapping[K, Result]],
    false_fn: Callable[[], Mapping[K, Result]],
    name: str | None = None,
) -> dict[K, Tensor]: ...
@overload
def smart_cond(
    pred: Any, true_fn: Callable[[], list[Any]], false_fn: Callable[[], list[Any]], name: str | None = None
) -> Any: ...
@overload
def smart_cond(pred: Any, true_fn: Callable[[], S], false_fn: Callable[[], S], name: str | None = None) -> S: ...
@public
def smart_cond(pred: Any, true_fn: Function, false_fn: Function, name: str | None = None) -> Any:
    """Choose a branch while the graph is built if `pred` is known by then; else run one of two, as `cond` does.

    In Python: ``true_fn() if pred else false_fn()``. For a known `pred` only the chosen function is called, and its
    operations are unconditional. The result is the same either way.

    Parameters
    ----------
    pred : bool, or Tensor of bool, scalar
        Known are Python's and NumPy's bools, and constants; a constant, once used here, can no longer be fed.
    true_fn, false_fn : callable
        As for :func:`cond`.
    name : str, optional
        As for :func:`cond`.

    Returns
    -------
    structure of Tensor
        As for :func:`cond`.

    Raises
    ------
    BranchMismatchError, GraphError
        As for :func:`cond`; functions that are not called are not compared.

    Examples
    --------
    >>> import tagloom as tg
    >>> @tg.function
    ... def double(x, training):
    ...     return tg.smart_cond(training, lambda: x * 2.0, lambda: x)
    >>> float(double.sync(3.0, True)), float(double.sync(3.0, False))  # a constant: only one function is called
    (6.0, 3.0)
    """
    predicate = None if isinstance(pred, (bool, np.bool_)) else _convert_predicate(pred, bool_, "smart_cond")
    known = pred if predicate is None else static_value(predicate)
    if known is None:
        return cond(predicate, true_fn, false_fn, name=name)
    # A list of one value is unpacked, as by cond without `strict`.
    result = unpack_single(
        call(true_fn if known else false_fn, (), f"{'true' if known else 'false'}_fn of smart_cond"), False
    )
    # Literals and operations become tensors, as from cond.
    return nest.map_structure(lambda leaf: from_tensor(leaf, to_tensor(leaf, done=bool(known))), result)


@overload
def switch_case(
    branch_index: Any, branch_fns: Branches[NT], default: Callable[[], NT] | None = None, name: str | None = None
) -> NT: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Sequence[Callable[[], Result]],
    default: Callable[[], Result] | None = None,
    name: str | None = None,
) -> Tensor: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Branches[Result],
    default: Callable[[], Result] | None = None,
    name: str | None = None,
) -> Tensor: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Sequence[Callable[[], tuple[Result, Result]]],
    default: Callable[[], tuple[Result, Result]] | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Branches[tuple[Result, Result]],
    default: Callable[[], tuple[Result, Result]] | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Branches[tuple[Result, Result, Result]],
    default: Callable[[], tuple[Result, Result, Result]] | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Branches[Mapping[K, Result]],
    default: Callable[[], Mapping[K, Result]] | None = None,
    name: str | None = None,
) -> dict[K, Tensor]: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Branches[list[Any]],
    default: Callable[[], list[Any]] | None = None,
    name: str | None = None,
) -> Any: ...
@overload
def switch_case(
    branch_index: Any, branch_fns: Branches[S], default: Callable[[], S] | None = None, name: str | None = None
) -> S: ...
@public
def switch_case(branch_index: Any, branch_fns: Any, default: Function | None = None, name: str | None = None) -> Any:
    """Run the branch with number `branch_index`.

    In Python: ``fns[index]() if 0 <= index < len(fns) else default()`` (without a default, the last function).

    Parameters
    ----------
    branch_index : Tensor of int32, scalar
    branch_fns : sequence of callable, or dict from int to callable, or its pairs
        A dict must hold every number from 0 up.
    default : callable, optional

    Returns
    -------
    structure of Tensor
        As for :func:`cond`.

    Examples
    --------
    >>> import tagloom as tg
    >>> fns = [lambda: tg.constant("zero"), lambda: tg.constant("one")]
    >>> f = tg.function(lambda k: tg.switch_case(k, fns, default=lambda: tg.constant("many")))
    >>> [f.sync(k).item() for k in (0, 1, 7, -1)]
    ['zero', 'one', 'many', 'many']
    """
    if not isinstance(branch_fns, dict):
        branch_fns = list_argument(branch_fns, "switch_case", "functions", "index, [f, g]")
    # A list may hold pairs of a number and a function, in any order.
    if not isinstance(branch_fns, dict) and any(isinstance(fn, tuple) for fn in branch_fns):
        branch_fns = dict(branch_fns)
    if isinstance(branch_fns, dict):
        if sorted(branch_fns) != list(range(len(branch_fns))):
            raise GraphError(
                "branch numbers must be 0 to n-1",
                got=sorted(branch_fns),
                wanted=list(range(len(branch_fns))),
                hint="give the missing numbers a function, or use case",
            )
        branch_fns = [branch_fns[i] for i in range(len(branch_fns))]
    # A Cond runs its last branch for numbers out of range.
    functions = branch_fns + ([default] if default is not None else [])
    if not functions:
        raise GraphError(
            "switch_case needs at least one branch",
            wanted="branch_fns or a default",
            got="neither",
            hint="pass a list of functions",
        )
    return build_branches(
        _convert_predicate(branch_index, int32, "switch_case"), functions, False, name or "switch_case"
    )


@overload
def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], NT]]],
    default: Callable[[], NT] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> NT: ...
@overload
def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], Result]]],
    default: Callable[[], Result] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Tensor: ...
@overload
def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], tuple[Result, Result]]]],
    default: Callable[[], tuple[Result, Result]] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> tuple[Tensor, Tensor]: ...
@overload
def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], tuple[Result, Result, Result]]]],
    default: Callable[[], tuple[Result, Result, Result]] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], Mapping[K, Result]]]],
    default: Callable[[], Mapping[K, Result]] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> dict[K, Tensor]: ...
@overload
def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], list[Any]]]],
    default: Callable[[], list[Any]] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any: ...
@overload
def case(
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], S]]],
    default: Callable[[], S] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> S: ...
@overload
def case(
    pred_fn_pairs: Any,
    default: Function | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any: ...
@public
def case(
    pred_fn_pairs: Any,
    default: Function | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Run the function of the first true predicate.

    In Python: ``for pred, fn in pairs: if pred: return fn()``, then ``return default()``.

    Parameters
    ----------
    pred_fn_pairs : list of (Tensor of bool, callable), or dict
    default : callable, optional
        Without a default, the step fails if no predicate is true.
    exclusive : bool, optional
        Check at run time that at most one predicate is true.
    strict : bool, optional
        As for :func:`cond`.

    Returns
    -------
    structure of Tensor
        As for :func:`cond`.

    Examples
    --------
    >>> import tagloom as tg
    >>> def size(x):
    ...     pairs = [(x < 10, lambda: tg.constant("small")), (x < 100, lambda: tg.constant("medium"))]
    ...     return tg.case(pairs, default=lambda: tg.constant("large"))
    >>> [tg.function(size).sync(x).item() for x in (5, 50, 500)]
    ['small', 'medium', 'large']
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else _require_pairs(pred_fn_pairs)
    if not pairs:
        raise GraphError(
            "case needs at least one (predicate, function) pair",
            got=pred_fn_pairs,
            hint="call the default itself where there is nothing to choose",
        )
    predicates = [_convert_predicate(p, bool_, "case") for p, _ in pairs]
    controls = []
    if exclusive:
        count = apply("Sum", apply("Cast", apply("Stack", predicates, axis=0), dtype=int32), axis=None, keepdims=False)
        controls.append(_assert_at_run(count <= 1, "Input error: more than one predicate of case is true", predicates))
    if default is None:
        any_true = apply("Any", apply("Stack", predicates, axis=0), axis=None, keepdims=False)
        controls.append(
            _assert_at_run(any_true, "Input error: no predicate of case is true, and it has no default", predicates)
        )
        # After the assertion the last predicate is true if no other is, so its function is the default.
        *pairs, (_, default) = pairs
        predicates = predicates[:-1]
    # No branch runs before the assertions have passed.
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *controls)):
        functions: list[Any] = [*(fn for _, fn in pairs), default]
        # A single predicate is itself the predicate of a cond.
        if len(pairs) == 1:
            return cond(predicates[0], functions[0], lambda: call(default, (), f"the default of {name}"), strict, name)
        roles = [f"function {i}" for i in range(len(pairs))]
        return build_branches(_first_true(predicates), functions, strict, name, [*roles, "default"])


def _require_pairs(given: Any) -> list[tuple[Any, Any]]:
    """Return the pairs of `case`; GraphError unless each is a predicate and a function."""
    pairs = list_argument(given, "case", "pairs of a predicate and a function", "[(x < 1.0, f), (x < 2.0, g)]")
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise GraphError(
                "case takes a function for each predicate",
                wanted="pairs (predicate, function)",
                got=repr(pair),
                hint="case([(x < 1.0, f), (x < 2.0, g)], default=h)",
            )
    return [(predicate, function) for predicate, function in pairs]


def _first_true(predicates: Sequence[Tensor]) -> Tensor:
    """Return the number of the first true predicate, or the number of predicates if all are false.

    With the number, all functions of a `case` are branches of a single Cond. Conds nested in each other's false
    branches would route every outer tensor through a Switch for each earlier predicate, and reject more than a hundred.
    """
    index = constant(len(predicates), int32)
    # From last to first, so that the first true predicate prevails.
    for number in reversed(range(len(predicates))):
        index = apply("Where", predicates[number], constant(number, int32), index)
    return index


def _assert_at_run(condition: Tensor, message: str, data: Sequence[Tensor]) -> Any:
    return apply("Assert", condition, data, message=message)


def _convert_predicate(value: Any, dtype: Any, construct: str) -> Tensor:
    """Convert a predicate or branch index to a scalar tensor of `dtype`; DtypeError or ShapeError if impossible."""
    tensor = convert_to_tensor(value)
    if tensor.dtype is not dtype:
        raise DtypeError(
            f"the predicate of {construct} has the wrong dtype",
            wanted=dtype,
            got=tensor.dtype,
            hint=f"compare it with something, or use cast(..., '{dtype}')",
        )
    if tensor.rank not in (0, None):
        raise ShapeError(
            f"the predicate of {construct} must be a scalar",
            wanted="[]",
            got=tensor.shape,
            hint="use reduce_all or reduce_any, or where to choose element by element",
        )
    return tensor
