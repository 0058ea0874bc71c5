"""Freeze a lowered program into a Plan."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ...base.settings import AUTO, MOST
from ...ir.definition import Ufunc
from ...ir.frames import ROOT, Frames, assign_frames
from ...ir.operation import Operation
from ...ir.own_kernels import ON_HOST, KernelSource, bound_kernel
from ...ir.program import Program, needed
from ...ir.rules.kernels import Elements, NoRetry
from ...ir.traits import Role
from ...kernels.core.table import Kind
from .plan import Frame, Node, Plan

# Roles without a kind of their own run as kernels; a MaybeGet forwards its input.
_KINDS = {role: Kind[role.name] for role in Role if role.name in Kind.__members__} | {Role.MAYBE_GET: Kind.IDENTITY}
_SAVING = frozenset({Role.SERIES_PUSH, Role.SERIES_EXIT, Role.TRIP_COUNT})


class DeviceBackend(Protocol):
    """Kernels for a device whose arrays are not NumPy's, for a compiled step."""

    def kernel(self, op: Operation) -> Callable[..., Any]:
        """Return the kernel of an operation: ``kernel(*values)``, or ``kernel(context, *values)`` if it is stateful."""
        ...

    def bind(self, plan: Plan) -> None:
        """Receive the plan of the kernels."""


def _source_on_host(op: Operation) -> KernelSource:
    return ON_HOST


def build_plan(
    program: Program,
    backend: DeviceBackend | None = None,
    source_of: Callable[[Operation], KernelSource] = _source_on_host,
) -> Plan:
    """Return the Plan of a lowered program.

    Parameters
    ----------
    program : Program
    backend : DeviceBackend, optional
        Source of the kernels; by default kernels compute with NumPy.
    source_of : callable, optional
        ``source_of(op)`` returns the kernels of an operation's device, without a backend.

    Raises
    ------
    GraphError
        If a static check fails (see :func:`tagloom.ir.frames.assign_frames`).
    """
    operations = needed(program)
    frames = assign_frames(operations)
    if backend is None:
        return _Builder(operations, frames, program, _numpy_kernels(source_of), source_of).build()
    plan = _Builder(operations, frames, program, backend.kernel, _source_on_host).build()
    plan = replace(plan, has_device_arrays=True)
    # The backend has made the kernels one by one, and sees them as a whole only now.
    backend.bind(plan)
    return plan


def kind_of(op: Operation) -> Kind:
    """Return the kind of the executor's work for an operation."""
    return _KINDS.get(op.role, Kind.KERNEL)


def is_kernel(op: Operation) -> bool:
    """Return True if a kernel computes the operation, not the executor itself."""
    return kind_of(op) is Kind.KERNEL


def _numpy_kernels(source_of: Callable[[Operation], KernelSource]) -> Callable[[Operation], Callable[..., Any]]:
    """Return a function of an operation that returns its kernel, computing with NumPy."""
    return lambda op: bound_kernel(op, np, source_of(op))


