"""Batch sums of products in a loop: gather the factors of many iterations and multiply them at once.

The gradient of weights used in a loop is a sum over iterations, ``total + a.T @ b``. The sum over some iterations is
the product of all rows of `a` with all rows of `b`, a large product instead of many small products. The gathered rows
travel with the sum, which is represented by a handle inside the loop.
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
from ...ir.substitute import substitute
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
    for op, i, term in sums:
        moved.update(_gather_factors(op, i, term))
    substitute(program, moved)
    for op, i, _ in sums:
        _make_handles(op, i, moved[op.outputs[i]])
    return copy_program(program)


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
        # The product is no longer computed by itself, so only the addition may use the term.
        near = term.region is body and term.op.device == total.op.device
        if near and len(term._consumers) == 1 and not kept[term] and not term.op.control_inputs:
            yield i, term


def is_batchable(term: Tensor) -> bool:
    """Return True for a product of known result shape and BLAS dtype; its inner dimension may vary."""
    return is_matmul(term.op) and is_known(term) and term.dtype in MATRICES


def _joins_rows(product: Operation) -> bool:
    # Otherwise the inner axis is not the rows of both factors, and gathered rows would not add up.
    return bool(product.attrs["transpose_a"] and not product.attrs["transpose_b"])


def _gather_factors(op: Operation, i: int, term: Tensor) -> dict[Tensor, Tensor]:
    """Turn variable `i` of a loop into a sum with gathered factors; return the replaced tensors."""
    before, total, after = op.regions[1].params[i], op.regions[1].results[i], op.outputs[i]
    begin = _emit_like("ProductSumBegin", op.region, [op.inputs[i]], total, term.op)
    add = _emit_like("ProductSumAdd", op.regions[1], [before, *term.op.inputs], total, term.op)
    end = _emit_like("ProductSumEnd", op.region, [after], total, term.op, dtype=total.dtype, shape=total.shape)
    op.update_input(i, begin)
    return {after: end, total: add}


def _make_handles(op: Operation, i: int, end: Tensor) -> None:
    """Change the type of variable `i` of a loop to the handle of a sum, and connect the sum's end after the loop."""
    cond, body = op.regions
    # The substitution has replaced the input of the end, too: by the result of the end itself.
    end.op.update_input(0, op.outputs[i])
    # The tensors are changed in place, because the loop and its regions refer to them by identity.
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
