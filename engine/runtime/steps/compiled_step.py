"""A compiled step: a Plan, what is fed into it and how its results are given back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import nest
from ...base.dtypes import as_array
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...compile import StepPlan, Target, compile_step, compile_until
from ...compile.partition import Partitioned, to_dot, to_text
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.tensor import Tensor
from ...kernels.core.table import Kind
from ...kernels.memory.pool import hand_over
from ..devices.session_devices import SessionDevice
from ..devices.simulated_time import schedulers
from ..observe.trace import Trace
from .counters import StepCounters

if TYPE_CHECKING:
    from .runner import StepRunner


class Feed:
    """How one fed value becomes an array of the tensor's dtype.

    Parameters
    ----------
    tensor : Tensor
        What is fed.
    """

    __slots__ = ("_dims", "_dtype", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._dtype = tensor.dtype.numpy
        self._dims = None if tensor.shape.rank is None else tensor.shape.dims

    def convert(self, value: Any) -> np.ndarray[Any, Any]:
        """Return an array, the same one if it fits; DtypeError or ShapeError if the value does not."""
        if type(value) is np.ndarray and value.dtype is self._dtype and self._fits(value.shape):
            return value
        return convert_feed(self.tensor, value)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if self._dims is None or self._dims == shape:
            return True
        if len(self._dims) != len(shape):
            return False
        for wanted, size in zip(self._dims, shape):  # noqa: SIM110  a generator costs more than the comparison
            if wanted is not None and wanted != size:
                return False
        return True


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
    watched : tuple of Tensor
        Of the tensors that are watched those that the step computes.
    needs : dict of int to tuple of int
        Of a partial run, the feeds that each result needs, by index; the tensors come first, then the targets.
    holds : list
        Keeps the constants charged to the session's devices.
    """

    __slots__ = (
        "__weakref__",
        "channels",
        "counters",
        "device_plans",
        "feeds",
        "graph",
        "holds",
        "needs",
        "plan",
        "schedulers",
        "targets",
        "tensors",
        "watched",
    )

    def __init__(
        self,
        graph: Graph,
        plan: StepPlan,
        feeds: Sequence[Tensor],
        request: Request,
        watched: Sequence[Tensor] = (),
    ) -> None:
        self.graph = graph
        self.plan = plan.plan
        self.device_plans = plan.devices
        self.schedulers: list[Callable[[], Any] | None] = [None] * len(plan.devices)
        self.counters = StepCounters([(each.plan, each.tables.loop_counts) for each in plan.devices])
        self.channels = plan.channels
        self.feeds = tuple(map(Feed, feeds))
        self.tensors = request.tensors
        self.targets = request.targets
        shown = {node.attrs["key"] for node in self.plan.nodes if node.type == "Watch"}
        self.watched = tuple(tensor for tensor in watched if tensor.name in shown)
        ends = [node.attrs for node in self.plan.nodes if node.type == "PartialEnd"]
        self.needs = {attrs["key"]: attrs["needs"] for attrs in ends}
        self.holds: list[Any] = []

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

    def convert(self, values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Return the fed values as arrays, checked against dtype and static shape."""
        return [feed.convert(value) for feed, value in zip(self.feeds, values)]


class Request:
    """Fetches resolved to graph elements, with the structure to give them back in.

    Parameters
    ----------
    structure : object
        As the user gave it; not kept, so that it may be changed afterwards.
    elements : sequence of Tensor or Operation
        What its leaves stand for, in order.

    Attributes
    ----------
    tensors : tuple of Tensor
        The fetched tensors, each once.
    targets : tuple of Operation
        The operations to run, each once.
    """

    __slots__ = ("_pack", "_places", "targets", "tensors")

    def __init__(self, structure: Any, elements: Sequence[Tensor | Operation]) -> None:
        self.tensors = tuple(dict.fromkeys(e for e in elements if isinstance(e, Tensor)))
        self.targets = tuple(dict.fromkeys(e for e in elements if isinstance(e, Operation)))
        place = {tensor: k for k, tensor in enumerate(self.tensors)}
        self._places = [place[e] if isinstance(e, Tensor) else None for e in elements]
        self._pack = _packer(structure)

    def pack(self, values: list[Any]) -> Any:
        """Put one value for each of `tensors` into the structure of the fetches; an operation gives None."""
        return self._pack([None if place is None else own(values, place) for place in self._places])


def _packer(structure: Any) -> Callable[[list[Any]], Any]:
    parts = nest.children(structure)
    if parts is None:
        return itemgetter(0)
    flat = all(nest.children(part) is None for _, part in parts)
    if flat and type(structure) in (list, tuple):
        return type(structure)
    return partial(nest.pack_as, nest.map_structure(lambda leaf: None, structure))


def make_request(graph: Graph, fetches: Any) -> Request:
    """Resolve fetches (tensors, operations, variables, names, in any structure).

    Raises
    ------
    GraphError
        If one is of another graph, or inside a branch or a loop.
    """
    elements = tuple(graph.as_graph_element(leaf) for leaf in nest.flatten(fetches))
    for element in elements:
        if not graph.is_fetchable(element):
            _refuse(element, "fetched")
    return Request(fetches, elements)


def resolve_feeds(graph: Graph, keys: Sequence[Any]) -> tuple[Tensor, ...]:
    """Resolve the tensors to feed.

    Raises
    ------
    GraphError
        If one is no tensor of this graph, is inside a branch or a loop, or is named twice.
    """
    tensors: list[Tensor] = []
    for key in keys:
        tensor = graph.as_graph_element(key)
        if not isinstance(tensor, Tensor):
            raise GraphError(
                "only tensors can be fed", got=key, operation=tensor, hint="feed one of the operation's outputs"
            )
        if not graph.is_feedable(tensor):
            _refuse(tensor, "fed")
        if tensor in tensors:
            raise GraphError(
                f"{tensor.name} is fed twice", got=key, operation=tensor.op, hint="give one value for each tensor"
            )
        tensors.append(tensor)
    return tuple(tensors)


def _refuse(element: Tensor | Operation, verb: str) -> None:
    op = element.op if isinstance(element, Tensor) else element
    if verb == "fed" and element in op.graph.unfeedable:
        raise GraphError(
            f"{element.name} may not be {verb}: its value was used while the graph was built",
            operation=op,
            hint="what was built from it, as an axis or a shape, keeps that value; use placeholder_with_default for a "
            "value that a step may change",
        )
    inside = op.region is not op.graph.root
    raise GraphError(
        f"{element.name} may not be {verb}",
        wanted="a tensor of the graph's root region",
        got=f"one inside the {op.region.path()}" if inside else f"a {element.dtype}",  # type: ignore[union-attr]
        operation=op,
        hint="return it from the branch or loop body and use the result" if inside else "fetch what is read from it",
    )


def compile_request(
    graph: Graph, request: Request, feeds: Sequence[Tensor], target: Target, watched: Sequence[Tensor] = ()
) -> CompiledStep:
    """Compile fetches and feeds into a step.

    Raises
    ------
    GraphError
        If a placeholder that the fetches need is not fed, a static check fails, or there is no device for an operation.
    """
    program = Program(graph, feeds, request.tensors, request.targets, watched)
    return CompiledStep(graph, compile_step(program, target), feeds, request, watched)


def convert_feed(tensor: Tensor, value: Any) -> np.ndarray[Any, Any]:
    """Convert one fed value; DtypeError or ShapeError when it does not fit the tensor."""
    try:
        array = as_array(value, tensor.dtype)
    except DtypeError as error:
        raise DtypeError(
            f"the value fed for {tensor.name} has the wrong dtype",
            wanted=tensor.dtype,
            got=error.got,
            operation=tensor.op,
            hint=f"convert it with numpy.asarray(value, '{tensor.dtype}')",
        ) from error
    if not tensor.shape.is_compatible_with(Shape(array.shape)):
        raise ShapeError(
            f"the value fed for {tensor.name} has the wrong shape",
            wanted=tensor.shape,
            got=list(array.shape),
            operation=tensor.op,
            hint="reshape it, or declare the dimensions that change as None",
        )
    return array


def feed_values(feeds: Mapping[Any, Any], graph: Graph) -> tuple[tuple[Tensor, ...], list[Any]]:
    """Split a feeds mapping into tensors and values."""
    return resolve_feeds(graph, list(feeds)), list(feeds.values())


def own(values: list[Any], place: int) -> np.ndarray[Any, Any]:
    """Return an array the caller may keep and change: the value itself if nobody but `values` holds its memory."""
    alone = _references(values, place) <= _ALONE
    value = values[place]
    return hand_over(value) if alone else value.copy()  # type: ignore[no-any-return]


def _references(values: list[Any], place: int) -> int:
    return sys.getrefcount(values[place])


_ALONE = _references([object()], 0)


class Step:
    """A compiled step of a session; await it with the fed values in the order of `feeds`.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default() as graph, tg.device("/cpu:1"):
    ...     y = tg.identity(tg.placeholder("float32", [], name="x"), name="y")
    >>> step = tg.Session(graph, devices=2).make_step(y, feeds=["x:0"])
    >>> print(step.to_text().splitlines()[0])
    # /job:localhost/task:0/device:CPU:1
    """

    __slots__ = ("_compiled", "_feeds", "_request", "_runner", "_version", "_watched")

    def __init__(self, runner: StepRunner, request: Request, feeds: tuple[Tensor, ...]) -> None:
        self._runner = runner
        self._request = request
        self._feeds = feeds
        self._compile()

    def _compile(self) -> None:
        self._version = self._runner.graph.version
        self._watched = self._runner.watched
        self._compiled = self._runner.compiled(self._request, self._feeds)

    async def __call__(self, *values: Any, timeout: float | None = None, trace: Trace | None = None) -> Any:
        """Run the step and return the fetched values; see :meth:`Session.run`.

        An edge of the graph changed by ``Operation.update_input`` since the last call has it compiled again.
        """
        runner = self._runner
        runner.check_open()
        if len(values) != len(self._feeds):
            raise GraphError(
                "wrong number of fed values",
                wanted=f"{len(self._feeds)}: {[t.name for t in self._feeds]}",
                got=len(values),
                hint="give one value for each of the feeds of make_step, in their order",
            )
        if self._version != runner.graph.version or self._watched is not runner.watched:
            self._compile()
        return await runner.run(self._request, self._compiled, values, timeout, trace)

    def to_text(self) -> str:
        """Return what each device does, an operation a line, and the channels between them."""
        return to_text(self._partitioned())

    def to_dot(self) -> str:
        """Return the same as text that Graphviz draws: ``dot -Tsvg``."""
        return to_dot(self._partitioned())

    def _partitioned(self) -> Partitioned:
        runner = self._runner
        program = Program(runner.graph, self._feeds, self._request.tensors, self._request.targets)
        found: Partitioned = compile_until("partition", program, runner.environment.target())
        return found
