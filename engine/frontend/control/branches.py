"""Construction of conditionals: branches are traced, compared, and combined in a Cond operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base import nest
from ...base.dtypes import DType, bool_, int64
from ...base.errors import BranchMismatchError
from ...base.source_lines import user_source
from ...ir import scopes
from ...ir.apply import apply
from ...ir.region import Region
from ...ir.structured import make_cond, new_region
from ...ir.tensor import Tensor
from ...ir.weak import mark_weak
from ...ops.support.indexed_slices import IndexedSlices
from ..tracing.function_scope import keep_effects
from ..tracing.leaves import (
    dtype_hint,
    from_tensor,
    is_literal,
    is_typed,
    is_weak_leaf,
    to_tensor,
    trace_function,
    weak_dtype,
)

Function = Callable[[], Any]


def build_branches(
    predicate: Tensor,
    functions: Sequence[Function],
    strict: bool,
    name: str,
    roles: Sequence[str] | None = None,
    **attrs: Any,
) -> Any:
    """Build a Cond, and return the outputs in the structure of the branches.

    Parameters
    ----------
    predicate : Tensor
        As for a Cond.
    functions : sequence of callable
        A function for each branch.
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
        i: unpack_single(trace_function(regions[i], functions[i], (), f"the {roles[i]} of {name}"), strict)
        for i in order
    }
    structures = [traced[i] for i in range(count)]
    for role, structure in zip(roles[1:], structures[1:], strict=True):
        difference = nest.difference(structures[0], structure, outer=False)
        if difference:
            raise BranchMismatchError(
                f"the branches of {name} return different structures",
                wanted="the same structure from each",
                got=f"{difference} ({roles[0]} against {role})",
                source=source,
                hint="return the same lists, tuples and dicts from each branch",
            )
    weak = _append_results(regions, roles, structures, name)
    shapes = [_common_shape([r.results[i] for r in regions]) for i in range(len(regions[0].results))]
    op = make_cond(predicate, regions, shapes, name=name, source=source, **attrs)
    # In the body of a loop, results made of literals alone may still take the dtype of other values.
    mark_weak(*map(op.outputs.__getitem__, weak))
    leaves = nest.flatten(structures[0])
    return nest.pack_as(structures[0], [from_tensor(leaf, t) for leaf, t in zip(leaves, op.outputs, strict=True)])


def unpack_single(structure: Any, strict: bool) -> Any:
    """Return the only element of a list or tuple of length 1, unless `strict`."""
    if not strict and type(structure) in (list, tuple) and len(structure) == 1:
        return structure[0]
    return structure


def _append_results(regions: Sequence[Region], roles: Sequence[str], structures: Sequence[Any], name: str) -> list[int]:
    """Append the results of the branches; return the numbers of the weak results, which adopt other dtypes."""
    first, weak = structures[0], []
    paths = [path or "the result" for path, _ in nest.walk(first)]
    columns = zip(*(nest.flatten_as(first, s) for s in structures), strict=True)
    for path, of_slices, column in zip(paths, _indices_of_slices(first), columns, strict=True):
        _check_arrays(path, roles, column, name)
        hint, is_weak = _dtype_of_result(column)
        if is_weak:
            # All regions get their results column by column, so one number is valid in each.
            weak.append(len(regions[0].results))
        for branch, (region, leaf) in enumerate(zip(regions, column, strict=True)):
            with scopes.inside(region):
                # Region 0 is the false branch, where an operation stands for False.
                region.results.append(to_tensor(leaf, hint, done=branch != 0))
        if of_slices:
            # Widened instead of refused: the dtype of indices is not the user's choice.
            _widen_indices(regions)
        _check_dtypes(path, roles, [r.results[-1] for r in regions], name)
    for region in regions:
        keep_effects(region, region.results)
    return weak


def _dtype_of_result(column: Sequence[Any]) -> tuple[DType | None, bool]:
    """Return the dtype of literals in a position of the results, and True if the result is weak."""
    typed = [leaf for leaf in column if is_typed(leaf) and not is_weak_leaf(leaf)]
    if typed:
        return dtype_hint(typed[0]), False
    if not all(map(is_weak_leaf, column)):
        return None, False
    # Literals alone take their default dtype; with a weak tensor among them, the result stays weak.
    return weak_dtype(column), not all(map(is_literal, column))


def _indices_of_slices(structure: Any) -> list[bool]:
    """Return for each leaf True if the leaf is the indices or the dense shape of IndexedSlices."""
    parts = nest.children(structure)
    if isinstance(structure, IndexedSlices) and parts is not None:
        # The values alone are data of the user; the integers beside them may be widened.
        return [label != ".values" for label, _ in parts]
    return [False] if parts is None else [is_index for _, part in parts for is_index in _indices_of_slices(part)]


def _widen_indices(regions: Sequence[Region]) -> None:
    """Cast the last results to int64 if their dtypes differ (rule 68)."""
    if len({r.results[-1].dtype for r in regions}) > 1:
        for region in regions:
            with scopes.inside(region):
                region.results[-1] = apply("Cast", region.results[-1], dtype=int64)


def _check_arrays(path: str, roles: Sequence[str], column: Sequence[Any], name: str) -> None:
    """Refuse branches with different TensorArrays: the array is static, so no operation could use the result."""
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
    """Raise BranchMismatchError if the branches' results in a position differ in dtype."""
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
