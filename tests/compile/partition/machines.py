"""Run a partitioned program: a reference machine for each device, and a table in which their messages meet."""

import asyncio
from dataclasses import replace

import numpy as np
from tagloom.base.tags import DEAD
from tagloom.compile.plan.build import build_plan
from tagloom.kernels.core.table import Kind
from tagloom.runtime.reference.executor import ReferenceMachine

from tests.ops.instances import make_step


class Rendezvous:
    """Messages by (channel, frame id, iteration); all that were sent, in order."""

    def __init__(self):
        self.futures = {}
        self.sent = []

    def future(self, key):
        return self.futures.setdefault(key, (asyncio.Future(), asyncio.Event()))


class Machine(ReferenceMachine):
    """A reference machine that also sends and receives; a Send is outstanding until its message is taken."""

    def __init__(self, plan, step, feeds, rendezvous, shuffle_seed):
        super().__init__(plan, step, feeds, shuffle_seed)
        self.rendezvous = rendezvous

    async def _evaluate_node(self, instance):
        node, frame, i = instance.node, instance.frame, instance.iteration
        values, dead = instance.values, instance.dead
        if node.kind not in (Kind.SEND, Kind.RECV):
            return await super()._evaluate_node(instance)
        if dead and node.dead_silent:
            return [DEAD] * len(node.outputs)
        message, taken = self.rendezvous.future((node.index, frame.id, i))
        if node.kind is Kind.RECV:
            value = await message
            taken.set()
            return [value]
        value = DEAD if dead else values[0]
        self.rendezvous.sent.append((node.index, frame.path, i, value if value is DEAD else np.asarray(value).tolist()))
        message.set_result(value)
        await taken.wait()
        return []

    def _propagate_outputs(self, instance, outputs):
        if instance.node.kind is Kind.RECV and outputs[0] is DEAD:
            instance = replace(instance, dead=True)  # for what waits by a control edge, too
        super()._propagate_outputs(instance, outputs)


async def run_partitioned(partitioned, feeds, shuffle_seed=None, timeout=20.0, resources=None):
    """Return the fetched values and the messages sent; `feeds` are arrays in the program's order."""
    rendezvous, given = Rendezvous(), {device: {} for device in partitioned.programs}
    step = make_step(resources=resources)
    for (device, index), value in zip(partitioned.feeds, feeds, strict=True):
        given[device][index] = value
    machines = {
        device: Machine(
            build_plan(program),
            step,
            [given[device][i] for i in sorted(given[device])],
            rendezvous,
            None if shuffle_seed is None else shuffle_seed + i,
        )
        for i, (device, program) in enumerate(partitioned.programs.items())
    }
    running = [asyncio.ensure_future(machine.run()) for machine in machines.values()]
    _, pending = await asyncio.wait(running, timeout=timeout)
    waiting = [task.get_name() for machine in machines.values() for task in machine.tasks]
    failures = [m.failure[2] for m in machines.values() if m.failure is not None]
    for task in pending:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    if failures:
        raise failures[0]
    assert not pending, f"the machines wait for each other: {waiting}"
    assert all(taken.is_set() for _, taken in rendezvous.futures.values()), "a message was not taken"
    return [machines[device].fetches[index] for device, index in partitioned.fetches], rendezvous.sent
