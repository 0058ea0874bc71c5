"""Mask gradients of max pooling before they are spread over windows, where there are fewer elements than after.

The gradient of a ReLU before max pooling zeroes gradients of elements not above zero. The gradient of the pooling is
non-zero only at the largest element of a window: there the pooled value is the same number, so its comparison has the
same outcome, with an element for each window.
"""

from __future__ import annotations

from collections import Counter

from ...ir.builder import Builder
from ...ir.definition import definition_of
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.rules.fusing import LargestPlaces, SpreadsWindows
from ...ir.rules.shapes import ShapeOnly
from ...ir.static_values import static_value
from ...ir.substitute import count_noninput_uses, substitute
from ...ir.tensor import Tensor
from .masks import mask_of


def mask_before_spreading(program: Program) -> Program:
    """Return the program with masks before the spreading; `program` is used up."""
    spreads = [op for op in program.graph.root.walk() if op.definition.has(SpreadsWindows) and not op.control_inputs]
    kept = count_noninput_uses(program) if spreads else Counter[Tensor]()
    moved = dict(pair for op in spreads for pair in _move_mask_first(op, kept))
    substitute(program, moved)
    return copy_program(program) if moved else program


def _move_mask_first(op: Operation, kept: Counter[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return the masked result of a spreading operation, and its replacement with the mask first; none if illegal."""
    result, (g, place, shape) = op.outputs[0], op.inputs
    mask = mask_of(result, kept)
    places = place.op.rule(LargestPlaces)
    if mask is None or places is None:
        return []
    (elements,) = place.op.inputs
    compared, pooled = mask.inputs[0].op, _find_pooled_values(place.op, places.pool, op)
    others = [t for t in compared.inputs if t is not elements]
    # The other operand must be a single number: else pooled values and elements are compared with different ones.
    if pooled is None or not _is_shape_of(shape, elements) or len(others) != 1 or others[0].rank != 0:
        return []
    outcome = Builder(op.region, compared, "pooled").tensor(
        compared.type, *(pooled if t is elements else t for t in compared.inputs), **compared.attrs
    )
    masked = Builder(op.region, mask, "pooled").tensor(mask.type, outcome, g, mask.inputs[2], **mask.attrs)
    return [(mask.outputs[0], Builder(op.region, op, "masked").tensor(op.type, masked, place, shape, **op.attrs))]


def _find_pooled_values(place: Operation, pool: str, op: Operation) -> Tensor | None:
    """Return the pooled values, if an operation in the region of `op`, on its device, computes them as `place` does."""
    (elements,) = place.inputs
    pools = definition_of(pool)
    for user in elements._consumers:
        same = user.definition is pools and user.attrs == place.attrs
        # An operation with control inputs might wait for this gradient.
        if same and not user.control_inputs and user.region is op.region and user.device == op.device:
            return user.outputs[0]
    return None


def _is_shape_of(shape: Tensor, elements: Tensor) -> bool:
    if shape.op.definition.has(ShapeOnly) and shape.op.inputs[0] is elements:
        return True
    known = static_value(shape)
    return known is not None and elements.shape.is_fully_known and tuple(known) == tuple(elements.shape.dims)
