"""Batch sums of products in a loop: gather the factors of many iterations and multiply them at once.

The gradient of weights used in a loop is a sum over iterations, ``total + a.T @ b``. The sum over some iterations is
the product of all rows of `a` with all rows of `b`, a large product instead of many small products. The gathered rows
travel with the sum, which is represented by a handle inside the loop. If the loop is a segment of the iterations of
another loop, for ``checkpoint_every``, the handle passes from segment to segment: the same rows are multiplied at once
as without segments, so that the sum has the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...base import dtypes
from ...base.shapes import SCALAR
from ...ir.operation import Operation
from ...ir.own_kernels import HasOwnKernel, has_no_own_kernel
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.structured import num_results, saved_outputs
from ...ir.substitute import has_one_user, substitute
from ...ir.tensor import Tensor
from .products import is_known, is_matmul

MATRICES = (dtypes.float32, dtypes.float64)


def batch_products(program: Program, has_own_kernel: HasOwnKernel = has_no_own_kernel) -> Program:
    """Return the program with products of running sums batched; `program` is used up.

    Products with registered kernels are left for these.
    """
    loops = [op for op in program.graph.root.walk() if op.is_while]
    sums = [
        (op, i, term)
        for op in loops
        for i, term in running_sums(op)
        if is_batchable(term) and _joins_rows(term.op) and not has_own_kernel(term.op)
    ]
    if not sums:
        return program
    moved: dict[Tensor, Tensor] = {}
    variables = [passed_variables(op, i) for op, i, _ in sums]
    for passed, (_, _, term) in zip(variables, sums, strict=True):
        moved.update(_gather_factors(passed, term))
    ends = [moved[op.outputs[i]] for op, i in (passed[-1] for passed in variables)]
    substitute(program, moved)
    for passed, end in zip(variables, ends, strict=True):
        _make_handles(passed, end)
    return copy_program(program)


def passed_variables(op: Operation, i: int) -> list[tuple[Operation, int]]:
    """Return variable `i` of a loop, and the variables of loops around it that only pass to it, outermost last."""
    passed = [(op, i)]
    while (around := _variable_around(*passed[-1])) is not None:
        passed.append(around)
    return passed


def _variable_around(op: Operation, i: int) -> tuple[Operation, int] | None:
    """Return the variable of the loop around a loop that is nothing except the initial and next value of another."""
    start, end, around = op.inputs[i], op.outputs[i], op.region.owner
    if around is None or not around.is_while or not start.op.is_param or start.region is not op.region:
        return None
    cond, body = around.regions
    place = body.place_of(start) if op.region is body else -1
    if place < 0 or body.results[place] is not end or end._consumers or cond.params[place]._consumers:
        return None
    kept = Counter([*body.results, *(t for e in saved_outputs(around) for t in (e.value, e.index))])
    alone = list(start._consumers) == [op] and sum(t is start for t in op.inputs) == 1
    return (around, place) if alone and kept[end] == 1 and not kept[start] else None


def running_sums(op: Operation) -> Iterator[tuple[int, Tensor]]:
    """Yield the loop variables whose only use is the addition of a term per iteration, and the term."""
    cond, body = op.regions
    # In the loop the sum becomes a handle without a value, so only its addition may read the variable.
    kept = Counter([*body.results, *(t for e in saved_outputs(op) for t in (e.value, e.index))])
    for i in range(num_results(op)):
        before, total = body.params[i], body.results[i]
        terms = [t for t in total.op.inputs if t is not before]
        once = kept[total] == 1 and not kept[before] and not total._consumers and not cond.params[i]._consumers
        if total.op.type != "Add" or total.op.control_inputs or len(terms) != 1:
            continue
        if not once or list(before._consumers) != [total.op]:
            continue
        term = terms[0]
        # The product is no longer computed by itself, except for a watch, so only the addition may use the term.
        near = term.region is body and term.op.device == total.op.device
        if near and not term.op.control_inputs and has_one_user(term, kept):
            yield i, term


def is_batchable(term: Tensor) -> bool:
    """Return True for a product of known result shape and BLAS dtype; its inner dimension may vary."""
    return is_matmul(term.op) and is_known(term) and term.dtype in MATRICES


def _joins_rows(product: Operation) -> bool:
    # Otherwise the inner axis is not the rows of both factors, and gathered rows would not add up.
    return bool(product.attrs["transpose_a"] and not product.attrs["transpose_b"])


def _gather_factors(passed: list[tuple[Operation, int]], term: Tensor) -> dict[Tensor, Tensor]:
    """Turn a variable, with those that pass to it, into a sum with gathered factors; return the replaced tensors."""
    (op, i), (outer, k) = passed[0], passed[-1]
    before, total, after = op.regions[1].params[i], op.regions[1].results[i], outer.outputs[k]
    begin = _emit_like("ProductSumBegin", outer.region, [outer.inputs[k]], total, term.op)
    add = _emit_like("ProductSumAdd", op.regions[1], [before, *term.op.inputs], total, term.op)
    end = _emit_like("ProductSumEnd", outer.region, [after], total, term.op, dtype=total.dtype, shape=total.shape)
    outer.update_input(k, begin)
    return {after: end, total: add}


def _make_handles(passed: list[tuple[Operation, int]], end: Tensor) -> None:
    """Change the type of variables to the handle of a sum, and connect the sum's end after the outermost loop."""
    outer, k = passed[-1]
    # The substitution has replaced the input of the end, too: by the result of the end itself.
    end.op.update_input(0, outer.outputs[k])
    # The tensors are changed in place, because the loops and their regions refer to them by identity.
    for op, i in passed:
        cond, body = op.regions
        for handle in (op.inputs[i], cond.params[i], body.params[i], body.results[i], op.outputs[i]):
            handle.dtype, handle.shape = dtypes.resource, SCALAR


def _emit_like(type: str, region: Region, inputs: list[Tensor], like: Tensor, made: Operation, **attrs: Any) -> Tensor:
    """Append an operation whose result is like a tensor, named after a product."""
    op = Operation(
        region,
        type,
        region.graph.unique_name(f"{made.name}/{type}"),
        inputs,
        [(like.dtype, like.shape)],
        attrs=attrs,
        device=made.device,
        source=made.source,
    )
    return op.outputs[0]
