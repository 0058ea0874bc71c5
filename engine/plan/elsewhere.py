"""Plans for devices whose arrays are not NumPy's: where values are copied between their memory and the host's.

What the step machine itself looks at is in the host's memory: predicates, fetches, messages. What comes from there
(feeds, constants, messages, results of Python functions) is copied in once for all that compute with it. Kernels see
to their own inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.dtypes import ON_GPU, DType
from ..base.tags import Kind
from ..ir.definition import runs_on
from ..ir.operation import Operation
from ..ir.rewrite import Program
from ..kernels.scheduler.limited import ONCE
from .build import build_plan, planned
from .plan import Node, Plan

Copy = Callable[..., Any]
_LOOKED_AT = {Kind.SWITCH: 1, Kind.SWITCH_N: 1, Kind.LOOP_COND: 0, Kind.FETCH: 0, Kind.SEND: 0}
_FROM_HOST = frozenset({Kind.FEED, Kind.CONST, Kind.RECV})


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a device runs.

    Attributes
    ----------
    kernel : callable
        Returns the kernel of an operation, ``kernel(*values)``, or ``kernel(context, *values)`` if it is stateful.
    to_host, to_device : callable
        ``copy(value)`` gives the value in that memory, or what must be awaited for it; what may stay in the host's
        does.
    into_device : callable
        The same, and nothing stays.
    """

    kernel: Callable[[Operation], Callable[..., Any]]
    to_host: Copy
    to_device: Copy
    into_device: Copy


def host_inputs(op: Operation) -> list[bool]:
    """Return for each input of an operation whether its kernel wants it in the host's memory."""
    parameters = op.definition.signature.inputs
    rest = len(op.inputs) - sum(not p.many for p in parameters)
    return [p.is_host for p in parameters for _ in range(rest if p.many else 1)]


def build_elsewhere(program: Program, kernels: Kernels) -> Plan:
    """Return the plan of a lowered program for a device whose arrays are not NumPy's.

    Its nodes are those of `build_plan`, with other kernels, and behind them copies.

    Raises
    ------
    GraphError
        If a static check fails.
    """
    return _Copies(build_plan(program, kernels.kernel), planned(program), kernels).build()


class _Copies:
    def __init__(self, plan: Plan, operations: Sequence[Operation], kernels: Kernels) -> None:
        self.plan = plan
        self.operations = operations
        self.kernels = kernels
        self.nodes = list(plan.nodes)
        self.edges = [[list(edges) for edges in outputs] for outputs in plan.data_edges]

    def build(self) -> Plan:
        for i, op in enumerate(self.operations):
            for o, tensor in enumerate(op.outputs):
                if tensor.dtype in ON_GPU:
                    self._serve(i, o, tensor.dtype)
        edges = tuple(tuple(map(tuple, outputs)) for outputs in self.edges)
        controls = self.plan.control_edges + ((),) * (len(self.nodes) - len(self.plan.nodes))
        return replace(self.plan, nodes=tuple(self.nodes), data_edges=edges, control_edges=controls, foreign=True)

    def _serve(self, i: int, o: int, dtype: DType) -> None:
        """Put copies where an output needs them."""
        self._insert(i, o, self._looked_at(i, o), "ToHost", self.kernels.to_host)
        if dtype.is_differentiable:
            saved = [(c, k) for c, k in self.edges[i][o] if self.nodes[c].kind is Kind.SERIES_PUSH and k == 0]
            self._insert(i, o, saved, "IntoDevice", self.kernels.into_device)
        if self._is_from_host(i):
            users = list(self._computing(i, o))
            alone = len(users) == 1 and self.nodes[users[0][0]].kind is Kind.KERNEL
            if not alone or self.nodes[users[0][0]].type in ONCE:  # which is not tried again if there is no room
                self._insert(i, o, users, "ToDevice", self.kernels.to_device)

    def _looked_at(self, i: int, o: int) -> list[tuple[int, int]]:
        """Return the edges over which the machine itself gets values."""
        return [(c, k) for c, k in self.edges[i][o] if _LOOKED_AT.get(self.nodes[c].kind) == k]

    def _is_from_host(self, i: int) -> bool:
        node = self.nodes[i]
        return node.kind in _FROM_HOST or (node.kind is Kind.KERNEL and runs_on(self.operations[i]) == "host")

    def _computing(self, i: int, o: int) -> Iterator[tuple[int, int]]:
        """Yield the edges to what may compute with an output on the device."""
        for c, k in self.edges[i][o]:
            if c >= len(self.operations) or self.nodes[c].kind is Kind.SERIES_PUSH:
                continue
            op = self.operations[c]
            if op.attrs.get("host_backed"):  # it may leave its rows where they are
                continue
            if self.nodes[c].kind is not Kind.KERNEL or not (runs_on(op) == "host" or host_inputs(op)[k]):
                yield c, k

    def _insert(self, i: int, o: int, edges: list[tuple[int, int]], what: str, kernel: Copy) -> None:
        """Lead edges of an output through a copy."""
        if not edges:
            return
        producer, frame = self.nodes[i], self.nodes[edges[0][0]].frame
        self.edges[i][o] = [edge for edge in self.edges[i][o] if edge not in edges] + [(len(self.nodes), 0)]
        name, dtypes = f"{producer.name}/{what}_{o}", (producer.outputs[o],)
        self.nodes.append(Node(name, what, Kind.KERNEL, frame, 1, 0, dtypes, kernel=kernel, source=producer.source))
        self.edges.append([edges])
