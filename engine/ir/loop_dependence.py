"""Loop-carried dependences: loop variables whose values keep iterations apart.

A counter does not (its next value is an addition away), nor does an unchanging variable, nor a TensorArray
in which every iteration writes different elements. Any other variable whose new value depends on its old value makes
the iterations wait for each other, and so does a predicate reading a variable other than a counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .loops import bare, change_of
from .operation import Operation
from .program import Program
from .region import Region
from .structured import num_results, saved_outputs
from .tensor import Tensor

_WRITES = frozenset({"TensorArrayWrite", "TensorArrayScatter"})


@dataclass(frozen=True, slots=True)
class CarriedDependence:
    """A dependency between iterations.

    Attributes
    ----------
    variable : int
        Number of a loop variable on the dependency path.
    path : tuple of str
        Names of the operations from the variable's old value to its new value, or to the predicate.
    carried : bool
        True if the path leads to the variable's new value, False if to the predicate.
    """

    variable: int
    path: tuple[str, ...]
    carried: bool = True


def note_carried(program: Program) -> Program:
    """Record the path of each loop-carried dependency at its loop variable; the program is changed.

    The parameter of the body gets the note `carried`, the names of the operations on the path, which reports show.
    Blocks of inputs, which advance by the counter alone, keep no iteration apart.
    """
    for op in program.graph.root.walk():
        if op.is_while:
            for chain in find_carried(*op.regions):
                param = op.regions[1].params[chain.variable].op
                if not param.notes.block:
                    param.note(carried=chain.path)
    return program


def find_carried(cond: Region, body: Region) -> list[CarriedDependence]:
    """Return a path for each loop variable depending on itself, then for each other variable read by the predicate."""
    loop = _Loop(cond, body)
    chains = [chain for i in range(len(loop.results)) if (chain := loop.shortest_cycle(i)) is not None]
    found = {chain.variable for chain in chains}
    return chains + [chain for chain in loop.awaited_variables() if chain.variable not in found]


class _Loop:
    def __init__(self, cond: Region, body: Region) -> None:
        self.cond = cond
        self.body = body
        self.params = body.params
        self.results = body.results
        self.place = {tensor: i for i, tensor in enumerate(body.params)}
        # Variables that hold no iteration back: their values follow from the number of the iteration.
        self.free = {i for i in range(len(self.results)) if self._is_counter(i)}
        self.reached = [self._reach_variables(self._new_value_roots(i)) for i in range(len(self.results))]

    def shortest_cycle(self, start: int) -> CarriedDependence | None:
        """Return the shortest path from a variable's old value to its new value, perhaps through other variables."""
        # Breadth first, so the first path found is the shortest.
        paths: dict[int, tuple[str, ...]] = {start: ()}
        work = [start]
        for i in work:  # grows while it is read
            for j, path in self.reached[i].items():
                if j == start:
                    return CarriedDependence(start, path + paths[i])
                if j not in paths:
                    paths[j] = path + paths[i]
                    work.append(j)
        return None

    def awaited_variables(self) -> Iterator[CarriedDependence]:
        """Yield the variables reached from the predicate, except counters and unchanging variables."""
        for i, path in _find_reached_params(self.cond.results, self.cond).items():
            if i not in self.free:
                yield CarriedDependence(i, path, carried=False)

    def _reach_variables(self, roots: Sequence[Tensor]) -> dict[int, tuple[str, ...]]:
        return _find_reached_params(roots, self.body)

    def _new_value_roots(self, i: int) -> list[Tensor]:
        """Return the tensors through which the new value of a variable may depend on old ones."""
        if i in self.free:
            return []
        return self._elements_written(i) or [self.results[i]]

    def _is_unchanged(self, i: int) -> bool:
        change = change_of(self.body, i, casts=True)
        return change is not None and change.amount is None

    def _is_counter(self, i: int) -> bool:
        """True if the new value is the old value, plus or minus an amount equal in all iterations."""
        change = change_of(self.body, i, casts=True)
        return change is not None and (change.amount is None or self._is_constant(change.amount))

    def _elements_written(self, i: int) -> list[Tensor]:
        """Return the indices and values written to a TensorArray; none if iterations may write the same elements."""
        roots: list[Tensor] = []
        tensor = bare(self.results[i], casts=True)
        # Down the chain of writes from the new flow to the old: the array is carried harmlessly only if the
        # chain ends in its own parameter and each index differs in all iterations.
        while tensor.op.type in _WRITES:
            _, index, value, flow = tensor.op.inputs
            if not self._is_distinct(index):
                return []
            roots += [index, value]
            tensor = bare(flow, casts=True)
        return roots if tensor is self.params[i] else []

    def _is_distinct(self, index: Tensor) -> bool:
        """True if a value differs in all iterations: a counter, plus or times an unchanging amount."""
        tensor = bare(index, casts=True)
        if tensor in self.place:
            return self.place[tensor] in self.free and not self._is_unchanged(self.place[tensor])
        if tensor.op.type not in ("Add", "Sub", "Mul"):
            return False
        # Exactly one operand may vary: the sum of two varying ones may repeat, as may a product with 0.
        moving = [t for t in tensor.op.inputs if not self._is_constant(t)]
        factors = [t for t in tensor.op.inputs if self._is_constant(t)]
        scaled = tensor.op.type != "Mul" or all(_is_nonzero(t) for t in factors)
        return len(moving) == 1 and self._is_distinct(moving[0]) and scaled

    def _is_constant(self, tensor: Tensor) -> bool:
        return not self._reach_variables([tensor])


