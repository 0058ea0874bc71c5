"""The reverse walk: from the cotangents of a region's results to those of what it used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..base.errors import GraphError
from ..ir import scopes
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from .cotangents import Lazy, Slot, add_up, densify

Rule = Callable[["Backward", Operation, "Cotangents"], None]
RULES: dict[str, Rule] = {}  # filled by the modules that know how to leave a region or read a series
_KEEPS_SLICES = frozenset({"Identity", "ReadVariable"})


class Cotangents:
    """Contributions to the cotangents of tensors, within one region of the gradient."""

    def __init__(self) -> None:
        self.parts: dict[Tensor, list[Any]] = {}

    def add(self, tensor: Tensor, contribution: Any) -> None:
        """Note one contribution."""
        self.parts.setdefault(tensor, []).append(contribution)

    def take(self, tensor: Tensor) -> list[Any]:
        """Remove and return the contributions."""
        return self.parts.pop(tensor, [])

    def sum(self, tensor: Tensor) -> Any:
        """Remove the contributions and return their sum, or None when there are none."""
        parts = self.take(tensor)
        return add_up(parts, tensor) if parts else None

    def dense(self, tensor: Tensor) -> Tensor | None:
        """Remove the contributions and return their sum as one tensor, or None."""
        total = self.sum(tensor)
        return None if total is None else densify(total)


class Backward:
    """One call of ``gradients()``.

    Parameters
    ----------
    active : set of Tensor
        Tensors that depend on the xs; contributions to others are dropped.
    stops : set of Tensor
        Tensors at which the walk ends.
    """

    def __init__(self, active: set[Tensor], stops: set[Tensor]) -> None:
        self.active = active
        self.stops = stops

    def walk(self, operations: Iterable[Operation], cotangents: Cotangents) -> None:
        """Visit operations (in order of creation) in reverse, building their gradients in the current region."""
        for op in reversed(list(operations)):
            live = [t for t in op.outputs if t in self.active and t not in self.stops and t in cotangents.parts]
            if not live:
                continue
            with scopes.within(device=scopes.current().device or op.device):
                self._visit(op, cotangents)

    def _visit(self, op: Operation, cotangents: Cotangents) -> None:
        if op.type in RULES:
            RULES[op.type](self, op, cotangents)
        elif op.type == "Param":
            self._parameter(op)
        elif op.definition.is_differentiable:
            self._plain(op, cotangents)

    def _plain(self, op: Operation, cotangents: Cotangents) -> None:
        if not any(t in self.active for t in op.inputs):
            return
        sums = [cotangents.sum(t) for t in op.outputs]
        if op.type not in _KEEPS_SLICES:
            sums = [None if s is None else densify(s) for s in sums]
        results = list(op.definition.gradient(op, *sums))  # type: ignore[operator]
        if len(results) != len(op.inputs):
            raise GraphError(
                "a gradient function returned the wrong number of cotangents", wanted=len(op.inputs), got=len(results),
                operation=op,
            )  # fmt: skip
        for tensor, cotangent in zip(op.inputs, results, strict=True):
            if cotangent is not None:
                self.contribute(cotangents, tensor, cotangent)

    def contribute(self, cotangents: Cotangents, tensor: Tensor, contribution: Any) -> None:
        """Note a contribution if the tensor matters."""
        if tensor in self.active:
            cotangents.add(tensor, contribution)

    def _parameter(self, op: Operation) -> None:
        initial = op.attrs.get("initial")
        if op.region.owner is None and initial in self.active:
            raise GraphError(
                "can not compute a gradient inside a loop with respect to what enters it",
                got=f"loop variable {op.name}, which starts from {initial.name}", operation=initial.op,
                hint="call gradients() after the loop is built, on its results",
            )  # fmt: skip


def slots(contributions: Iterable[Any], tensor: Tensor) -> list[Any]:
    """Turn cotangents of a value read from a series into values for its slot."""
    found: list[Any] = []
    dense = [c for c in contributions if not isinstance(c, (*Lazy, Slot))]
    lazy = [c for c in contributions if isinstance(c, Lazy)]
    if dense:
        found.append(densify(add_up(dense, tensor)))
    return found + [c.token(tensor) for c in lazy]
