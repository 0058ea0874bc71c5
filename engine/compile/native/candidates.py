"""Candidates for clusters: operations of a region eligible by themselves, and reasons against others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...base.settings import Switches
from ...deadness.regions import Liveness
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.structured import saved_outputs
from ...ir.tensor import Tensor
from ...ir.traits import Role
from ...kernels.native.program import MOST_BYTES, Computation
from .choice import is_choice
from .eligible import NotNative, check_dtype, check_handles, computation_of, may_be_dead
from .rules import ON_CPU, Rules

# Operations that are no candidates, without a recorded reason: those that compute nothing, and loops, which have native
# programs of their own.
_NOT_CONSIDERED = frozenset({Role.CONST, Role.PARAM, Role.PLACEHOLDER, Role.FEED, Role.PARTIAL_FEED, Role.WHILE})
_COMPUTING = frozenset({Role.KERNEL, Role.COND})  # roles for which a reason is recorded
_FRAME_PRIMITIVES = frozenset({Role.ENTER, Role.EXIT, Role.NEXT_ITERATION})


class Candidates:
    """The candidates for clusters.

    Parameters
    ----------
    switches : Switches
    liveness : Liveness
        Liveness of the program's operations.
    pinned : set of Operation
        Targets, and operations named in control inputs.
    rules : Rules, optional

    Attributes
    ----------
    found : set of Operation
    reasons : dict of Operation to str
        Reasons why other operations are not candidates. Operations that compute nothing have none; the reasons of loops
        are recorded elsewhere.
    computations : dict of Operation to Computation
        Of candidates, and of operations in their regions.
    """

    def __init__(self, switches: Switches, liveness: Liveness, pinned: set[Operation], rules: Rules = ON_CPU) -> None:
        self.found: set[Operation] = set()
        self.reasons: dict[Operation, str] = {}
        self.computations: dict[Operation, Computation] = {}
        self._switches = switches
        self._liveness = liveness
        self._pinned = pinned
        self._rules = rules

    def note(self, region: Region) -> None:
        """Find the candidates among the operations of a region, and the reasons against the others."""
        has_primitive_loop = any(op.role in _FRAME_PRIMITIVES for op in region.operations)
        for op in region.operations:
            # The last two are native loops: the program itself, and the Cond between program and loop.
            if op.role in _NOT_CONSIDERED or "program" in op.attrs or is_choice(op):
                continue
            try:
                if has_primitive_loop:
                    raise NotNative(op, "is beside a loop made by hand")
                self._refuse_ineligible(op)
            except NotNative as refusal:
                if op.role in _COMPUTING:
                    # The refused operation may be in a branch of `op`.
                    self.drop(op, refusal.reason if refusal.op is op else f"holds {refusal}")
            else:
                self.found.add(op)

    def drop(self, op: Operation, reason: str) -> None:
        """Record why an operation is no candidate."""
        self.found.discard(op)
        self.reasons[op] = reason

    def reads(self, op: Operation) -> Iterator[Operation]:
        """Yield the producers of inputs whose values, not only shapes, decide the steps of a candidate."""
        computation = self.computations.get(op)
        yield from (op.inputs[k].op for k in (() if computation is None else computation.reads))

    def _refuse_ineligible(self, op: Operation) -> None:
        """Raise NotNative for an operation ineligible for clusters; record the Computation of an eligible one."""
        if op.control_inputs or op in self._pinned:
            raise NotNative(op, "is in an order with others, whatever its values")
        if any(may_be_dead(t) for t in op.inputs):
            raise NotNative(op, "uses what may not be there")
        if op.is_cond:
            self._check_branches(op)
        elif op.role is Role.IDENTITY:
            _check_values(op)
        else:
            self.computations[op] = computation_of(op, self._switches, self._rules)
            _check_values(op)

    def _check_branches(self, op: Operation) -> None:
        """Raise NotNative for a Cond with effects, and for one that may be alive while a captured value is dead."""
        if saved_outputs(op):
            raise NotNative(op, "saves values for a gradient")
        _check_values(op)
        for region in op.regions:
            for inner in region.operations:
                if not inner.is_constant:
                    self._refuse_ineligible(inner)
                # `apart` has the operations that may be dead even though their region runs.
                if inner in self._liveness.apart:
                    raise NotNative(inner, "may be dead though its branch runs")
            if not all(self._liveness.is_alive_in(region, t) for t in region.results):
                raise NotNative(op, "gives what may be dead")
        # A program waits for all of its inputs; a Cond may be alive without a value used in the other branch only.
        if not all(self._liveness.is_alive_with(t, op) and not may_be_dead(t) for t in captured_tensors(op)):
            raise NotNative(op, "uses what may be dead though it runs itself")


def captured_tensors(op: Operation) -> Iterator[Tensor]:
    """Yield the tensors from outside a Cond that its branches use, as inputs or results, at any depth."""
    for region in op.regions:
        for inner in region.walk():
            used: Iterable[Tensor] = [*inner.inputs, *(t for r in inner.regions for t in r.results)]
            yield from (t for t in used if not t.region.is_inside(op))
        yield from (t for t in region.results if not region.encloses(t.region))


def _check_values(op: Operation) -> None:
    """Raise NotNative for an operation with handles, unsupported dtypes, or values known to be too large."""
    check_handles(op)
    for tensor in (*op.inputs, *op.outputs):
        check_dtype(tensor.dtype, op)
        if _known_bytes(tensor) > MOST_BYTES:
            raise NotNative(op, f"has values of more than {MOST_BYTES >> 10} KiB")


def _known_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor; 0 if its shape is not fully known, or its dtype has no NumPy dtype."""
    count = tensor.shape.num_elements
    return 0 if count is None or tensor.dtype.numpy is None else count * tensor.dtype.numpy.itemsize
