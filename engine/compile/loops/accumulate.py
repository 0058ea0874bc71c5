"""Accumulate products into a running sum in place.

Products of a running sum cannot be batched (``weight_gradients.py``) unless they sum over the rows of both factors.
Otherwise BLAS adds each product to the total, without another array as large as the total.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.own_kernels import HasOwnKernel, has_no_own_kernel
from ...ir.program import Program, copy_program
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from .weight_gradients import is_batchable, running_sums


def accumulate_products(program: Program, has_own_kernel: HasOwnKernel = has_no_own_kernel) -> Program:
    """Return the program with products added to their sums by BLAS; `program` is used up.

    Products with registered kernels are left for these.
    """
    moved: dict[Tensor, Tensor] = {}
    for op in [op for op in program.graph.root.walk() if op.is_while]:
        body = op.regions[1]
        for index, term in running_sums(op):
            # BLAS adds in place and does not broadcast.
            if is_batchable(term) and not has_own_kernel(term.op) and term.shape == body.params[index].shape:
                moved[body.results[index]] = _emit_matmul_add(term, body.params[index])
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _emit_matmul_add(term: Tensor, total: Tensor) -> Tensor:
    product = term.op
    return Builder(product.region, product, "added").tensor("MatMulAdd", *product.inputs, total, **product.attrs)
