"""``cond``, ``smart_cond``, ``case`` and ``switch_case``: run one of several branches, chosen by data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import nest
from ..base.calling import call
from ..base.dtypes import bool_, int32, int64
from ..base.errors import BranchMismatchError, DtypeError, GraphError, ShapeError
from ..base.source_lines import user_source
from ..ir import scopes
from ..ir.apply import apply, constant, convert_to_tensor
from ..ir.entry import public
from ..ir.region import Region
from ..ir.static_values import static_value
from ..ir.structured import make_cond, new_region
from ..ir.tensor import Tensor
from ..ops.support.indexed_slices import IndexedSlices
from .function_scope import keep_effects
from .leaves import dtype_hint, from_tensor, is_typed, to_tensor, trace_function

Function = Callable[[], Any]


@public
def cond(
    pred: Any,
    true_fn: Function,
    false_fn: Function,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """Run one of two branches (Yu et al., 2018, section 2.1).

    In Python: ``true_fn() if pred else false_fn()``. Each function is called once, while the graph is built;
    only what it builds is conditional. What was made outside runs in any case.

    Parameters
    ----------
    pred : Tensor of bool, scalar
    true_fn, false_fn : callable
        Without arguments; return the same nested structure with the same dtypes. An operation stands for a
        bool that is true in the true branch, given after it ran.
    strict : bool, optional
        Keep lists and tuples of one element; otherwise they are unpacked.

    Returns
    -------
    structure of Tensor
        What the branch returned; dimensions in which the branches differ are unknown.

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
    predicate = _predicate(pred, bool_, "cond")
    return build_branches(predicate, [false_fn, true_fn], strict, name or "cond")


