"""A compiled step: its plans, with a session's additions to them."""

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
from ...kernels.memory.pool import Pool
from ...kernels.scheduler.rendezvous import RemoteChannel
from ...ops.state.variables.operations import updates_variable, uses_variable
from ..devices.session_devices import SessionDevice
from ..devices.simulated_time import schedulers
from ..memory.claims import StepPeaks, charge_all
from .counters import StepCounters
from .failures import users_own
from .fed_shapes import FedShapes
from .feeds import Feed
from .request import Request

_LIGHT_BYTES = 4096


def calls_python(type: str) -> bool:
    """Return True if operations of a type call functions of the user."""
    return Effect.PYTHON in definition_of(type).effects


class CompiledStep:
    """The compiled step of a combination of fetches and feeds, kept by a session.
    Parameters
    ----------
    program : Program
        Fetches, targets and feeds in the user's graph, and the tensors watched by the session.
    plan : StepPlan
    specializations : int
        Number of combinations of feeds' shapes that the step may be compiled for separately.
    is_observed : bool
        True if the step is compiled for a run with all instances recorded.

    Attributes
    ----------
    graph : Graph
        The user's graph.
    plan : Plan
        Plan of the whole step, as if there were a single device.
    device_plans : tuple of DevicePlan
        A plan for each participating device.
    schedulers : list of callable or None
        For each device plan the factory of a step's Schedule; None if no device has simulated time.
    channels : tuple of Channel
        Channels between the devices.
    is_part : bool
        True if devices of other processes take part, so that some feeds and fetches of the step are theirs.
    remote : tuple of RemoteChannel
        Channels whose other end is on a device of another process.
    counters : StepCounters
        Counters of the step on each device.
    feeds : tuple of Feed
    tensors : tuple of Tensor
        Fetched tensors, each once.
    targets : tuple of Operation
        Fetched operations, each once.
    calls_python : bool
        True if the step calls functions of the user.
    shows : dict of str to str
        Names of watched tensors, by the names of the nodes that show their values.
    watched : tuple of Tensor
        Watched tensors computed by the step.
    needs : dict of int to tuple of int
        Indices of the feeds needed by each result of a partial run; tensors are numbered first, then targets.
    constants : list
        Objects that charge the constants to the session's devices.
    is_charged : bool
        True if the constants are charged; False until a step begins that had to wait for memory.
    counter_pool : list of CompiledStep
        Copies of the step with tables of their own, free for a run.
    is_observed : bool
        True if the step is compiled for a run with all instances recorded.
    not_clustered : dict of str to tuple of str
        Operations outside of all native programs, by reason.
    is_light : bool
        True if the step's arrays are known to be tiny; such a step need not wait in line for memory.
    peaks : StepPeaks
        Memory taken by the step's runs on devices with a limit.
    fed_shapes : FedShapes
        Shapes for which the step is, or should be, compiled separately.
    updates : bool
        True if the step has operations that change variables.
    uses_variables : bool
        True if the step has operations that read or change variables.
    """

    __slots__ = (
        "__weakref__",
        "calls_python",
        "channels",
        "constants",
        "counters",
        "device_plans",
        "fed_shapes",
        "feeds",
        "graph",
        "is_charged",
        "is_light",
        "is_part",
        "is_observed",
        "needs",
        "not_clustered",
        "peaks",
        "plan",
        "remote",
        "schedulers",
        "shows",
        "counter_pool",
        "targets",
        "tensors",
        "updates",
        "uses_variables",
        "watched",
    )

    def __init__(
        self,
        program: Program,
        plan: StepPlan,
        specializations: int = 0,
        is_observed: bool = False,
    ) -> None:
        self.graph: Graph = program.graph
        self.plan: Plan = plan.plan
        self.device_plans: tuple[DevicePlan, ...] = plan.devices
        self.schedulers: list[Callable[[], Any] | None] = [None] * len(plan.devices)
        self.counters: StepCounters = _make_counters(plan.devices)
        self.channels: tuple[Channel, ...] = plan.channels
        self.is_part: bool = plan.is_part
        self.remote: tuple[RemoteChannel, ...] = plan.remote
        self.feeds: tuple[Feed, ...] = tuple(map(Feed, program.feeds))
        self.peaks: StepPeaks = StepPeaks()
        # A kernel in a loop counts as unknown, -1: nobody knows the number of its iterations in advance.
        made = [node.made_bytes if node.frame == 0 else -1 for node in self.plan.nodes if node.kind is Kind.KERNEL]
        self.is_light: bool = min(made, default=0) >= 0 and sum(made) <= _LIGHT_BYTES
        self.tensors: tuple[Tensor, ...] = tuple(program.fetches)
        self.targets: tuple[Operation, ...] = tuple(program.targets)
        self.shows: dict[str, str] = {node.name: node.attrs["key"] for node in self.plan.nodes if node.type == "Watch"}
        shown = set(self.shows.values())
        self.watched: tuple[Tensor, ...] = tuple(tensor for tensor in program.watched if tensor.name in shown)
        ends = [node.attrs for node in self.plan.nodes if node.type == "PartialEnd"]
        self.needs: dict[Any, Any] = {attrs["key"]: attrs["needs"] for attrs in ends}
        self.constants: list[Any] = []  # charges of the constants
        self.is_charged: bool = False
        self.counter_pool: list[CompiledStep] = []
        self.is_observed: bool = is_observed
        self.not_clustered: dict[str, tuple[str, ...]] = by_reason(plan.not_clustered)
        self.fed_shapes: FedShapes = FedShapes(program.feeds, specializations)
        kernels = {node.type for node in self.plan.nodes if node.kind is Kind.KERNEL}
        self.updates: bool = any(map(updates_variable, kernels))
        self.uses_variables: bool = any(map(uses_variable, kernels))
        self.calls_python: bool = any(map(calls_python, kernels))

    @property
    def devices(self) -> list[str]:
        """Names of the participating devices; empty for a step on a single device."""
        return [each.plan.device for each in self.device_plans]

    def bind_devices(self, devices: Sequence[SessionDevice]) -> None:
        """Set the schedulers of the devices' streams."""
        plans = [(each.plan, each.device) for each in self.device_plans]
        self.schedulers = schedulers(plans, self.channels, devices)

    def constants_by_pool(self, devices: Sequence[SessionDevice]) -> dict[Pool, list[Any]]:
        """Return the step's constants by the pools of their devices."""
        found: dict[Pool, list[Any]] = {}
        for part in self.device_plans:
            pool = devices[part.device].pool
            if pool is not None and not part.plan.has_device_arrays:
                found[pool] = [node.value for node in part.plan.nodes if node.kind is Kind.CONST]
        return found

    def charge_constants(self, devices: Sequence[SessionDevice]) -> None:
        """Charge the constants to their devices while the step is kept; MemoryLimitError, and no charge, if refused."""
        if not self.is_charged:
            self.constants = charge_all(self.constants_by_pool(devices))
            self.is_charged = True

    def with_private_counters(self, settings: Settings) -> CompiledStep:
        """Return a copy of this step with its own tables, and so counts, returned to `counter_pool` after its run."""
        if self.counter_pool:
            return self.counter_pool.pop()
        # Shallow: feeds, peaks and charged constants stay shared, which all runs of the step are to see.
        step = copy(self)
        step.counter_pool = []
        step.device_plans = tuple(with_own_tables(part, settings) for part in self.device_plans)
        step.counters = _make_counters(step.device_plans)
        return step

    def convert(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Return the fed values as arrays, checked against dtype and static shape."""
        return [feed.convert(value) for feed, value in zip(self.feeds, values)]

    def feeds_if_exact(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]] | None:
        """Return the fed values if all of them are fitting arrays, else None."""
        for feed, value in zip(self.feeds, values):
            if type(value) is not np.ndarray or not feed.takes(value):
                return None
        return list(values)

    def converts_much(self, values: Sequence[Any]) -> bool:
        """Return True if `convert` copies large arrays."""
        return any(map(Feed.is_long, self.feeds, values))


def _make_counters(parts: Sequence[DevicePlan]) -> StepCounters:
    return StepCounters([(each.plan, each.tables.loop_counts, each.tables.clusters) for each in parts])


def make_compiled_step(
    graph: Graph, request: Request, feeds: Sequence[Tensor], target: Target, watched: Sequence[Tensor] = ()
) -> CompiledStep:
    """Compile fetches and feeds into a step, and warn of unused operations that the user probably forgot.

    Raises
    ------
    GraphError
        If a placeholder needed by the fetches is not fed, a static check fails, or an operation has no device.
    """
    warn_of_unused(graph)
    program = Program(graph, feeds, request.tensors, request.targets, watched)
    most = target.settings.specialize if target.shapes is None else 0
    try:
        plan = compile_step(program, target)
    except TagloomError as error:
        error.operation = users_own(graph, error.operation)
        raise
    return CompiledStep(program, plan, most, target.observed)
