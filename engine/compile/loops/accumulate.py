"""Add products to a running sum where it stands.

Where many products of a running sum can not be made at once (``weight_gradients.py``), since it is not the rows of both
factors that meet, BLAS adds each to the total, and nothing else as large as the total is made.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.program import Program, copy_program
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from .weight_gradients import is_batchable, running_sums


def accumulate_products(program: Program) -> Program:
    """Return the program with products added to their sums as they are made; the given one is used up."""
    moved: dict[Tensor, Tensor] = {}
    for op in [op for op in program.graph.root.walk() if op.is_while]:
        body = op.regions[1]
        for index, term in running_sums(op):
            if is_batchable(term) and term.shape == body.params[index].shape:
                moved[body.results[index]] = _added(term, body.params[index])
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _added(term: Tensor, total: Tensor) -> Tensor:
    made = term.op
    return Builder(made.region, made, "added").tensor("MatMulAdd", *made.inputs, total, **made.attrs)