@public
def smart_cond(pred: Any, true_fn: Function, false_fn: Function, name: str | None = None) -> Any:
    """Choose a branch while the graph is built if `pred` is known by then; else run one of them, as `cond` does.

    In Python: ``true_fn() if pred else false_fn()``. Of a choice that is known only the function chosen is called, and
    what it builds is conditional on nothing. The result is the same either way.

    Parameters
    ----------
    pred : bool, or Tensor of bool, scalar
        Known are Python's and NumPy's bools, and constants; a constant that was looked at can no longer be fed.
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
    predicate = None if isinstance(pred, (bool, np.bool_)) else _predicate(pred, bool_, "smart_cond")
    known = pred if predicate is None else static_value(predicate)
    if known is None:
        return cond(predicate, true_fn, false_fn, name=name)
    result = _unpack(
        call(true_fn if known else false_fn, (), f"{'true' if known else 'false'}_fn of smart_cond"), False
    )
    return nest.map_structure(lambda leaf: from_tensor(leaf, to_tensor(leaf, done=bool(known))), result)


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
    functions = list(branch_fns) + ([default] if default is not None else [])
    if not functions:
        raise GraphError(
            "switch_case needs at least one branch",
            wanted="branch_fns or a default",
            got="neither",
            hint="pass a list of functions",
        )
    return build_branches(_predicate(branch_index, int32, "switch_case"), functions, False, name or "switch_case")


@public
def case(
    pred_fn_pairs: Any,
    default: Function | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Run the function of the first predicate that is true.

    In Python: ``for pred, fn in pairs: if pred: return fn()``, then ``return default()``.

    Parameters
    ----------
    pred_fn_pairs : list of (Tensor of bool, callable), or dict
    default : callable, optional
        Without it, no true predicate is an error when the step runs.
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
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    if not pairs:
        raise GraphError(
            "case needs at least one (predicate, function) pair",
            got=pred_fn_pairs,
            hint="call the default itself where there is nothing to choose",
        )
    predicates = [_predicate(p, bool_, "case") for p, _ in pairs]
    controls = []
    if exclusive:
        count = apply("Sum", apply("Cast", apply("Stack", predicates, axis=0), dtype=int32), axis=None, keepdims=False)
        controls.append(_require(count <= 1, "Input error: more than one predicate of case is true", predicates))
    if default is None:
        any_true = apply("Any", apply("Stack", predicates, axis=0), axis=None, keepdims=False)
        controls.append(
            _require(any_true, "Input error: no predicate of case is true, and it has no default", predicates)
        )
        *pairs, (_, default) = pairs
        predicates = predicates[:-1]
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *controls)):
        functions = [fn for _, fn in pairs]
        if len(pairs) == 1:
            return cond(predicates[0], functions[0], lambda: call(default, (), f"the default of {name}"), strict, name)
        roles = [f"function {i}" for i in range(len(pairs))]
        return build_branches(_first_true(predicates), [*functions, default], strict, name, [*roles, "default"])


def _first_true(predicates: Sequence[Tensor]) -> Tensor:
    """Return the number of the first predicate that is true, or how many there are.

    So all functions of a `case` are branches of one Cond. Conds in each other's false branches would take what is
    used from outside through a Switch for each predicate before, and refuse more than a hundred.
    """
    index = constant(len(predicates), int32)
    for number in reversed(range(len(predicates))):
        index = apply("Where", predicates[number], constant(number, int32), index)
    return index


def _require(condition: Tensor, message: str, data: Sequence[Tensor]) -> Any:
    return apply("Assert", condition, data, message=message)


def _predicate(value: Any, dtype: Any, construct: str) -> Tensor:
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


def build_branches(
    predicate: Tensor,
    functions: Sequence[Function],
    strict: bool,
    name: str,
    roles: Sequence[str] | None = None,
    **attrs: Any,
) -> Any:
    """Build a Cond, and return what its branches do.

    Parameters
    ----------
    predicate : Tensor
        As for a Cond.
    functions : sequence of callable
        One for each branch.
    strict : bool
        As for :func:`cond`.
    name : str
        Of the Cond.
    roles : sequence of str, optional
        Labels of the branches in error messages.
    **attrs
        More attributes.
    """
    source = user_source()
    if roles is None:
        numbered = [f"branch {i}" for i in range(len(functions))]
        roles = ["false branch", "true branch"] if predicate.dtype is bool_ else numbered
    regions = [new_region(role) for role in roles]
    count = len(functions)
    order = [1, 0] if predicate.dtype is bool_ else range(count)  # true_fn is called first
    traced = {
        i: _unpack(trace_function(regions[i], functions[i], (), f"the {roles[i]} of {name}"), strict) for i in order
    }
    structures = [traced[i] for i in range(count)]
    for role, structure in zip(roles[1:], structures[1:], strict=True):
        found = nest.difference(structures[0], structure, outer=False)
        if found:
            raise BranchMismatchError(
                f"the branches of {name} return different structures",
                wanted="the same structure from each",
                got=f"{found} ({roles[0]} against {role})",
                source=source,
                hint="return the same lists, tuples and dicts from each branch",
            )
    _finish(regions, roles, structures, name)
    shapes = [_common_shape([r.results[i] for r in regions]) for i in range(len(regions[0].results))]
    op = make_cond(predicate, regions, shapes, name=name, source=source, **attrs)
    leaves = nest.flatten(structures[0])
    return nest.pack_as(structures[0], [from_tensor(leaf, t) for leaf, t in zip(leaves, op.outputs, strict=True)])


def _unpack(structure: Any, strict: bool) -> Any:
    if not strict and type(structure) in (list, tuple) and len(structure) == 1:
        return structure[0]
    return structure


def _finish(regions: Sequence[Region], roles: Sequence[str], structures: Sequence[Any], name: str) -> None:
    first = structures[0]
    paths = [path or "the result" for path, _ in nest.walk(first)]
    columns = zip(*(nest.flatten_as(first, s) for s in structures), strict=True)
    for path, of_slices, column in zip(paths, _indices_of_slices(first), columns, strict=True):
        _check_arrays(path, roles, column, name)
        hint = next((dtype_hint(leaf) for leaf in column if is_typed(leaf)), None)
        for branch, (region, leaf) in enumerate(zip(regions, column, strict=True)):
            with scopes.inside(region):
                region.results.append(to_tensor(leaf, hint, done=branch != 0))
        if of_slices:
            _widen_indices(regions)
        _check_dtypes(path, roles, [r.results[-1] for r in regions], name)
    for region in regions:
        keep_effects(region, region.results)


def _indices_of_slices(structure: Any) -> list[bool]:
    """Say of each leaf whether it is the indices or the dense shape of IndexedSlices."""
    parts = nest.children(structure)
    if isinstance(structure, IndexedSlices) and parts is not None:
        return [label != ".values" for label, _ in parts]
    return [False] if parts is None else [found for _, part in parts for found in _indices_of_slices(part)]


def _widen_indices(regions: Sequence[Region]) -> None:
    """Cast the last results to int64 if their dtypes differ (rule 68)."""
    if len({r.results[-1].dtype for r in regions}) > 1:
        for region in regions:
            with scopes.inside(region):
                region.results[-1] = apply("Cast", region.results[-1], dtype=int64)


def _check_arrays(path: str, roles: Sequence[str], column: Sequence[Any], name: str) -> None:
    """Refuse branches that return different TensorArrays: what follows could not know which one it holds."""
    handles = [leaf.handle if hasattr(leaf, "with_flow") else None for leaf in column]
    for role, leaf, handle in zip(roles, column, handles, strict=True):
        if handle is not handles[0]:
            raise BranchMismatchError(
                f"the branches of {name} return different TensorArrays for {path}",
                wanted=f"{column[0]} (from the {roles[0]})",
                got=f"{leaf} (from the {role})",
                hint="make one array outside, and return what its write gives from each branch",
            )


def _check_dtypes(path: str, roles: Sequence[str], results: Sequence[Tensor], name: str) -> None:
    for role, result in zip(roles, results, strict=True):
        if result.dtype is not results[0].dtype:
            raise BranchMismatchError(
                f"the branches of {name} return different dtypes for {path}",
                wanted=f"{results[0].dtype} (from the {roles[0]})",
                got=f"{result.dtype} (from the {role})",
                operation=result.op,
                hint=f"cast one of them, as in cast(..., '{results[0].dtype}')",
            )


def _common_shape(results: Sequence[Tensor]) -> Any:
    shape = results[0].shape
    for tensor in results[1:]:
        shape = shape.relax(tensor.shape)
    return shape
