"""A compiled step: its plans, with what a session adds to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from ...base.errors import TagloomError
from ...base.settings import Settings
from ...base.wording import by_reason
from ...compile import DevicePlan, StepPlan, Target, compile_step, with_own_tables
from ...compile.partition import Channel
from ...compile.plan.plan import Plan
from ...ir.definition import definition_of
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ...ir.unused import warn_of_unused
from ...kernels.core.table import Kind
from ...ops.state.variables import updates_variable, uses_variable
from ..devices.session_devices import SessionDevice
from ..devices.simulated_time import schedulers
from ..memory.claims import StepPeaks
from .counters import StepCounters
from .failures import users_own
from .fed_shapes import FedShapes
from .request import Feed, Request

_LIGHT_BYTES = 4096


def calls_python(type: str) -> bool:
    """Return True if an operation of a type calls a function of the user."""
    return Effect.PYTHON in definition_of(type).effects


class CompiledStep:
    """What a session keeps of one combination of fetches and feeds.

    Parameters
    ----------
    graph : Graph
    plan : StepPlan
    feeds : sequence of Tensor
    request : Request
    watched : sequence of Tensor
        What the session watches.
    specializations : int
        For how many combinations of shapes of its feeds the step may be compiled apart.
    is_observed : bool
        Whether it is compiled for a run of which all instances are looked at.

    Attributes
    ----------
    graph : Graph
        What the user built.
    plan : Plan
        Of the whole step, as if there were one device.
    device_plans : tuple of DevicePlan
        One for each device that has something to do.
    schedulers : list of callable or None
        For each of these what makes the Schedule of one step, where devices have a time of their own.
    channels : tuple of Channel
        Between the devices.
    counters : StepCounters
        What its steps count on each device.
    feeds : tuple of Feed
    tensors : tuple of Tensor
        What is fetched, each once.
    targets : tuple of Operation
        What is run, each once.
    calls_python : bool
        True if it calls functions of the user.
    shows : dict of str to str
        By the names of its nodes that show values, those of the tensors that are watched.
    watched : tuple of Tensor
        Of the tensors that are watched those that the step computes.
    needs : dict of int to tuple of int
        Of a partial run, the feeds that each result needs, by index; the tensors come first, then the targets.
    holds : list
        Keeps the constants charged to the session's devices.
    spares : list of CompiledStep
        The same step with tables of their own, that nobody runs.
    is_observed : bool
        Whether it is compiled for a run of which all instances are looked at.
    not_clustered : dict of str to tuple of str
        By reason, the operations that are in no native program.
    is_light : bool
        Whether it is known to make next to nothing, so that it need not wait in line for memory.
    peaks : StepPeaks
        What its runs have taken of memory with a limit.
    fed_shapes : FedShapes
        For which shapes there is, or should be, a step of its own.
    updates : bool
        Whether it has operations that change variables.
    uses_variables : bool
        True if it has operations that read or change variables.
    """

    __slots__ = (
        "__weakref__",
        "calls_python",
        "channels",
        "counters",
        "device_plans",
        "fed_shapes",
        "feeds",
        "graph",
        "holds",
        "is_light",
        "is_observed",
        "needs",
        "not_clustered",
        "peaks",
        "plan",
        "schedulers",
        "shows",
        "spares",
        "targets",
        "tensors",
        "updates",
        "uses_variables",
        "watched",
    )

    def __init__(
        self,
        graph: Graph,
        plan: StepPlan,
        feeds: Sequence[Tensor],
        request: Request,
        watched: Sequence[Tensor] = (),
        specializations: int = 0,
        is_observed: bool = False,
    ) -> None:
        self.graph: Graph = graph
        self.plan: Plan = plan.plan
        self.device_plans: tuple[DevicePlan, ...] = plan.devices
        self.schedulers: list[Callable[[], Any] | None] = [None] * len(plan.devices)
        self.counters: StepCounters = _counters(plan.devices)
        self.channels: tuple[Channel, ...] = plan.channels
        self.feeds: tuple[Feed, ...] = tuple(map(Feed, feeds))
        self.peaks: StepPeaks = StepPeaks()
        made = [node.made_bytes if node.frame == 0 else -1 for node in self.plan.nodes if node.kind is Kind.KERNEL]
        self.is_light: bool = min(made, default=0) >= 0 and sum(made) <= _LIGHT_BYTES
        self.tensors: tuple[Tensor, ...] = request.tensors
        self.targets: tuple[Operation, ...] = request.targets
        self.shows: dict[str, str] = {node.name: node.attrs["key"] for node in self.plan.nodes if node.type == "Watch"}
        shown = set(self.shows.values())
        self.watched: tuple[Tensor, ...] = tuple(tensor for tensor in watched if tensor.name in shown)
        ends = [node.attrs for node in self.plan.nodes if node.type == "PartialEnd"]
        self.needs: dict[Any, Any] = {attrs["key"]: attrs["needs"] for attrs in ends}
        self.holds: list[Any] = []
        self.spares: list[CompiledStep] = []
        self.is_observed: bool = is_observed
        self.not_clustered: dict[str, tuple[str, ...]] = by_reason(plan.not_clustered)
        self.fed_shapes: FedShapes = FedShapes(feeds, specializations)
        kernels = {node.type for node in self.plan.nodes if node.kind is Kind.KERNEL}
        self.updates: bool = any(map(updates_variable, kernels))
        self.uses_variables: bool = any(map(uses_variable, kernels))
        self.calls_python: bool = any(map(calls_python, kernels))

    @property
    def devices(self) -> list[str]:
        """Names of the devices that take part; of a step for one device, empty."""
        return [each.plan.device for each in self.device_plans]

    def settle(self, devices: Sequence[SessionDevice]) -> None:
        """Learn of the devices' streams; charge the constants to the devices as long as the step is kept."""
        plans = [(each.plan, each.device) for each in self.device_plans]
        self.schedulers = schedulers(plans, self.channels, devices)
        for plan, device in plans:
            pool = devices[device].pool
            if pool is not None and not plan.has_device_arrays:
                self.holds += pool.charge_external(node.value for node in plan.nodes if node.kind is Kind.CONST)

    def alone(self, settings: Settings) -> CompiledStep:
        """Return this step with tables, and so counts, of its own: for one run, which puts it into `spares` then."""
        if self.spares:
            return self.spares.pop()
        step = copy(self)
        step.spares = []
        step.device_plans = tuple(with_own_tables(part, settings) for part in self.device_plans)
        step.counters = _counters(step.device_plans)
        return step

    def convert(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Return the fed values as arrays, checked against dtype and static shape."""
        return [feed.convert(value) for feed, value in zip(self.feeds, values)]

    def as_they_are(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]] | None:
        """Return the fed values if all of them are arrays that fit."""
        for feed, value in zip(self.feeds, values):
            if type(value) is not np.ndarray or not feed.takes(value):
                return None
        return list(values)

    def converts_much(self, values: Sequence[Any]) -> bool:
        """Say whether `convert` copies large arrays."""
        return any(map(Feed.is_long, self.feeds, values))


def _counters(parts: Sequence[DevicePlan]) -> StepCounters:
    return StepCounters([(each.plan, each.tables.loop_counts, each.tables.clusters) for each in parts])


def compile_request(
    graph: Graph, request: Request, feeds: Sequence[Tensor], target: Target, watched: Sequence[Tensor] = ()
) -> CompiledStep:
    """Compile fetches and feeds into a step, with a warning of what the user forgot in the graph.

    Raises
    ------
    GraphError
        If a placeholder that the fetches need is not fed, a static check fails, or there is no device for an operation.
    """
    warn_of_unused(graph)
    program = Program(graph, feeds, request.tensors, request.targets, watched)
    most = target.settings.specialize if target.shapes is None else 0
    try:
        plan = compile_step(program, target)
    except TagloomError as error:
        error.operation = users_own(graph, error.operation)
        raise
    return CompiledStep(graph, plan, feeds, request, watched, most, target.observed)
