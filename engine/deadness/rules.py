"""Rules shared by the analyses of lowered programs and of regions (132 and 138)."""

from __future__ import annotations

import numpy as np

from ..base import dtypes
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ir.traits import SWITCHES, Role
from .predicates import Predicate, Predicates

Value = Tensor | Operation
_FORWARDS_VALUE = SWITCHES | {Role.IDENTITY, Role.LOOP_COND, Role.ENTER}


def origin(predicate: Tensor) -> Tensor:
    """Follow the predicate of a Switch back through operations that forward a value unchanged.

    So a bool has the same symbol outside and inside of a branch or loop. The predicate of the Switch's inputs accounts
    for its being alive inside.
    """
    while predicate.op.role in _FORWARDS_VALUE:
        predicate = predicate.op.inputs[0]
    return predicate


def predicate_of_side(predicates: Predicates, predicate: Tensor, side: int, count: int) -> Predicate:
    """Return when a bool chooses a side of 2, or an integer a side of `count`, the last side taking the rest."""
    decides, negation = origin(predicate), predicates.negation
    if predicate.dtype is dtypes.bool_:
        taken = _equality_predicate(predicates, decides, "true")
        return taken if side == 1 else negation(taken)
    if side < count - 1:  # no ~(t=k) for other k, which follow anyway: `count` branches need only so many terms
        return _equality_predicate(predicates, decides, side)
    return predicates.all_of(negation(_equality_predicate(predicates, decides, k)) for k in range(side))


def _equality_predicate(predicates: Predicates, tensor: Tensor, what: str | int) -> Predicate:
    """Return the symbol for "alive and of this value"; true or false if the tensor is a constant."""
    if tensor.op.role is not Role.CONST:
        return predicates.symbol(what, tensor)
    value = tensor.op.attrs["value"]
    return predicates.true if np.all(value if what == "true" else value == what) else predicates.false


def is_unsure(op: Operation) -> bool:
    """Return True if an operation may be dead though its inputs are alive: a Recv, or a read of a slot left empty.

    Only the sending device knows, or the step that saved.
    """
    return op.role is Role.RECV or (op.role is Role.SERIES_READ and bool(op.attrs["maybe"]))


def closes_loop(op: Operation) -> bool:
    """Return True if an operation is the Merge of a loop variable."""
    return op.role is Role.MERGE and any(is_back_edge(t) for t in op.inputs)


def is_back_edge(tensor: Tensor) -> bool:
    """Return True if a tensor comes from the previous iteration."""
    return tensor.op.role is Role.NEXT_ITERATION
