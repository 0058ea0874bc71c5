"""One operation on the step machine: what its C kernel gives, and whether the Python kernel was needed."""

from dataclasses import replace

import numpy as np
import tagloom as tg
from tagloom.ir.apply import apply
from tagloom.ir.program import Program
from tagloom.kernels.core.table import Kind
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.scheduler.machine import StepMachine
from tagloom.kernels.scheduler.plan import CompiledPlan

from tests.support.compiling import plan_of
from tests.support.settings import ON


def got(type, arguments, attrs, layout, change=lambda plan: plan):
    """Return what the step machine gives for a plan, as a list, or the error it ends with."""
    feeds, arrays = [], []

    def feed(array):
        feeds.append(tg.placeholder(array.dtype, None))
        arrays.append(layout(array))
        return feeds[-1]

    with tg.Graph().as_default() as graph:
        inputs = [[feed(a) for a in group] if isinstance(group, list) else feed(group) for group in arguments]
        outputs = apply(type, *inputs, **attrs)
        fetches = outputs if isinstance(outputs, list) else [outputs]
        machine = StepMachine(CompiledPlan(change(plan_of(Program(graph, feeds, fetches), ON)), ON), None, arrays)
    before = [np.array(a) for a in arrays]
    KernelContexts().run(machine.drain, 10)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    result = machine.fetches if machine.failure is None else machine.failure[2]
    machine.close()
    return result


def counting(plan, calls):
    """Return a plan whose Python kernels note that they are called."""

    def counted(node):
        return replace(node, kernel=lambda *args: calls.append(node.name) or node.kernel(*args))

    return replace(plan, nodes=tuple(counted(n) if n.kind == Kind.KERNEL else n for n in plan.nodes))
