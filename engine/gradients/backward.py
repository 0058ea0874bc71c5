"""The reverse walk: from the cotangents of a region's results to the cotangents of the tensors used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..base.errors import GraphError
from ..ir import scopes
from ..ir.gradient_overrides import cotangents_of_inputs, has_gradient
from ..ir.operation import Operation
from ..ir.rules.gradients import TakesSlices
from ..ir.tensor import Tensor
from .cotangents import Cotangents, densify
from .zeros import with_shape

Rule = Callable[["Backward", Operation, Cotangents], None]
RULES: dict[str, Rule] = {}  # filled by the modules with rules for structured operations and series


class Backward:
    """State and walk of a single call of ``gradients()``.

    Parameters
    ----------
    active : set of Tensor
        Tensors depending on the xs; contributions to others are dropped.
    stops : set of Tensor
        Tensors at which the walk ends.
    """

    def __init__(self, active: set[Tensor], stops: set[Tensor]) -> None:
        self.active = active
        self.stops = stops
        self.devices = scopes.current().device

    def walk(self, operations: Iterable[Operation], cotangents: Cotangents) -> None:
        """Visit operations (in order of creation) in reverse, building their gradients in the current region."""
        for op in reversed(list(operations)):
            if any(t in cotangents.parts and t not in self.stops for t in op.outputs):
                # The forward operation's device, unless scopes around gradients() ask for another (the outermost
                # comes first); operations with regions have devices inside.
                with scopes.within(device=self.devices if op.regions else (op.device, *self.devices)):
                    self._visit_operation(op, cotangents)

    def _visit_operation(self, op: Operation, cotangents: Cotangents) -> None:
        if op.type in RULES:
            RULES[op.type](self, op, cotangents)
        elif op.is_param:
            self._refuse_open_loop_parameter(op)
        elif has_gradient(op) and any(t in self.active for t in op.inputs):
            self._apply_gradient_function(op, cotangents)

    def _apply_gradient_function(self, op: Operation, cotangents: Cotangents) -> None:
        """Apply the gradient function of an operation without regions, and record the results for its inputs."""
        sums = [self.total(cotangents, t) for t in op.outputs]
        if not op.definition.has(TakesSlices):
            sums = [None if s is None else densify(s) for s in sums]
        results = cotangents_of_inputs(op, sums)
        if len(results) != len(op.inputs):
            raise GraphError(
                "a gradient function returned the wrong number of cotangents",
                wanted=len(op.inputs),
                got=len(results),
                operation=op,
                hint="return one cotangent, or None, for each input",
            )
        for tensor, cotangent in zip(op.inputs, results, strict=True):
            if cotangent is not None:
                self.contribute(cotangents, tensor, cotangent)

    def total(self, cotangents: Cotangents, tensor: Tensor) -> Any:
        """Return the cotangent of an output for the walk to continue; None if there is none, or the walk ends there."""
        return None if tensor in self.stops else cotangents.sum(tensor)

    def contribute(self, cotangents: Cotangents, tensor: Tensor, contribution: object) -> None:
        """Record a contribution if the tensor is active."""
        if tensor in self.active:
            cotangents.add(tensor, with_shape(contribution, tensor))

    def _refuse_open_loop_parameter(self, op: Operation) -> None:
        """Refuse gradients with respect to the initial values of a loop still under construction (rule 97)."""
        initial = op.notes.initial
        if op.region.owner is None and initial is not None and initial in self.active:
            raise GraphError(
                "cannot compute a gradient inside a loop with respect to its initial values",
                got=f"loop variable {op.name}, which starts from {initial.name}",
                operation=initial.op,
                hint="call gradients() after the loop is built, on its results",
            )
