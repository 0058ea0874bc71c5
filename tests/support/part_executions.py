"""Steps over several tasks, as parts in one event loop: an MachineExecution for each task, joined by messages alone."""

import asyncio
import pickle
import random
from dataclasses import replace

import numpy as np
from tagloom.base.device_names import parse_device
from tagloom.compile import DeviceTarget, Target, compile_until
from tagloom.compile.step_plan import plan_step
from tagloom.ir.own_kernels import ON_HOST
from tagloom.ir.program import Program
from tagloom.ops.support.context import StepContext
from tagloom.runtime.devices.session_devices import SessionDevice
from tagloom.runtime.resources.manager import ResourceManager
from tagloom.runtime.steps.compiled_step import CompiledStep
from tagloom.runtime.steps.environment import StepEnvironment
from tagloom.runtime.steps.execution import MachineExecution
from tagloom.runtime.steps.request import make_request
from tagloom.streams.cpu import CpuDevice

from tests.support.settings import ON


def device_names(tasks, devices=1):
    """Return the names of devices of a number of tasks."""
    return [f"/job:worker/task:{t}/device:CPU:{d}" for t in range(tasks) for d in range(devices)]


def partitioned_over(graph, fetches, feeds, names, settings=ON, targets=(), soft=False):
    """Return a program cut over devices of these names."""
    devices = tuple(DeviceTarget(parse_device(name)) for name in names)
    program = Program(graph, list(feeds), list(fetches), list(targets))
    return compile_until("partition", program, Target(settings, devices, soft_placement=soft))


def tasks_of(partitioned):
    """Return the tasks of a partitioned program, in the order of their first operations."""
    return list(dict.fromkeys(replace(device, type=None, index=None) for device in partitioned.programs))


def plan_for(partitioned, task, settings=ON):
    """Return the plan of a task, made as in another process: of a pickled copy, for the task's own devices."""
    copy = pickle.loads(pickle.dumps(partitioned))
    devices = tuple(DeviceTarget(each) for each in copy.programs if task.allows(each))
    return plan_step(copy, Target(settings, devices, task=task))


class Part:
    """A task's part of a step."""

    def __init__(self, partitioned, task, graph, fetches, feeds, settings=ON, variables=()):
        plan = plan_for(partitioned, task, settings)
        request = make_request(graph, [*fetches])
        step = CompiledStep(Program(graph, list(feeds), request.tensors, request.targets, ()), plan)
        devices = [each for each in partitioned.programs if task.allows(each)]
        opened = [CpuDevice(str(each)) for each in devices]
        places = tuple(
            SessionDevice(spec, device, False, device.contexts, ON_HOST)
            for spec, device in zip(devices, opened, strict=True)
        )
        environment = StepEnvironment(settings, devices=places)
        self.resources = ResourceManager()
        self.resources.restore({"variables": dict(variables)})
        context = StepContext(1, graph.seed, self.resources, contexts=opened[0].contexts)
        self.name = str(task)
        self.fetches = sorted(k for part in plan.devices for k in part.fetches)
        self.execution = MachineExecution(step, context, step.convert(list(feeds.values())), environment)
        # A part without remote channels may be a single machine, which meets nobody.
        self.rendezvous = getattr(self.execution.machine, "rendezvous", None)


class Transport:
    """Messages between parts, delivered one in a turn of the event loop, by a random choice.

    Attributes
    ----------
    silent : set of str
        Tasks whose messages are lost.
    """

    def __init__(self, parts, seed=0):
        self.parts = {part.name: part for part in parts}
        self.random = random.Random(seed)
        self.under_way, self.silent, self.carried = [], set(), 0
        for part in (each for each in parts if each.rendezvous is not None):
            part.execution.drain = self.sending(part, part.execution.drain)

    def sending(self, part, drain):
        """Return the drain of a part, which posts its messages after it."""

        def drain_and_send(seconds):
            more = drain(seconds)
            for key, value in part.rendezvous.take_outbox():
                receiver = part.rendezvous.remote[key.channel].peer
                self.under_way.append((part.name, receiver, pickle.dumps((key, value))))
                asyncio.get_running_loop().call_soon(self.deliver_one)
                more = True
            return more

        return drain_and_send

    def deliver_one(self):
        sender, receiver, data = self.under_way.pop(self.random.randrange(len(self.under_way)))
        if sender in self.silent:
            return
        key, value = pickle.loads(data)
        self.carried += 1
        self.parts[receiver].rendezvous.deliver(key, value)
        self.parts[receiver].execution.wake()


async def run_parts(partitioned, graph, fetches, feeds, settings=ON, variables=(), seed=0):
    """Run all parts of a step; return the fetched values in order, the variables, and the number of messages."""
    parts = [Part(partitioned, task, graph, fetches, feeds, settings, variables) for task in tasks_of(partitioned)]
    transport = Transport(parts, seed)
    values = {}
    async with asyncio.TaskGroup() as group:
        running = [(part, group.create_task(part.execution.run(60.0))) for part in parts]
    for part, task in running:
        values |= dict(zip(part.fetches, task.result(), strict=True))
    assert not transport.under_way
    return [values[k] for k in sorted(values)], _merge(parts, dict(variables)), transport.carried


def _merge(parts, before):
    """Return the variables of all parts, each as the task has it that has changed it, if any has."""
    found = {}
    for part in parts:
        for name, value in part.resources.snapshot().get("variables", {}).items():
            if name not in found or not np.array_equal(value, before.get(name)):
                found[name] = value
    return found
