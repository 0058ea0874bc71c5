"""Loops over small vectors: each element of a vector becomes a tensor of its own, with a number for each example.

The vector of a state, such as the y[2] of an ODE, would be rows of 2 elements for each example, and no kernel computes
them as fast as whole rows of examples. So in a loop whose operations are elementwise, or take, stack or reduce elements
of vectors, vectors of at most `MOST` elements are taken apart before the loop, and stacked after it. The loop is
rewritten in the function for a single example, before its operations are built for all.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ..base.shapes import SCALAR
from ..ir import scopes
from ..ir.apply import apply, build, constant
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rules.vectorizing import Vectorize
from ..ir.structured import make_while, new_region, num_results, saved_outputs
from ..ir.tensor import Tensor
from ..ir.topological import topological_order
from ..ops.support.vectorizing.families import pointwise

MOST = 8  # elements of a vector

Columns = list[Tensor]
Rule = Callable[[Operation, list[Columns]], "list[Columns]"]


def has_columns(op: Operation) -> bool:
    """Return True for a While all of whose operations have a rule here, with a vector among its loop variables."""
    vectors = any(t.shape.rank == 1 for t in op.outputs[: num_results(op)])
    return vectors and not saved_outputs(op) and all(map(_is_supported, op.regions))


def _is_supported(region: Region) -> bool:
    tensors = [t for op in region.operations for t in (*op.inputs, *op.outputs)]
    return all(map(_is_small, [*tensors, *region.results])) and all(map(_has_rule, region.operations))


def _is_small(tensor: Tensor) -> bool:
    shape = tensor.shape
    known = shape.is_fully_known and len(shape) <= 1 and 1 <= prod(shape.as_tuple()) <= MOST
    return known and tensor.dtype.is_value


def _has_rule(op: Operation) -> bool:
    if op.control_inputs or op.regions:
        return False
    if op.is_param or op.is_constant or _is_pointwise(op):
        return True
    return _rule_of(op.type) is not None and _check_of(op.type)(op)


def _rule_of(name: str) -> Rule | None:
    """Return the rule of an operation type for the elements of vectors."""
    return _RULES.get(name)


def _check_of(name: str) -> Callable[[Operation], bool]:
    """Return the condition of a rule: by default any operation has the rule."""
    return _CHECKS.get(name, bool)


def _is_pointwise(op: Operation) -> bool:
    rule = op.rule(Vectorize)
    return rule is not None and rule.rule is pointwise and len(op.outputs) == 1


def take_apart(op: Operation) -> dict[Tensor, Tensor]:
    """Build a loop over the elements of vectors in place of a While; return the stand-ins for its results."""
    loop = _Loop(op)
    with scopes.inside(op.region), scopes.within(name=op.name.rpartition("/")[0]):
        return loop.build()


class _Loop:
    """A While, rewritten for the elements of its vectors."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self._columns: dict[Tensor, Columns] = {}

    def build(self) -> dict[Tensor, Tensor]:
        """Build the loop and return the stand-ins for the results."""
        op = self.op
        inits = [self._outside(t) for t in op.inputs]
        cond, body = (self._build_region(region) for region in op.regions)
        attrs = {key: value for key, value in op.own_attrs.items() if key not in ("saved_outputs", "dtypes")}
        flat = [each for columns in inits for each in columns]
        made = make_while(flat, cond, body, name=op.name.rpartition("/")[2], source=op.source, **attrs)
        outputs = iter(made.outputs)
        moved = {}
        for old, columns in zip(op.outputs, inits, strict=True):
            elements = [next(outputs) for _ in columns]
            moved[old] = elements[0] if old.shape.rank == 0 else apply("Stack", elements, axis=0)
        return moved

    def _outside(self, tensor: Tensor) -> Columns:
        """Return the elements of a tensor from outside of the loop, taken in the region around the loop."""
        if tensor not in self._columns:
            with scopes.inside(self.op.region):
                size = 1 if tensor.shape.rank == 0 else tensor.shape[0]
                self._columns[tensor] = [tensor] if tensor.shape.rank == 0 else [tensor[k] for k in range(size)]
        return self._columns[tensor]

    def _build_region(self, region: Region) -> Region:
        """Build the predicate or the body for elements."""
        made = new_region(region.role)
        for param in region.params:
            size = 1 if param.shape.rank == 0 else param.shape[0]
            self._columns[param] = [made.add_param(param.dtype, SCALAR, param.op.name) for _ in range(size)]
        with scopes.inside(made):
            for op in topological_order(region.operations):
                if not op.is_param:
                    self._compute(op, made)
        made.results = [each for t in region.results for each in self._outside(t)]
        return made

    def _compute(self, op: Operation, region: Region) -> None:
        """Build an operation on the elements of its operands."""
        before = len(region.operations)
        if op.is_constant:
            outputs = [[constant(np.array(x)) for x in np.reshape(op.attrs["value"], -1)]]
        else:
            rule = _repeat_elementwise if _is_pointwise(op) else _rule_of(op.type)
            assert rule is not None
            outputs = rule(op, [self._outside(t) for t in op.inputs])
        for made in region.operations[before:]:
            made.source = op.source
        self._columns.update(zip(op.outputs, outputs, strict=True))


