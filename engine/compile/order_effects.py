"""Order effects: accesses to a variable, calls of Python and prints run in the order of building (rule 140).

So do writes to a gradient array whose order decides the sums (rule 111).

A region counts as a single access at its place: later accesses wait for a Cond by a token from the branch taken, and
for a While by a token carried as a loop variable. Keys without writes in the step need no order.

See docs/design/0021-effects-in-order.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..base import dtypes
from ..base.shapes import SCALAR
from ..ir.accesses import Key, is_write, key_of
from ..ir.builder import Builder
from ..ir.frames import ROOT, assign_frames
from ..ir.operation import Operation
from ..ir.program import Program, copy_program
from ..ir.region import Region
from ..ir.structured import add_result, add_variable, num_results
from ..ir.substitute import substitute
from ..ir.tensor import Tensor
from ..ir.traits import SWITCHES, Role
from .ordered_sums import keys_of_sums


def order_effects(program: Program) -> Program:
    """Return the program with control inputs, tokens and loop variables to keep the order; `program` may change."""
    return copy_program(program) if add_order(program) else program


def add_order(program: Program) -> bool:
    """Change a program as :func:`order_effects` does; return True if a copy is needed.

    A copy puts each operation after its new control inputs, and drops the merged reads.
    """
    accesses = _Accesses(program.graph.root)
    equal = _equal_reads(program, accesses)
    substitute(program, equal)
    order = _Order(accesses)
    if accesses.written:
        order.order_region(program.graph.root, {})
    return bool(equal or order.made)


class _Accesses:
    """Reads and writes by the operations of a program, including operations in their regions.

    Attributes
    ----------
    of : dict of Operation to dict
        By key, the first access: the operation itself, or an operation in its regions.
    writes : dict of Operation to set
        The keys written by the operation.
    written : set
        All keys written in the program.
    sums : dict of Operation to Key
        The writes to gradient arrays that need an order.
    """

    def __init__(self, root: Region) -> None:
        self.of: dict[Operation, dict[Key, Operation]] = {}
        self.writes: dict[Operation, set[Key]] = {}
        self.written: set[Key] = set()
        self.sums = keys_of_sums(root)
        self._note_region(root)

    def _note_region(self, region: Region) -> None:
        frames = _hand_made_frames(region)
        for op in region.operations:
            for inner in op.regions:
                self._note_region(inner)
            if frames.get(op, ROOT) == ROOT:
                self._note_access(op)

    def _note_access(self, op: Operation) -> None:
        """Record the accesses of an operation and of operations in its regions."""
        accesses: dict[Key, Operation] = {}
        writes: set[Key] = set()
        key = self.sums.get(op) or key_of(op)
        if key is not None:
            accesses[key] = op
            if is_write(op):
                writes.add(key)
        # The regions have been noted before their owner: `_note_region` goes from the inside out.
        for inner in [inner for region in op.regions for inner in region.operations]:
            for key, access in self.of.get(inner, {}).items():
                accesses.setdefault(key, access)
            writes |= self.writes.get(inner, set())
        if accesses:
            self.of[op], self.writes[op] = accesses, writes
            self.written |= writes


def _hand_made_frames(region: Region) -> dict[Operation, str]:
    """Return the frames of operations in hand-made loops, inside of which there is no order (rule 146)."""
    by_hand = any(op.role is Role.ENTER for op in region.operations)
    return assign_frames(region.operations).of if by_hand else {}


def _equal_reads(program: Program, accesses: _Accesses) -> dict[Tensor, Tensor]:
    """Return repeated reads with the value of the first: reads of a region between which nothing writes the key.

    A fed variable has the fed value until its first write.
    """
    keys = [(t, t.op.attrs["key"]) for t in program.feeds if "key" in t.op.attrs]
    fed = {key: t for t, key in keys if t.op.name == key[1]}
    equal: dict[Tensor, Tensor] = {}
    for region in [program.graph.root, *(r for op in program.graph.root.walk() for r in op.regions)]:
        known: dict[Key, dict[str, Tensor]] = {}  # by the type of the operation that reads
        # Not in regions: the root may write the variable before them.
        if region.parent is None:
            known = {key: {"ReadVariable": value} for key, value in fed.items()}
        for op in region.operations:
            for written in accesses.writes.get(op, ()):
                known.pop(written, None)
            read = key_of(op)
            # A read with a control input of its own is not moved to an earlier one.
            if read is not None and not is_write(op) and not op.control_inputs:
                first = known.setdefault(read, {}).setdefault(op.type, op.outputs[0])
                if first is not op.outputs[0]:
                    equal[op.outputs[0]] = first
    return equal


@dataclass
class _State:
    """The latest accesses to a key.

    Attributes
    ----------
    writes : list of Operation
        Operations before a read: the last write, or its token.
    reads : list of Operation
        Reads since then, which a write waits for as well.
    """

    writes: list[Operation] = field(default_factory=list)
    reads: list[Operation] = field(default_factory=list)

    def before(self, write: bool) -> list[Operation]:
        return [*self.writes, *self.reads] if write else self.writes


States = dict[Key, _State]


class _Order:
    """Walks regions in order and adds control inputs.

    Attributes
    ----------
    by_hand : set of Region
        Regions in which a hand-made Switch may make operations dead.
    made : bool
        True if operations were added, which stand at the ends of regions.
    """

    def __init__(self, accesses: _Accesses) -> None:
        self.accesses = accesses
        self.made = False
        regions = {op.region for op in accesses.of}
        self.by_hand = {region for region in regions if any(op.role in SWITCHES for op in region.operations)}

    def order_region(self, region: Region, states: States) -> None:
        """Order the accesses of a region; `states` holds the states at its beginning, and at its end afterwards."""
        for op in list(region.operations):
            keys = {k: access for k, access in self.accesses.of.get(op, {}).items() if k in self.accesses.written}
            if op.is_while and keys:
                self._order_loop(op, keys, states)
            elif op.is_cond and keys:
                self._order_cond(op, keys, states)
            else:
                for key in keys:
                    _add_control_inputs(op, states.setdefault(key, _State()).before(is_write(op)))
                    self._note_access(op, key, states, is_write(op))

    def _note_access(self, op: Operation, key: Key, states: States, write: bool) -> None:
        """Make later accesses wait for `op`, an access or a token."""
        if op.region in self.by_hand:  # its deadness must not spread to operations that wait for it
            self.made = True
            op = Builder(op.region, op, "order").emit("ControlTrigger", controls=[op])
        if write:
            states[key] = _State([op])
        else:
            states[key].reads.append(op)

    def _order_cond(self, op: Operation, keys: dict[Key, Operation], states: States) -> None:
        """Order the accesses in the branches of a Cond, and add a token for each key as a result."""
        self.made = True
        ends = []
        for branch in op.regions:
            # Copies: both branches begin with the accesses before the Cond, and neither sees those of the other.
            inside = {key: _State([*s.writes], [*s.reads]) for key, s in states.items()}
            self.order_region(branch, inside)
            ends.append(inside)
        for key, access in keys.items():
            before, write = states.setdefault(key, _State()), key in self.accesses.writes[op]
            tokens = []
            for branch, end in zip(op.regions, ends, strict=True):
                # A token of reads covers the branch's own reads: those before the Cond are still in the state.
                done = end.get(key, before)
                waits = done.before(True) if write else [r for r in done.reads if r not in before.reads]
                tokens.append(_append_token(branch, access, waits))
            self._wait_for_token(access, key, states, add_result(op, tokens), write)

    def _order_loop(self, op: Operation, keys: dict[Key, Operation], states: States) -> None:
        """Order the accesses in a While, and add a loop variable for each key as a token."""
        self.made = True
        cond, body = op.regions
        before = {key: states.setdefault(key, _State()) for key in keys}
        writes = self.accesses.writes[op]
        for key, access in keys.items():
            # Without a write in the loop its accesses wait for earlier writes only, and so does the first token.
            start = _append_token(op.region, access, before[key].before(key in writes))
            add_variable(op, start, SCALAR, f"{access.name}/order")
            for region in op.regions:
                region.params[-1].op.note(label=f"order of {key[1]}")
        tokens = [dict(zip(keys, region.params[-len(keys) :], strict=True)) for region in (cond, body)]
        # A written key begins an iteration with the token of the last one, other keys with the writes before the loop.
        states_in = [
            {key: _State([token.op] if key in writes else [*before[key].writes]) for key, token in of_region.items()}
            for of_region in tokens
        ]
        for region, inside in zip((cond, body), states_in, strict=True):
            self.order_region(region, inside)
        # The tokens are the last variables of the loop, in the order of `keys`.
        first = num_results(op) - len(keys)
        for i, (key, access) in enumerate(keys.items()):
            end, token = states_in[1][key], tokens[1][key]
            # An input besides the control inputs: the last token then stands for the accesses of all iterations.
            after = Builder(body, access, "order").tensor("Identity", token)
            _add_control_inputs(after.op, end.before(True) if key in writes else end.reads)
            body.results.append(after)
            self._wait_for_token(access, key, states, op.outputs[first + i], key in writes)

    def _wait_for_token(self, access: Operation, key: Key, states: States, token: Tensor, write: bool) -> None:
        """Make later accesses wait for a token returned by a Cond or While."""
        self._note_access(Builder(token.region, access, "order").emit("Identity", token), key, states, write)


def _append_token(region: Region, like: Operation, waits: Sequence[Operation]) -> Tensor:
    """Append a constant with `waits` as control inputs."""
    token = Builder(region, like, "order").constant(True, dtypes.bool_)
    _add_control_inputs(token.op, waits)
    return token


def _add_control_inputs(op: Operation, waits: Sequence[Operation]) -> None:
    op.control_inputs = list(dict.fromkeys([*op.control_inputs, *waits]))
