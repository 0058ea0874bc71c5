"""Small plans written by hand: one call a node, loops closed by their back edges."""

import numpy as np
import pytest
from tagloom.base.settings import DEFAULTS
from tagloom.compile.plan.plan import Frame, Node, Plan
from tagloom.kernels.core.table import Kind
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.scheduler.group import MachineGroup
from tagloom.kernels.scheduler.machine import StepMachine
from tagloom.kernels.scheduler.plan import CompiledPlan
from tagloom.kernels.scheduler.rendezvous import Rendezvous

from tests.support.parts import Network, finish, remote_channels, start_part

BOOL, I32, I64, F32, F64 = (np.dtype(n) for n in ("bool", "int32", "int64", "float32", "float64"))
ORDERS = [(None, 32), (None, 1), (0, 2), (1, 7), (2, 32), (3, 1), (4, 3)]  # (shuffle seed, window)


class Ref:
    """An output of a node; ``ref[1]`` is another output of the same."""

    def __init__(self, node, output=0):
        self.node, self.output = node, output

    def __getitem__(self, output):
        return Ref(self.node, output)


class Planner:
    """Collects nodes and edges; nodes go into the frame of their inputs."""

    def __init__(self, window=32, settings=DEFAULTS):
        self.window = window
        self.settings = settings
        self.nodes, self.frames, self.edges, self.controls = [], [], [], []
        self.feeds, self.fetches = 0, 0
        self.frames.append({"name": "root", "parent": -1, "parallel_iterations": 1, "num_enters": 0})

    def node(self, kind, inputs=(), outputs=(), controls=(), frame=None, name=None, **fields):
        number = len(self.nodes)
        frame = self._frame(inputs, controls) if frame is None else frame
        self.nodes.append(
            {"name": name or f"n{number}", "kind": kind, "frame": frame, "outputs": tuple(outputs), **fields}
        )
        for index, ref in enumerate(inputs):
            if ref is not None:
                self.edges.append((ref.node, ref.output, number, index))
        self.nodes[number].update(num_inputs=len(inputs), num_controls=len(controls))
        self.controls.extend((ref.node, number) for ref in controls)
        return Ref(number)

    def _frame(self, inputs, controls):
        refs = [r for r in (*inputs, *controls) if r is not None]
        return self.out_frame(refs[0]) if refs else 0

    def out_frame(self, ref):
        node = self.nodes[ref.node]
        if node["kind"] == Kind.ENTER:
            return node["child"]
        if node["kind"] in (Kind.EXIT, Kind.SERIES_EXIT, Kind.TRIP_COUNT):
            return self.frames[node["frame"]]["parent"]
        return node["frame"]

    def dtype(self, ref):
        return self.nodes[ref.node]["outputs"][ref.output]

    def connect(self, ref, consumer, index):
        self.edges.append((ref.node, ref.output, consumer.node, index))

    def frame(self, name, parent=0, window=None):
        window = self.window if window is None else window
        self.frames.append({"name": name, "parent": parent, "parallel_iterations": window, "num_enters": 0})
        self.frames[-1]["finals"] = ()
        return len(self.frames) - 1

    def const(self, value, dtype=I32, controls=()):
        return self.node(Kind.CONST, (), (dtype,), controls, value=np.asarray(value, dtype))

    def feed(self, dtype=I32):
        self.feeds += 1
        return self.node(Kind.FEED, (), (dtype,), index=self.feeds - 1)

    def fetch(self, ref, controls=()):
        self.fetches += 1
        return self.node(Kind.FETCH, [ref], (), controls, index=self.fetches - 1)

    def call(self, kernel, *inputs, outputs=(I32,), controls=(), **fields):
        return self.node(Kind.KERNEL, inputs, outputs, controls, kernel=kernel, **fields)

    def ufunc(self, name, *inputs, dtype=None, controls=()):
        dtype = dtype or self.dtype(inputs[0])
        return self.node(Kind.KERNEL, inputs, (dtype,), controls, kernel=getattr(np, name), ufunc=name)

    def switch(self, data, predicate, controls=()):
        return self.node(Kind.SWITCH, [data, predicate], [self.dtype(data)] * 2, controls)

    def switch_n(self, data, index, count):
        return self.node(Kind.SWITCH_N, [data, index], [self.dtype(data)] * count)

    def merge(self, *inputs, controls=()):
        return self.node(Kind.MERGE, inputs, (self.dtype(inputs[0]), I32), controls)

    def enter(self, ref, frame, constant=False, controls=()):
        self.frames[frame]["num_enters"] += 1
        return self.node(Kind.ENTER, [ref], (self.dtype(ref),), controls, child=frame, is_constant=constant)

    def same(self, kind, ref, controls=(), **fields):
        return self.node(kind, [ref], (self.dtype(ref),), controls, **fields)

    def identity(self, ref, controls=()):
        return self.same(Kind.IDENTITY, ref, controls)

    def next(self, ref, merge):
        following = self.same(Kind.NEXT_ITERATION, ref)
        self.connect(following, merge, 1)
        return following

    def exit(self, ref):
        return self.same(Kind.EXIT, ref)

    def loop(self, frame, initial, condition, body, invariants=()):
        """Build a loop; return its exits. `condition` and `body` get the variables and the invariants."""
        captured = [self.enter(ref, frame, constant=True) for ref in invariants]
        merges = [self.merge(self.enter(ref, frame), None) for ref in initial]
        predicate = self.same(Kind.LOOP_COND, condition(*merges, *captured))
        switches = [self.switch(merge, predicate) for merge in merges]
        pivots = [self.identity(switch[1]) for switch in switches]
        for merge, result in zip(merges, body(*pivots, *captured), strict=True):
            self.next(result, merge)
        return [self.exit(switch) for switch in switches]

    def count_to(self, frame, limit, start=None):
        """Build ``while i < limit: i += 1``; return the exit. The limit is a number."""
        start = self.const(0) if start is None else start
        top, one = self.const(limit), self.const(1)
        return self.loop(
            frame,
            [start],
            lambda i, top, one: self.ufunc("less", i, top, dtype=BOOL),
            lambda i, top, one: [self.ufunc("add", i, one)],
            [top, one],
        )[0]

    def final(self, kind, ref, **fields):
        final = self.node(kind, [ref], (I64 if kind == Kind.TRIP_COUNT else None,), **fields)
        self.frames[self.nodes[final.node]["frame"]]["finals"] += (final.node,)
        return final

    def send(self, ref, channel, controls=(), **fields):
        return self.node(Kind.SEND, [ref], (), controls, index=channel, **fields)

    def recv(self, channel, dtype=I32, controls=(), **fields):
        return self.node(Kind.RECV, (), (dtype,), controls, index=channel, **fields)

    def control_loop(self, frame, channel=None, pred=None, start=None):
        """Build what starts the Recvs of a frame once in each iteration; return its Merge.

        The predicate comes over a channel if it is not of this device.
        """
        merge = self.merge(self.enter(self.const(0) if start is None else start, frame), None)
        pred = self.same(Kind.LOOP_COND, self.recv(channel, BOOL, [merge])) if pred is None else pred
        self.next(self.switch(merge, pred)[1], merge)
        return merge

    def plan(self):
        edges = [[[] for _ in node["outputs"]] for node in self.nodes]
        for producer, output, consumer, index in self.edges:
            edges[producer][output].append((consumer, index))
        controls = [[c for p, c in self.controls if p == i] for i in range(len(self.nodes))]
        return Plan(
            tuple(Node(type=n["kind"].name, **n) for n in self.nodes),
            tuple(Frame(**f) for f in self.frames),
            tuple(tuple(map(tuple, outputs)) for outputs in edges),
            tuple(map(tuple, controls)),
            self.feeds,
            self.fetches,
        )

    def start(self, feeds=(), seed=None, step=None, rendezvous=None):
        return StepMachine(CompiledPlan(self.plan(), self.settings), step, list(feeds), seed, rendezvous=rendezvous)

    def run(self, feeds=(), seed=None):
        """Run to the end, in a context of its own as a step does; return the fetches."""
        machine = self.start(feeds, seed)
        KernelContexts().run(machine.drain, 10.0)
        return result(machine)


