"""Translation of a loop, or of a cluster of operations, to a native program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.extras import is_installed
from ...base.settings import Switches
from ...ir.loops import change_of
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.rules.native import RunsAs
from ...ir.structured import SavedOutput, num_results, saved_outputs
from ...ir.tensor import Tensor
from ...ir.traits import Role
from ...kernels.native.program import Code, Computation, Instruction, NativeProgram
from .eligible import HANDLES, NotNative, check_dtype, computation_of, may_be_dead, refuse_swapping
from .last_reads import mark_last_reads
from .rules import ON_CPU, Rules
from .sizes import find_sizes
from .tensor_arrays import ACCESSES, translate_access

_OUTSIDE = -2  # in place of a loop, for registers that are written only once per run


def translate(op: Operation, switches: Switches, rules: Rules = ON_CPU) -> tuple[NativeProgram, list[Tensor]]:
    """Return the program of a loop, and its inputs: initial values, then tensors captured from outside.

    Raises
    ------
    NotNative
        If an operation in the loop cannot be part of a program.
    """
    return Translator([op], switches, rules=rules).whole_loop()


def translate_cluster(
    operations: Sequence[Operation],
    results: Sequence[Tensor],
    switches: Switches,
    computations: Mapping[Operation, Computation],
) -> tuple[NativeProgram, list[Tensor]]:
    """Return the program of operations of a region, in order, which returns `results`; and the program's inputs.

    `computations` has the Computations of the operations, and of operations in their regions.

    Raises
    ------
    NotNative
        If an operation cannot be part of a program.
    """
    return Translator(operations, switches, computations).whole_cluster(results)


class Translator:
    """Translator of a loop or cluster.

    Attributes
    ----------
    loops : list of int
        For each register, the first instruction of the innermost loop around its writes.
    around : list of int
        For each instruction, the first instruction of the enclosing loop.
    saved : dict of Tensor to list of int
        The series to which a tensor is written.
    slots : dict of int to int
        By series, the register with the number of the slot to write.
    flat : dict of Operation to int
        By inner loop, the register with the count of its iterations over all runs.
    parts : dict of Tensor to (int, int)
        For a series saved in another series, the outer series and the slot.
    placed : list of (int, Tensor, Tensor)
        Saves with an index: the series, the value and the slot.
    places : dict of int to Tensor
        By series of series, the slot of a save with an index.
    results : dict of Tensor to int
        The registers of the outermost loop's saved outputs.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        switches: Switches,
        computations: Mapping[Operation, Computation] = MappingProxyType({}),
        rules: Rules = ON_CPU,
    ) -> None:
        self.rules = rules
        self.computations = computations  # by operation, where known in advance
        self.operations = operations
        self.op = operations[-1]  # the loop, or the last of a cluster
        self.made = {t for op in operations for t in op.outputs}
        self.inner = {region for op in operations for region in op.regions}
        self.switches = switches
        self.registers: list[tuple[str, np.dtype[Any] | None]] = []
        self.homes: set[int] = set()  # registers that are the target of a MOVE
        self.loops: list[int] = []
        self.loop = -1
        self.instructions: list[Instruction] = []
        self.around: list[int] = []
        self.constants: dict[int, Any] = {}
        self.captures: list[Tensor] = []
        self.of: dict[Tensor, int] = {}
        self.saved: dict[Tensor, list[int]] = {}
        self.slots: dict[int, int] = {}
        self.flat: dict[Operation, int] = {}
        self.parts: dict[Tensor, tuple[int, int]] = {}
        self.placed: list[tuple[int, Tensor, Tensor]] = []
        self.places: dict[int, Tensor] = {}
        self.results: dict[Tensor, int] = {}
        self.count = -1  # register that counts the iterations of the innermost loop
        self.special = {
            Code.ADD_PRODUCT: self.add_product,
            Code.READ: self.read,
            Code.READ_NESTED: self.read_series,
        }

    def whole_loop(self) -> tuple[NativeProgram, list[Tensor]]:
        """Translate the loop."""
        refuse_swapping(self.op, self.rules)
        for tensor in dict.fromkeys(self.op.inputs):
            self.capture(tensor)
        self.while_loop(self.op)
        return self.program(self.op.name, self.op.outputs, self.trips())

    def whole_cluster(self, results: Sequence[Tensor]) -> tuple[NativeProgram, list[Tensor]]:
        """Translate the operations of a cluster."""
        for op in self.operations:
            self.operation(op)
        return self.program(f"{self.op.name}/cluster", results, is_cluster=True)

    def program(
        self,
        name: str,
        results: Sequence[Tensor],
        trips: tuple[int, int, int] | None = None,
        is_cluster: bool = False,
    ) -> tuple[NativeProgram, list[Tensor]]:
        """Return the finished program and its input tensors."""
        outputs = tuple(self.of[t] for t in results)
        # Outputs are returned, and constants serve the next run: neither may be overwritten.
        mark_last_reads(self.instructions, self.around, self.loops, {*outputs, *self.constants}, self.homes)
        program = NativeProgram(
            name,
            tuple(self.registers),
            tuple(self.of[t] for t in self.captures),
            outputs,
            self.constants,
            tuple(self.instructions),
            trips,
            self.switches.reuse,
            self.switches.llvm_seconds if self.switches.llvm and _has_llvm() else None,
            is_cluster,
            not self.rules.is_limited,
            () if is_cluster else find_sizes(self.instructions, self.registers),
        )
        return program, self.captures

    def trips(self) -> tuple[int, int, int] | None:
        """Return the registers of start and limit, and the step, of the loop's counter (see `NativeProgram.trips`)."""
        predicate, body = self.op.regions
        test = predicate.results[0].op
        if test.region is not predicate or len(test.inputs) != 2:
            return None
        # The counter may stand on either side of the comparison.
        for counter, limit in (test.inputs, test.inputs[::-1]):
            if (
                counter.op.is_param
                and counter.region is predicate
                and limit in self.of
                and limit.region is not predicate
            ):
                place = predicate.place_of(counter)
                change = change_of(body, place)
                if change is not None and change.constant:
                    return self.of[self.op.inputs[place]], self.of[limit], change.constant
        return None

    def new(self, dtype: DType, name: str = "", op: Operation | None = None) -> int:
        """Return a new register, written in the current loop."""
        numpy = dtype.numpy
        check_dtype(dtype, op or self.op, self.rules)
        self.registers.append((name, None if numpy is None else np.dtype(numpy)))
        self.loops.append(self.loop)
        return len(self.registers) - 1

    def capture(self, tensor: Tensor) -> int:
        """Return the register of a tensor from outside."""
        if self.is_inside(tensor) or may_be_dead(tensor):
            raise NotNative(tensor.op, "gives what may not be there")
        # A constant with control inputs tells when they are done, so the program waits for it.
        if tensor.op.is_constant and not tensor.op.control_inputs:
            return self.constant(tensor)
        self.captures.append(tensor)
        self.of[tensor] = register = self.new(tensor.dtype, tensor.op.name)
        self.loops[register] = _OUTSIDE
        return register

    def is_inside(self, tensor: Tensor) -> bool:
        """Return True if a tensor is computed in the loop, or by the cluster."""
        return tensor in self.made or not self.inner.isdisjoint(tensor.region.ancestors())

    def constant(self, tensor: Tensor) -> int:
        """Return the register of a constant."""
        self.of[tensor] = register = self.new(tensor.dtype)
        self.loops[register] = _OUTSIDE
        self.constants[register] = np.asarray(tensor.op.attrs["value"])
        return register

    def value(self, tensor: Tensor) -> int:
        """Return the register of a tensor."""
        return self.of[tensor] if tensor in self.of else self.capture(tensor)

    def values(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        return tuple(self.value(t) for t in tensors)

    def add(self, code: Code, inputs: Sequence[int] = (), outputs: Sequence[int] = (), **more: Any) -> Instruction:
        """Append an instruction."""
        self.instructions.append(Instruction(code, tuple(inputs), tuple(outputs), **more))
        self.around.append(self.loop)
        if code is Code.MOVE:
            self.homes.update(outputs)
        return self.instructions[-1]

    def region(self, region: Region) -> None:
        """Translate the operations of a region."""
        for op in region.operations:
            if not op.is_param:
                self.operation(op)

    def operation(self, op: Operation) -> None:
        """Translate an operation."""
        if op.is_while:
            self.while_loop(op)
        elif op.is_cond:
            self.cond(op)
        elif op.is_constant:
            self.constant(op.outputs[0])
            self.bind(op.outputs, [self.of[op.outputs[0]]])
        elif op.role in (Role.IDENTITY, Role.MAYBE_GET):
            self.bind(op.outputs, [self.value(op.inputs[0])])
        elif (instruction := op.rule(RunsAs)) is not None:
            special = self.special.get(Code[instruction.code])
            special(op) if special is not None else translate_access(self, op)
        else:
            self.compute(op)

    def compute(self, op: Operation) -> None:
        """Translate a pure operation."""
        computation = self.computations.get(op) or computation_of(op, self.switches, self.rules, self.rules.calls)
        inputs = self.values(op.inputs)
        outputs = [self.new(t.dtype, t.op.name if len(op.outputs) == 1 else t.name, op) for t in op.outputs]
        self.add(Code.COMPUTE, inputs, outputs, computation=computation)
        self.bind(op.outputs, outputs)

    def bind(self, tensors: Sequence[Tensor], registers: Sequence[int]) -> None:
        """Record the registers of tensors, and append the PUSHes of tensors to save."""
        for tensor, register in zip(tensors, registers, strict=True):
            self.of[tensor] = register
            for series in self.saved.get(tensor, ()):
                self.push(register, series, tensor)

    def push(self, register: int, series: int, tensor: Tensor) -> None:
        """Append the PUSH of a tensor to save; NotNative for a TensorArray made by the program."""
        if tensor.dtype in HANDLES and tensor.op.rule(RunsAs) is not None:
            raise NotNative(tensor.op, "is saved for a gradient")
        self.add(Code.PUSH, [register, self.slots[series]], [series])

    def add_product(self, op: Operation) -> None:
        """Translate the addition of a product to a running sum, whose register stays the same."""
        inputs = self.values(op.inputs)
        self.add(Code.ADD_PRODUCT, inputs)
        self.bind(op.outputs, inputs[:1])

    def read(self, op: Operation) -> None:
        """Translate a read of a value saved by another loop."""
        series = op.inputs[0]
        if op.outputs[0].dtype in HANDLES:
            self.read_series(op)
            return
        if self.is_inside(series) and series not in self.parts:
            raise NotNative(op, "reads what is saved in the loop itself")
        is_maybe = bool(op.attrs.get("maybe"))
        # A use beside the read does not know in which branch the value is alive.
        if is_maybe and any(op.region is use.region for use in op.outputs[0]._consumers):
            raise NotNative(op, "gives what may not be there")
        result = self.new(op.outputs[0].dtype, op.name, op)
        more = {"is_maybe": is_maybe, "is_last": bool(op.attrs.get("last"))}
        if series in self.parts:
            inputs = *self.parts[series], *self.values(op.inputs[1:])
            self.add(Code.READ_NESTED, inputs, [result], **more)
        else:
            self.add(Code.READ, self.values(op.inputs), [result], **more)
        self.bind(op.outputs, [result])

    def read_series(self, op: Operation) -> None:
        """Record the slot of a series in another series; later reads take elements of the inner series."""
        series, index = op.inputs
        if self.is_inside(series):
            raise NotNative(op, "reads what is saved in the loop itself")
        self.parts[op.outputs[0]] = self.value(series), self.value(index)

    def while_loop(self, op: Operation) -> None:
        """Translate a loop: each variable has a register, to which iterations move the variable's next value."""
        predicate, body = op.regions
        inits = self.values(op.inputs)
        nests = self.begin_nests(op) if op is not self.op and saved_outputs(op) else []
        # + 1: the MOVE of the initial values comes next, and is not part of the loop.
        start, outside, count_outside = len(self.instructions) + 1, self.loop, self.count
        self.loop = start
        # A handle keeps its register, since instructions cannot move handles.
        variables = [
            init if p.dtype in HANDLES else self.new(p.dtype, p.op.name)
            for p, init in zip(body.params, inits, strict=True)
        ]
        self.count = self.new(dtypes.int64, f"{op.name}/count") if _is_counted(op) else -1
        counts = [] if self.count < 0 else [self.count]
        saved = self.begin_saving(op)
        begins = [*counts, *self.begin_counting(op)]
        self.loop = outside
        # The initial moves come before the loop's first instruction, so they are not written in the loop.
        self.move((*inits, *(self.zero() for _ in begins)), (*variables, *begins))
        self.loop = start
        self.of.update(zip(predicate.params, variables, strict=True))
        self.region(predicate)
        test = self.add(Code.UNLESS, [self.value(predicate.results[0])], name=op.name)
        # Bound after the test, not before: `bind` appends PUSHes of saved variables, only for iterations that run.
        self.bind(body.params, variables)
        self.save_what_is_there(body, saved)
        self.region(body)
        # At the end of the body: only now have all values and indices been computed.
        for series, value, index in self.placed if op is self.op else ():
            self.add(Code.PUSH, self.values([value, index]), [series])
        self.push_nests(nests)
        self.move(self.values(body.results), variables)
        for count in (*counts, *([self.flat[op]] if op in self.flat else [])):
            # Counted after the moves and before the jump: PUSH and GET of this iteration have used the old number.
            self.add(Code.COUNT, (), [count])
        self.add(Code.JUMP, targets=(start,), name=op.name)
        count, self.loop, self.count = self.count, outside, count_outside
        test.targets = (len(self.instructions),)
        self.bind(op.outputs[: num_results(op)], variables)
        if op is self.op:
            self.of.update(self.results)
        else:
            self.end_nests(op, nests, count)

    def begin_counting(self, op: Operation) -> list[int]:
        """Return registers for the iterations of inner loops with saved values, counted over the outermost loop."""
        inner = [loop for region in op.regions for loop in region.walk() if loop.is_while and saved_outputs(loop)]
        if op is self.op:
            self.flat = {loop: self.new(dtypes.int64, f"{loop.name}/all") for loop in inner}
        return list(self.flat.values()) if op is self.op else []

    def begin_nests(self, op: Operation) -> list[tuple[int, int, list[int], SavedOutput]]:
        """Create series for all runs of an inner loop; return each with the run's first slot and its targets."""
        nests = []
        # All runs of the inner loop share a series: the slots of this run begin at the count of the earlier runs.
        first = self.new(dtypes.int64, f"{op.name}/first")
        self.add(Code.MOVE, [self.flat[op]], [first])
        for saved, tensor in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
            if saved.kind == "trip":
                continue
            outer = self.saved.pop(tensor, None)
            if outer is None or saved.value is None:
                raise NotNative(op, "saves values that are not saved by the loop around it")
            if saved.index is not None and not self.rules.generator.has_code(Code.PUSH_AT):
                raise NotNative(op, f"saves values at an index, which has no kernel in {self.rules.generator.language}")
            rows = self.new(tensor.dtype, tensor.name)
            self.slots[rows] = self.flat[op]
            if saved.index is None:
                self.saved.setdefault(saved.value, []).append(rows)
            nests.append((first, rows, outer, saved))
        return nests

    def push_nests(self, nests: list[tuple[int, int, list[int], SavedOutput]]) -> None:
        """Append the PUSHes of an inner loop's saves with an index."""
        for first, rows, _, saved in nests:
            if saved.index is not None and saved.value is not None:
                self.add(Code.PUSH_AT, [*self.values([saved.value, saved.index]), first], [rows])

    def end_nests(self, op: Operation, nests: list[tuple[int, int, list[int], SavedOutput]], count: int) -> None:
        """Append the slots written in a run of an inner loop to outer series, and bind the trip count."""
        for first, rows, outer, saved in nests:
            for series in outer:
                slot = self.value(self.places[series]) if series in self.places else self.slots[series]
                is_placed = saved.index is not None
                self.add(Code.NEST, [first, self.flat[op], slot, rows], [series], is_maybe=is_placed)
        for saved, tensor in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
            if saved.kind == "trip":
                self.bind([tensor], [count])

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Append a MOVE between registers; NotNative if a handle would change its register."""
        pairs = list(zip(sources, targets, strict=True))
        if any(source != target and self.registers[target][1] is None for source, target in pairs):
            raise NotNative(self.op, "hands a handle from one loop variable to another")
        pairs = [pair for pair in pairs if self.registers[pair[1]][1] is not None]
        self.add(Code.MOVE, [source for source, _ in pairs], [target for _, target in pairs])

    def zero(self, dtype: DType = dtypes.int64) -> int:
        """Return the register of a constant 0."""
        register = self.new(dtype)
        self.loops[register] = _OUTSIDE
        self.constants[register] = np.zeros((), dtype.numpy)
        return register

    def begin_saving(self, op: Operation) -> list[Tensor]:
        """Create registers for the saved values and the trip count of a loop; return the tensors to save."""
        tensors = []
        for saved, tensor in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
            if saved.kind == "trip":
                if op is self.op:
                    self.results[tensor] = self.count
                continue
            assert saved.value is not None
            if saved.value.region is not op.regions[1] and saved.value.region.is_inside(op):
                raise NotNative(op, "saves what is not made in its body")
            tensors.append(saved.value)
            if op is not self.op:
                continue
            self.results[tensor] = series = self.new(tensor.dtype, tensor.name)
            self.slots[series] = self.count
            if saved.index is None or saved.value.dtype in HANDLES:
                self.saved.setdefault(saved.value, []).append(series)
                if saved.index is not None:
                    self.places[series] = saved.index
            else:
                self.placed.append((series, saved.value, saved.index))
        return list(dict.fromkeys(tensors))

    def save_what_is_there(self, body: Region, own: Sequence[Tensor]) -> None:
        """Append the PUSHes of saved tensors from outside of the loop."""
        for tensor in own:
            if not body.encloses(tensor.region):
                register = self.value(tensor)
                for series in self.saved.get(tensor, ()):
                    self.push(register, series, tensor)

    def cond(self, op: Operation) -> None:
        """Translate a Cond: each branch moves its results to the same registers."""
        first = num_results(op)
        results = [self.new(t.dtype, t.op.name, op) for t in op.outputs[:first]]
        # Before the branches are translated, which append the PUSHes of values that they compute.
        earlier = self.move_saved(op)
        choice = self.add(Code.SELECT, [self.value(op.inputs[0])])
        ends = []
        targets = []
        for region, pushed in zip(op.regions, earlier, strict=True):
            targets.append(len(self.instructions))
            for value, series in pushed:
                self.push(self.value(value), series, value)
            self.region(region)
            self.move(self.values(region.results), results)
            ends.append(self.add(Code.JUMP))
        choice.targets = tuple(targets)
        for end in ends:
            end.targets = (len(self.instructions),)
        self.bind(op.outputs[:first], results)

    def move_saved(self, op: Operation) -> list[list[tuple[Tensor, int]]]:
        """Move the saving of a branch's saved value into that branch, where the value is computed.

        Returns
        -------
        list of list of (Tensor, int)
            For each branch, the values computed before the Cond, and their series.
        """
        earlier: list[list[tuple[Tensor, int]]] = [[] for _ in op.regions]
        for saved, tensor in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
            if tensor in self.saved and saved.value is not None:
                every = self.saved.pop(tensor)
                if op.regions[saved.branch].encloses(saved.value.region):
                    self.saved.setdefault(saved.value, []).extend(every)
                else:
                    earlier[saved.branch] += [(saved.value, series) for series in every]
        return earlier


@cache
def _has_llvm() -> bool:
    """Return True if LLVM is installed; its import waits for a loop in need of LLVM."""
    return is_installed("llvmlite")


def _is_counted(op: Operation) -> bool:
    """Return True if the loop needs the number of the iteration."""
    inside = (inner.rule(RunsAs) for region in op.regions for inner in region.walk())
    return bool(saved_outputs(op)) or any(each is not None and each.code in ACCESSES for each in inside)
