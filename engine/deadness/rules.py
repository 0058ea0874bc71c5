"""Rules that the analyses of lowered programs and of regions have in common (132 and 138)."""

from __future__ import annotations

import numpy as np

from ..base import dtypes
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ir.traits import SWITCHES, Role
from .predicates import Predicate, Predicates

Value = Tensor | Operation
_HANDS_ON = SWITCHES | {Role.IDENTITY, Role.LOOP_COND, Role.ENTER}


def origin(predicate: Tensor) -> Tensor:
    """Follow the predicate of a Switch back through what gives its own value on if it is alive.

    So a bool that a branch or a loop uses from outside is the same symbol there. That it is alive there is said by the
    predicate of the Switch's inputs.
    """
    while predicate.op.role in _HANDS_ON:
        predicate = predicate.op.inputs[0]
    return predicate


def chosen(predicates: Predicates, predicate: Tensor, side: int, count: int) -> Predicate:
    """Return when a bool chooses a side (of 2), or an integer one of `count`, of which the last is the rest."""
    decides, negation = origin(predicate), predicates.negation
    if predicate.dtype is dtypes.bool_:
        taken = _is(predicates, decides, "true")
        return taken if side == 1 else negation(taken)
    if side < count - 1:  # which is not another number besides, so that `count` branches have that many terms in all
        return _is(predicates, decides, side)
    return predicates.all_of(negation(_is(predicates, decides, k)) for k in range(side))


def _is(predicates: Predicates, tensor: Tensor, what: str | int) -> Predicate:
    """Return the symbol for "alive and of this value"; of a constant, whether it is."""
    if tensor.op.role is not Role.CONST:
        return predicates.symbol(what, tensor)
    value = tensor.op.attrs["value"]
    return predicates.true if np.all(value if what == "true" else value == what) else predicates.false


def is_unsure(op: Operation) -> bool:
    """Whether an operation may be dead for reasons of its own: a message, or a slot that a branch left empty.

    When that is, only the device that sends knows, or the step that saved.
    """
    return op.role is Role.RECV or (op.role is Role.SERIES_READ and bool(op.attrs["maybe"]))


def closes_loop(op: Operation) -> bool:
    """Whether an operation is the Merge of a loop's variable."""
    return op.role is Role.MERGE and any(is_back_edge(t) for t in op.inputs)


def is_back_edge(tensor: Tensor) -> bool:
    """Whether a tensor comes from the iteration before."""
    return tensor.op.role is Role.NEXT_ITERATION