class _Builder:
    """Builder of a program's Plan.

    Attributes
    ----------
    index : dict of Operation to int
        Number of an operation's node.
    frame_index : dict of str to int
        Number of a frame, by name; the root is 0.
    saving : dict of str to list of Operation
        By frame, the operations writing and returning its saved values.
    """

    def __init__(
        self,
        operations: list[Operation],
        frames: Frames,
        program: Program,
        kernels: Callable[[Operation], Callable[..., Any]],
        source_of: Callable[[Operation], KernelSource],
    ) -> None:
        self.kernels = kernels
        self.source_of = source_of
        self.operations = operations
        self.frames = frames
        self.program = program
        self.index = {op: i for i, op in enumerate(operations)}
        self.frame_index = {name: i for i, name in enumerate(frames.infos)}
        self.saving: dict[str, list[Operation]] = {name: [] for name in frames.infos}
        for op in operations:
            if op.role in _SAVING:
                self.saving[frames.of[op]].append(op)

    def build(self) -> Plan:
        nodes = [self._make_node(op) for op in self.operations]
        # data[i][k]: the (node, input) pairs that take output k of node i; controls[i]: the nodes waiting for node i.
        data: list[list[list[tuple[int, int]]]] = [[[] for _ in op.outputs] for op in self.operations]
        controls: list[list[int]] = [[] for _ in self.operations]
        for i, op in enumerate(self.operations):
            for k, tensor in enumerate(op.inputs):
                data[self.index[tensor.op]][tensor.index].append((i, k))
            for source in op.control_inputs:
                controls[self.index[source]].append(i)
        # Fetches are nodes of their own after all others, with one input and no kernel.
        for k, tensor in enumerate(self.program.fetches):
            data[self.index[tensor.op]][tensor.index].append((len(nodes), 0))
            nodes.append(self._make_fetch_node(k, tensor.op))
            data.append([])
            controls.append([])
        return Plan(
            tuple(nodes),
            tuple(self._find_frame(name) for name in self.frame_index),
            tuple(tuple(tuple(edges) for edges in outputs) for outputs in data),
            tuple(map(tuple, controls)),
            len(self.program.feeds),
            len(self.program.fetches),
            tuple(np.dtype(t.dtype.numpy) for t in self.program.feeds),
        )

    def _make_fetch_node(self, k: int, op: Operation) -> Node:
        return Node(f"fetch_{k}", "Fetch", Kind.FETCH, 0, 1, 0, (), index=k, source=op.source)

    def _find_frame(self, name: str) -> Frame:
        """Return the frame of a name, with the nodes that return its saved values."""
        info = self.frames.infos[name]
        finals = tuple(self.index[op] for op in self.saving[name] if op.role is not Role.SERIES_PUSH)
        # Numbers of series start at 0 in each frame.
        series = [op.attrs["series"] + 1 for op in self.saving[name] if op.role is Role.SERIES_PUSH]
        parent = -1 if name == ROOT else self.frame_index[info.parent]
        # Under AUTO the machine starts iterations as memory allows, up to MOST of them at once.
        adaptive = info.parallel_iterations == AUTO
        window = MOST if adaptive else int(info.parallel_iterations)
        return Frame(name or "root", parent, window, len(info.enters), max(series, default=0), finals, adaptive)

    def _make_node(self, op: Operation) -> Node:
        """Return the node of an operation, with the fields of its kind."""
        kind = kind_of(op)
        fields: dict[str, Any] = {}
        if kind is Kind.KERNEL:
            fields = {"kernel": self.kernels(op), **_kernel_fields(op, self.source_of(op).find(op) is not None)}
        elif kind is Kind.CONST:
            fields = {"value": op.attrs["value"]}
        elif kind is Kind.ENTER:
            fields = {"child": self.frame_index[op.attrs["frame_name"]], "is_constant": op.attrs["is_constant"]}
        elif kind is Kind.FEED:
            fields = {"index": op.attrs["index"]}
        elif kind is Kind.SERIES_PUSH:
            swappable, host_backed = op.attrs.get("swappable", False), op.attrs.get("host_backed", False)
            fields = {"index": op.attrs["series"], "is_swappable": swappable, "is_host_backed": host_backed}
        elif kind is Kind.SERIES_EXIT:
            fields = {"index": op.attrs["series"]}
        elif kind is Kind.SERIES_READ:
            fields = {"is_last": op.attrs["last"]}
        elif kind in (Kind.SEND, Kind.RECV):
            fields = {"index": op.attrs["channel"], "dead_silent": op.attrs["dead_silent"]}
        elif kind is Kind.SWITCH:
            fields = {"dead_silent": bool(op.attrs.get("dead_silent"))}
        return Node(
            op.name,
            op.type,
            kind,
            self.frame_index[self.frames.of[op]],
            len(op.inputs),
            len(op.control_inputs),
            tuple(t.dtype.numpy for t in op.outputs),
            source=op.source,
            origin=op.origin,
            **fields,
        )


def _kernel_fields(op: Operation, has_own_kernel: bool) -> dict[str, Any]:
    """Return the fields of a KERNEL node from its definition."""
    definition = op.definition
    attrs = {key: op.attrs[key] for key in definition.attrs}
    elements = definition.rule(Elements)
    return {
        "attrs": attrs,
        "stateful": definition.stateful,
        "detached": definition.only_computes,
        "made_bytes": _made_bytes(op),
        "elements": None if elements is None else functools.partial(elements.count, **attrs),
        "retry": not definition.has(NoRetry),
        "ufunc": definition.kernel.name if isinstance(definition.kernel, Ufunc) and not has_own_kernel else None,
        "has_own_kernel": has_own_kernel,
    }


def _made_bytes(op: Operation) -> int:
    """Return the bytes of an operation's outputs, -1 if unknown."""
    total = 0
    for tensor in op.outputs:
        count = tensor.shape.num_elements
        if count is None:
            return -1
        total += count * (0 if tensor.dtype.numpy is None else tensor.dtype.numpy.itemsize)
    return total
