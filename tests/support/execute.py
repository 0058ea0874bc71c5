"""Run fetches on the reference executor, without a session."""

import numpy as np
from tagloom.base.tags import DEAD
from tagloom.frontend.functions.py_function import py_function
from tagloom.ir.apply import convert_to_tensor
from tagloom.ir.program import Program
from tagloom.runtime.reference.executor import ReferenceMachine

from tests.ops.instances import make_step
from tests.support.compiling import plan_of


async def execute(fetches, feeds=None, targets=(), shuffle_seed=None):
    """Return the fetched arrays (``DEAD`` for dead ones); raises what failed first."""
    feeds = feeds or {}
    graph = (list(fetches) + list(targets))[0].graph
    plan = plan_of(Program(graph, list(feeds), list(fetches), list(targets)))
    values = [np.asarray(value, tensor.dtype.numpy) for tensor, value in feeds.items()]
    machine = ReferenceMachine(plan, make_step(), values, shuffle_seed)
    await machine.run()
    if machine.failure is not None:
        raise machine.failure[2]
    return [value if value is DEAD else np.asarray(value) for value in machine.fetches]


class Calls:
    """Notes each value that flows through ``calls.watch(tensor)``, each time it does."""

    def __init__(self):
        self.values = []

    def __call__(self, value):
        self.values.append(np.asarray(value).item())
        return value

    def watch(self, value):
        tensor = convert_to_tensor(value)
        return py_function(self, [tensor], tensor.dtype, stateful=False, output_shapes=tensor.shape)

    @property
    def count(self):
        return len(self.values)