def _find_reached_params(roots: Sequence[Tensor], region: Region) -> dict[int, tuple[str, ...]]:
    """Return the parameters of a region reached from tensors, each with the names of the operations on the path."""
    found: dict[int, tuple[str, ...]] = {}
    towards: dict[Tensor, Tensor | None] = dict.fromkeys(roots)  # the next tensor on the path to a root
    work = list(towards)
    for tensor in work:  # grows while it is read
        if tensor.region is region and tensor.op.is_param:
            found.setdefault(region.place_of(tensor), tuple(_names_on_path(towards[tensor], towards)))
            continue
        for source in _value_sources(tensor):
            if source not in towards and region.encloses(source.region):
                towards[source] = tensor
                work.append(source)
    return found


def _names_on_path(tensor: Tensor | None, towards: dict[Tensor, Tensor | None]) -> Iterator[str]:
    while tensor is not None:
        yield tensor.op.name
        tensor = towards[tensor]


def _value_sources(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the tensors whose values a tensor depends on, inside of structured operations too."""
    op = tensor.op
    if op.is_param:
        yield from _param_sources(tensor)
    elif op.regions:
        yield from _result_sources(op, tensor.index)
    else:
        yield from op.inputs
    for control in op.control_inputs:
        # An operation without outputs is represented by its inputs.
        yield from control.outputs or control.inputs


def _param_sources(tensor: Tensor) -> Iterator[Tensor]:
    owner = tensor.region.owner
    if owner is not None and owner.is_while:
        i = tensor.region.place_of(tensor)
        # The value is the initial value, or the result of the previous iteration.
        yield from (owner.inputs[i], owner.regions[1].results[i])


def _result_sources(op: Operation, index: int) -> Iterator[Tensor]:
    """Yield the sources of an output of a Cond or While: results of its regions, saved values, inputs."""
    if index >= num_results(op):
        value = saved_outputs(op)[index - num_results(op)].value
        yield from [] if value is None else [value]
        yield from op.regions[0].results if op.is_while else op.inputs
    elif op.is_while:
        # The predicate decides how many iterations contribute to a result.
        yield from (op.inputs[index], op.regions[1].results[index], *op.regions[0].results)
    else:
        yield from (*op.inputs, *(region.results[index] for region in op.regions))


def _is_nonzero(tensor: Tensor) -> bool:
    op = bare(tensor, casts=True).op
    return op.is_constant and bool(np.all(op.attrs["value"] != 0))
