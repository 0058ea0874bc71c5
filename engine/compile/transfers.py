"""Transfers: copies between the memory of a device whose arrays are not NumPy's and the host's. See docs/design/0016.

Values read by the step machine itself are in the host's memory: predicates, fetches, messages. Values from the host
(feeds, constants, messages, results of Python functions) are copied in once for all computing operations.
Kernels copy their other inputs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..ir.builder import Builder
from ..ir.definition import host_inputs
from ..ir.operation import Operation
from ..ir.own_kernels import KernelSource
from ..ir.program import Program, copy_program, needed
from ..ir.rules.kernels import NoRetry
from ..ir.tensor import Tensor
from ..ir.traits import Role
from ..ops.internal import send_recv as _transfer  # noqa: F401  declares ToHost, ToDevice and IntoDevice
from .partition.partitioned import Partitioned
from .plan.build import is_kernel
from .target import Target

Use = tuple[Operation | None, int]  # an input of an operation, or a fetch
_LOOKED_AT = {Role.SWITCH: 1, Role.SWITCH_N: 1, Role.LOOP_COND: 0, Role.SEND: 0}  # inputs read by the machine itself
_FROM_HOST = frozenset({Role.FEED, Role.CONST, Role.RECV})


def insert_transfers(partitioned: Partitioned, target: Target) -> Partitioned:
    """Return the partitioned program with copies for devices whose arrays are not NumPy's."""
    foreign = {device.spec: device.kernels for device in target.devices if device.backend is not None}
    programs = {d: _insert_transfers(p, foreign[d]) if d in foreign else p for d, p in partitioned.programs.items()}
    return replace(partitioned, programs=programs)


def _insert_transfers(program: Program, kernels: KernelSource) -> Program:
    copy = copy_program(program)
    # As they are before any copy is inserted.
    uses = _collect_uses(copy)
    for tensor in [t for op in needed(copy) for t in op.outputs]:
        if tensor.dtype in kernels.dtypes:
            _Transfers(copy, kernels, tensor, uses.get(tensor, [])).insert()
    return copy


def _collect_uses(program: Program) -> Mapping[Tensor, list[Use]]:
    uses: dict[Tensor, list[Use]] = {}
    for op in needed(program):
        for k, tensor in enumerate(op.inputs):
            uses.setdefault(tensor, []).append((op, k))
    for k, tensor in enumerate(program.fetches):
        uses.setdefault(tensor, []).append((None, k))
    return uses


class _Transfers:
    """The copies of a tensor."""

    def __init__(self, program: Program, kernels: KernelSource, tensor: Tensor, uses: list[Use]) -> None:
        self.program = program
        self.kernels = kernels
        self.tensor = tensor
        self.uses = uses

    def insert(self) -> None:
        """Insert copies before uses of the tensor on the other side."""
        self._insert_copy("ToHost", [(op, k) for op, k in self.uses if op is None or _LOOKED_AT.get(op.role) == k])
        saves = [(op, k) for op, k in self.uses if op and op.role is Role.SERIES_PUSH and k == 0]
        if self.kernels.needs_kernels:  # the host computes with series, which must not have elements in both memories
            self._insert_copy("ToHost", saves)
        elif self.tensor.dtype.is_differentiable:
            self._insert_copy("IntoDevice", saves)
        if self._is_from_host():
            users = list(self._device_uses())
            # A kernel alone copies its input itself, if it may be run again should there be no room for the copy.
            alone = len(users) == 1 and users[0][0] is not None and is_kernel(users[0][0])
            if not alone or users[0][0].definition.has(NoRetry):
                self._insert_copy("ToDevice", users)

    def _is_from_host(self) -> bool:
        op = self.tensor.op
        return op.role in _FROM_HOST or (is_kernel(op) and self.kernels.place_of(op) == "host")

    def _device_uses(self) -> Iterator[tuple[Operation, int]]:
        """Yield the uses of the tensor in computations on the device."""
        for op, k in self.uses:
            if op is None or op.role is Role.SERIES_PUSH or _LOOKED_AT.get(op.role) == k:
                continue
            if op.attrs.get("host_backed"):  # rows may stay in the host's memory until they are read
                continue
            if not is_kernel(op) or not (self.kernels.place_of(op) == "host" or host_inputs(op)[k]):
                yield op, k

    def _insert_copy(self, type: str, uses: list[Use] | list[tuple[Operation, int]]) -> None:
        """Insert a copy of the tensor and redirect uses to it."""
        if not uses:
            return
        producer = self.tensor.op
        copy = Builder(producer.region, producer, f"{type}_{self.tensor.index}").emit(type, self.tensor)
        fetches = list(self.program.fetches)
        for op, k in uses:
            if op is None:
                fetches[k] = copy.outputs[0]
            else:
                op.update_input(k, copy.outputs[0])
        self.program.fetches = fetches
