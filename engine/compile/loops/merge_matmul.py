"""Merge products in a loop with a common factor or sum: a single product of concatenated factors.

Four gates with separate weights are four products of one state, and their gradients are sums of four products. If the
other factors are the same in all iterations, they are concatenated once, before the loop, and a single product replaces
many: BLAS packs a factor once instead of four times, and later passes see a single operation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from ...base import dtypes
from ...ir.builder import Builder
from ...ir.loops import Loop, is_counted
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.structured import add_variable
from ...ir.substitute import computing_users, count_noninput_uses, has_one_user, substitute
from ...ir.tensor import Tensor
from .part_sums import is_sum
from .products import inner_axis, is_product
from .weight_gradients import passed_variables, running_sums

_SIDES = (0, 1)


def merge_products(program: Program) -> Program:
    """Return the program with products of a common factor or sum merged; `program` is used up."""
    merging = _Merging(program)
    for op in [op for op in program.graph.root.walk() if op.is_while and is_counted(op)]:
        merging.merge_in_loop(Loop(op))
    return copy_program(program) if merging.changed else program


class _Merging:
    """State of the pass on a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.changed = False
        self.joined: dict[tuple[Any, ...], Tensor] = {}  # by region, axis and parts

    def merge_in_loop(self, loop: Loop) -> None:
        """Merge products in the body of a loop."""
        while self._running_sums(loop):
            pass
        self._merge_sums(
            loop
        )  # before `_merge_shared_factors`, after which the terms of a sum would be slices of one product
        self._merge_shared_factors(loop)

    def _merge_shared_factors(self, loop: Loop) -> None:
        """Merge products with a common factor, whose other factors are the same in all iterations."""
        for side in _SIDES:
            groups: dict[tuple[Any, ...], list[Operation]] = defaultdict(list)
            for op in loop.body.operations:
                if is_product(op) and loop.is_outside(op.inputs[1 - side]) and not loop.is_outside(op.inputs[side]):
                    groups[op.inputs[side], op.device, *op.attrs.values()].append(op)
            # Keys hold all attributes: products with other transposes would be joined along other axes.
            for ops in groups.values():
                if len({op.inputs[1 - side] for op in ops}) > 1:
                    product = self._emit_merged_product(
                        ops[0], side, ops[0].inputs[side], [op.inputs[1 - side] for op in ops]
                    )
                    self._replace_by_pieces([op.outputs[0] for op in ops], product, 1 - side)

    def _running_sums(self, loop: Loop) -> bool:
        """Merge running sums of products with a common factor; return True if there were any."""
        for side in _SIDES:
            groups: dict[tuple[Any, ...], list[tuple[int, Operation]]] = defaultdict(list)
            for i, term in running_sums(loop.op):
                if is_product(term.op) and term.shape == loop.body.params[i].shape == loop.op.inputs[i].shape:
                    around = tuple(op for op, _ in passed_variables(loop.op, i))
                    groups[around, term.op.inputs[side], term.op.device, *term.op.attrs.values()].append((i, term.op))
            for sums in groups.values():
                if len(sums) > 1:
                    # The loop changes, so the caller searches again.
                    self._one_sum(loop, side, sums)
                    return True
        return False

    def _one_sum(self, loop: Loop, side: int, found: list[tuple[int, Operation]]) -> None:
        """Replace several running sums by a single loop variable, and split its result after the loop.

        Loops around it that only pass the sums, as loops over segments do, get such a variable as well.
        """
        products = [op for _, op in found]
        like, axis = products[0], 1 - side
        passed = [passed_variables(loop.op, i) for i, _ in found]
        outer = passed[0][-1][0]
        total = self._concatenate_parts(like, [outer.inputs[each[-1][1]] for each in passed], axis, outer.region)
        loops = [op for op, _ in passed[0]]
        for op in reversed(loops):
            total = add_variable(op, total, total.shape, f"{like.name}/total")
        product = self._emit_merged_product(like, side, like.inputs[side], [op.inputs[1 - side] for op in products])
        total = Builder(loop.body, like).tensor("Add", total, product)
        for op in loops:
            op.regions[1].results.append(total)
            total = op.outputs[len(op.regions[1].results) - 1]
        sizes = [op.outputs[0].shape.as_tuple()[axis] for op in products]
        pieces = _split_into_pieces(Builder(outer.region, like), total, sizes, axis)
        self._substitute_tensors(dict(zip([outer.outputs[each[-1][1]] for each in passed], pieces, strict=True)))
        # The old variables stay, unchanged, so that the positions of results do not move.
        loop.body.results[:] = [loop.body.params[i] if i in dict(found) else t for i, t in enumerate(loop.body.results)]

    def _merge_sums(self, loop: Loop) -> None:
        """Merge sums of products with the factors of a side the same in all iterations."""
        kept = count_noninput_uses(self.program, loop.body)
        for op in list(loop.body.operations):
            # Only the outermost sum: `_flatten_sum` collects the terms of inner sums.
            if _is_sum(op) and not any(_is_sum(user) for user in computing_users(op.outputs[0], kept)):
                terms = _flatten_sum(op, kept)
                if not self._one_product(loop, op, terms, 0, kept):
                    self._one_product(loop, op, terms, 1, kept)

    def _one_product(self, loop: Loop, op: Operation, terms: list[Tensor], side: int, kept: Counter[Tensor]) -> bool:
        """Merge a sum's terms that are products with an outside factor; return True if there are two or more."""
        groups: dict[tuple[Any, ...], list[Tensor]] = defaultdict(list)
        for term in terms:
            is_inside = term.region is loop.body and is_product(term.op)
            if is_inside and loop.is_outside(term.op.inputs[1 - side]) and has_one_user(term, kept):
                groups[term.op.device, *term.op.attrs.values()].append(term)
        group = max(groups.values(), key=len, default=[])
        if len(group) < 2:
            return False
        like, factors = group[0].op, []
        # Concatenated along the inner axis: the product of the wide factors is the sum of the products.
        for s in _SIDES:
            region = loop.body if s == side else None
            factors.append(self._concatenate_parts(like, [t.op.inputs[s] for t in group], inner_axis(like, s), region))
        joined = set(group)
        inside, rest = Builder(loop.body, like, "sum"), [t for t in terms if t not in joined]
        total = inside.tensor("MatMul", *factors, **like.attrs)
        self._substitute_tensors({op.outputs[0]: inside.tensor("AddN", total, *rest) if rest else total})
        return True

    def _emit_merged_product(self, like: Operation, side: int, shared: Tensor, others: Sequence[Tensor]) -> Tensor:
        """Multiply a factor with the concatenation of others, for results side by side."""
        inside = like.region
        outer = 1 - inner_axis(like, 1 - side)
        region = None if all(t.region is not inside for t in others) else inside
        factors = [shared, self._concatenate_parts(like, others, outer, region)]
        return Builder(inside, like, "merged").tensor("MatMul", *factors[:: 1 if side == 0 else -1], **like.attrs)

    def _concatenate_parts(self, like: Operation, parts: Sequence[Tensor], axis: int, region: Region | None) -> Tensor:
        """Concatenate matrices, only once for equal parts; by default in the innermost region of the parts."""
        region = region or max((t.region for t in parts), key=lambda r: len(list(r.ancestors())))
        key = (region, axis, *parts)
        if key not in self.joined:
            self.joined[key] = Builder(region, like, "joined").tensor("Concat", *parts, axis=axis)
        return self.joined[key]

    def _replace_by_pieces(self, olds: Sequence[Tensor], whole: Tensor, axis: int) -> None:
        sizes = [t.shape.as_tuple()[axis] for t in olds]
        pieces = _split_into_pieces(Builder(whole.region, whole.op), whole, sizes, axis)
        self._substitute_tensors(dict(zip(olds, pieces, strict=True)))

    def _substitute_tensors(self, moved: dict[Tensor, Tensor]) -> None:
        substitute(self.program, moved)
        self.changed = True


def _split_into_pieces(builder: Builder, whole: Tensor, sizes: Sequence[int], axis: int) -> list[Tensor]:
    if len(set(sizes)) == 1:
        return builder.emit("Split", whole, num=len(sizes), axis=axis).outputs
    return builder.emit("SplitV", whole, builder.constant(sizes, dtypes.int32), num=len(sizes), axis=axis).outputs


def _is_sum(op: Operation) -> bool:
    """Return True if an operation adds matrices of equal shape."""
    return is_sum(op) and all(t.shape == op.outputs[0].shape and t.rank == 2 for t in op.inputs)


def _flatten_sum(op: Operation, kept: Counter[Tensor]) -> list[Tensor]:
    """Return the terms of a sum, including terms of inner sums without other use."""
    terms, work = [], list(reversed(op.inputs))
    while work:
        t = work.pop()
        is_inner = t.region is op.region and _is_sum(t.op)
        if is_inner and has_one_user(t, kept) and not any(t is other for other in work):
            work += reversed(t.op.inputs)
        else:
            terms.append(t)
    return terms