def group(plans, channels, seed=None, fetches=None):
    """Start the machines of several plans that meet; fetches are those of each plan in turn unless given."""
    rendezvous = Rendezvous(channels)
    machines = [p.start(seed=None if seed is None else seed + i, rendezvous=rendezvous) for i, p in enumerate(plans)]
    places = [(i, k) for i, p in enumerate(plans) for k in range(p.fetches)] if fetches is None else fetches
    return MachineGroup(machines, [KernelContexts() for _ in plans], rendezvous, places)


def run_together(plans, channels, seed=None):
    """Run plans that meet to the end; return the fetches and what went over each channel."""
    running = group(plans, channels, seed)
    running.drain(10.0)
    assert not running.stuck, running.dump()
    traffic = running.rendezvous.traffic()
    return result(running), traffic


def parts_of(tasks, channels, seed=None):
    """Start the parts of a step; each task is a list of plans, and meets other tasks by messages alone."""
    plans = [[planner.plan() for planner in planners] for planners in tasks]
    tables = [[CompiledPlan(plan, DEFAULTS) for plan in each] for each in plans]
    remote = remote_channels(plans)
    return [
        start_part(each, channels, ends, [()] * len(each), seed=None if seed is None else seed + 10 * i)
        for i, (each, ends) in enumerate(zip(tables, remote, strict=True))
    ]


def run_apart(tasks, channels, seed=None):
    """Run the parts of a step to the end; return the fetches of all in turn, and the network with what it carried."""
    parts = parts_of(tasks, channels, seed)
    network = Network(parts, seed or 0)
    network.run()
    return [value for values in finish(parts) for value in values], network


def result(machine):
    """Return the fetches of a step that is done; raise its error."""
    assert machine.done
    assert machine.failure is None, machine.failure
    fetches = machine.fetches
    machine.close()
    return fetches


def every_order(test):
    """Run a test, given `seed` and `window`, in several ready orders and windows."""
    return pytest.mark.parametrize(("seed", "window"), ORDERS)(test)
