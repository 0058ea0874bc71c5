"""Split products with concatenated factors into a sum of products of parts, some of which can leave the loop.

``concat([x, h], 1) @ w`` multiplies the input and the state at once. The sum ``x @ w[:n] + h @ w[n:]`` has a product
with the state and a product independent of the state.

A sum of two products is rounded in another way than one product. So the decision is by the dependences in the loop and
by the switches alone: a loop is split in the same way whether or not later passes may lift its products, that is, under
any memory limit, with swapping and recomputation, on any number of devices, and if its tensors are watched.
"""

from __future__ import annotations

from functools import reduce
from itertools import groupby

from ...ir.builder import Builder
from ...ir.loops import Loop
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.structured import is_structured
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from ...ir.topological import topological_order
from .products import WORTH, inner_axis, is_fast_in_loop, is_known, is_product, nbytes, work


def split_products(program: Program, most_bytes: int, keeps_products: bool) -> Program:
    """Return the program with products split of which a part is worth lifting; `program` is used up.

    Parameters
    ----------
    program : Program
    most_bytes : int
        Most bytes of a product.
    keeps_products : bool
        True if products that are as fast in a loop as before the loop stay there.
    """
    changed = False
    for op in reversed([op for op in program.graph.root.walk() if op.is_while]):  # inner loops first
        changed |= _Splitting(program, Loop(op), keeps_products).run(most_bytes)
    return copy_program(program) if changed else program


class _Splitting:
    """Splitting of the products in a loop's body.

    Parameters
    ----------
    program : Program
    loop : Loop
    keeps_products : bool
    """

    def __init__(self, program: Program, loop: Loop, keeps_products: bool) -> None:
        self.program = program
        self.loop = loop
        self.keeps_products = keeps_products
        # True if a tensor differs between iterations, False if not; without a key if it depends on earlier iterations.
        self.varies = {t: step != 0 for t in loop.body.params if (step := loop.step(t)) is not None}

    def run(self, most_bytes: int) -> bool:
        """Split the products of at most `most_bytes` bytes of which a part is worth lifting; return True if any."""
        products = [op for op in self.loop.body.operations if is_product(op) and _has_joined_factor(op)]
        if not products:
            return False
        self._find_kinds()
        moved: dict[Tensor, Tensor] = {}
        for op in products:
            if self._kind(op.outputs[0]) is None and nbytes(op.outputs[0]) <= most_bytes:
                for side in (0, 1):
                    pieces = self._group_parts(op, side)
                    # Split once: the pieces of the second factor would belong to a product that is replaced already.
                    if pieces and op.outputs[0] not in moved:
                        moved[op.outputs[0]] = _sum_split_products(op, side, pieces)
        substitute(self.program, moved)
        return bool(moved)

    def _find_kinds(self) -> None:
        """Find the tensors of the body that are independent of earlier iterations.

        Operations with effects count by their operands: where a loop is run again for its gradient, their saved results
        are read instead, and products are split there as in the first run.
        """
        for op in topological_order([op for op in self.loop.body.operations if not op.is_param]):
            kinds = [self._kind(t) for t in op.inputs]
            if None not in kinds and not is_structured(op):
                self.varies.update(dict.fromkeys(op.outputs, any(kinds)))

    def _kind(self, tensor: Tensor) -> bool | None:
        return False if self.loop.is_outside(tensor) else self.varies.get(tensor)

    def _group_parts(self, op: Operation, side: int) -> list[list[Tensor]]:
        """Return the parts of a factor, in groups to multiply together; none for a single group."""
        axis, (factor, other) = inner_axis(op, side), op.inputs[:: 1 if side == 0 else -1]
        if not _is_joined(factor, axis) or not self.loop.is_outside(other):
            return []
        is_fast = self.keeps_products and is_fast_in_loop(op, side)
        # Adjacent parts of one kind first, then of one kind after those too small to lift have joined the rest.
        groups = [list(parts) for _, parts in groupby(_flatten_concat(factor, axis), self._kind)]

        def kind(parts: list[Tensor]) -> bool | None:
            """Return the kind of a group, whose parts are all of one kind; None if lifting its product does not pay."""
            varies = self._kind(parts[0])
            return None if _work_of_parts(op, axis, factor, parts) < WORTH or (varies and is_fast) else varies

        pieces = [[t for parts in same for t in parts] for _, same in groupby(groups, kind)]
        return pieces if len(pieces) > 1 else []


def _has_joined_factor(op: Operation) -> bool:
    return any(_is_joined(op.inputs[side], inner_axis(op, side)) for side in (0, 1))


def _flatten_concat(factor: Tensor, axis: int) -> list[Tensor]:
    """Return the parts of a concatenated matrix, with nested concatenations flattened."""
    return [t for part in factor.op.inputs for t in (_flatten_concat(part, axis) if _is_joined(part, axis) else [part])]


def _work_of_parts(op: Operation, axis: int, factor: Tensor, parts: list[Tensor]) -> int:
    """Return the multiplications of a product with a few of the parts that are joined to a factor."""
    width = sum(t.shape.as_tuple()[axis] for t in parts)
    return width * (work(op) // factor.shape.as_tuple()[axis])


def _is_joined(factor: Tensor, axis: int) -> bool:
    """Return True if a matrix is a concatenation, along this axis, of parts of known shape."""
    op = factor.op
    along = op.type == "Concat" and op.attrs["axis"] in (axis, axis - 2)
    return along and not op.control_inputs and all(map(is_known, op.inputs))


def _sum_split_products(op: Operation, side: int, pieces: list[list[Tensor]]) -> Tensor:
    """Multiply each piece with its part of the other factor, and add the products in the order of the pieces."""
    other, start, terms = op.inputs[1 - side], 0, []
    # Slices of the other factor belong where the factor is: outside, they are cut once and not in each iteration.
    inside, outside = Builder(op.region, op), Builder(other.region, op)
    for parts in pieces:
        axis = inner_axis(op, side)
        stop = start + sum(t.shape.as_tuple()[axis] for t in parts)
        part = slice(start, stop)
        spec = (part,) if inner_axis(op, 1 - side) == 0 else (slice(None), part)
        factors = [inside.tensor("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]]
        factors.insert(1 - side, outside.tensor("StridedSlice", other, spec=spec))
        terms.append(inside.tensor("MatMul", *factors, **op.attrs))
        start = stop
    return reduce(lambda a, b: inside.tensor("Add", a, b), terms)