def _repeat_elementwise(op: Operation, operands: list[Columns]) -> list[Columns]:
    size = max(len(columns) for columns in operands)
    return [
        [build(op.type, [c[k if len(c) > 1 else 0] for c in operands], **op.own_attrs).outputs[0] for k in range(size)]
    ]


def _take_elements(op: Operation, operands: list[Columns]) -> list[Columns]:
    (part,) = op.attrs["spec"]
    return [operands[0][part] if isinstance(part, slice) else [operands[0][part]]]


def _takes_elements(op: Operation) -> bool:
    spec = op.attrs["spec"]
    return len(op.inputs) == 1 and len(spec) == 1 and isinstance(spec[0], int | slice)


def _join_elements(op: Operation, operands: list[Columns]) -> list[Columns]:
    return [[each for columns in operands for each in columns]]


def _separate_elements(op: Operation, operands: list[Columns]) -> list[Columns]:
    return [[each] for each in operands[0]]


def _keep_elements(op: Operation, operands: list[Columns]) -> list[Columns]:
    return [operands[0]]


def _fold_by(type: str) -> Rule:
    """Return the rule of a reduction by an operation of two elements, in the order of the elements."""

    def fold(op: Operation, operands: list[Columns]) -> list[Columns]:
        first, *others = operands[0]
        for each in others:
            first = apply(type, first, each)
        return [[first]]

    return fold


def _fold_to_mean(op: Operation, operands: list[Columns]) -> list[Columns]:
    ((total,),) = _fold_by("Add")(op, operands)
    number = constant(np.asarray(len(operands[0]), total.dtype.numpy))
    return [[apply("RealDiv", total, number)]]


def _reduces_all(op: Operation) -> bool:
    return op.outputs[0].shape.num_elements == 1


def _reduces_numbers(op: Operation) -> bool:
    return _reduces_all(op) and op.outputs[0].dtype.is_floating


_RULES: dict[str, Rule] = {}
_RULES.update(
    StridedSlice=_take_elements,
    Stack=_join_elements,
    Concat=_join_elements,
    Unstack=_separate_elements,
    Identity=_keep_elements,
    StopGradient=_keep_elements,
    Reshape=_keep_elements,
    ExpandDims=_keep_elements,
    Squeeze=_keep_elements,
    Sum=_fold_by("Add"),
    Max=_fold_by("Maximum"),
    Min=_fold_by("Minimum"),
    Prod=_fold_by("Mul"),
    All=_fold_by("LogicalAnd"),
    Any=_fold_by("LogicalOr"),
    Mean=_fold_to_mean,
)
_CHECKS: dict[str, Callable[[Operation], bool]] = {}
_CHECKS.update(
    StridedSlice=_takes_elements,
    Mean=_reduces_numbers,
    **dict.fromkeys(("Sum", "Max", "Min", "Prod", "All", "Any"), _reduces_all),
)
