"""Kernels without an executor: a fake instance, and a walk that runs a graph without loops in plain Python."""

from dataclasses import dataclass, field

import numpy as np
from tagloom.ops.support.context import StepContext
from tagloom.runtime.resources.manager import ResourceManager


def make_step(number=1, seed=7, resources=None):
    """Return the context of a step, with resources of its own unless some are given."""
    return StepContext(number, seed, ResourceManager() if resources is None else resources)


@dataclass
class Instance:
    step: StepContext = field(default_factory=make_step)
    operation: str = "op"
    frame_id: int = 0
    iteration: int = 0


class Walk:
    """Values of one step, each operation run once, inputs before it."""

    def __init__(self, step=None):
        self.step = step or make_step()
        self.values = {}

    def run(self, element):
        """Return the value of a tensor, or run an operation."""
        op = getattr(element, "op", element)
        if op not in self.values:
            self.values[op] = self._compute(op)
        return self.values[op] if op is element else self.values[op][element.index]

    def _compute(self, op):
        for control in op.control_inputs:
            self.run(control)
        if op.type == "Const":
            return [op.attrs["value"]]
        arguments = [self.run(tensor) for tensor in op.inputs]
        if op.definition.stateful:
            arguments.insert(0, Instance(self.step, op.name))
        result = op.definition.kernel(np, *arguments, **{key: op.attrs[key] for key in op.definition.attrs})
        return result if isinstance(result, tuple) else [result]


def cotangents(op, *given):
    """Call the gradient function of an operation."""
    return list(op.definition.gradient(op, *given))
