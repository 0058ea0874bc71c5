"""Forward-mode differentiation: a walk that builds the tangent of each operation after the operation.

A While gains a loop variable for the tangent of each active variable, a Cond a result for the tangent of each active
result, and a saved value a saved tangent. So the values and their tangents are computed by one loop, and no iteration
is kept for later. See docs/design/0060-forward-mode.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.dtypes import resource
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.gradient_overrides import OVERRIDE, has_gradient
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rules.forward_mode import DependsOn, Tangents
from ..ir.rules.shapes import StoresElement
from ..ir.structured import (
    add_result,
    add_variable,
    is_structured,
    num_results,
    save_maybe,
    save_series,
    saved_outputs,
)
from ..ir.tensor import Tensor
from ..ir.topological import topological_order
from ..ops.support.common import with_static_shape
from .activity import active_tensors
from .transposing import transpose_gradient
from .zeros import zeros_for


def push_forward(entered: dict[Tensor, Tensor], ys: Sequence[Tensor], start: int) -> dict[Tensor, Tensor]:
    """Build the tangents of the operations from number `start` on in the current region, as far as `ys` need them.

    Parameters
    ----------
    entered : dict from Tensor to Tensor
        The tensors to differentiate by, and their tangents.
    ys : sequence of Tensor
    start : int

    Returns
    -------
    dict from Tensor to Tensor
        The tangents, without those that are zero.
    """
    home = scopes.current_region()
    walk = _Forward(home, _find_active(entered, ys, home.operations[start:], home))
    walk.tangents.update(entered)
    walk.visit_region(home, start)
    return walk.tangents


def _find_active(
    xs: dict[Tensor, Tensor], ys: Sequence[Tensor], operations: Sequence[Operation], home: Region
) -> set[Tensor]:
    """Return the tensors on the paths from `xs` to `ys`, with the flows of all arrays that store such tensors."""
    roots, count = dict.fromkeys(xs), -1
    while len(roots) > count:
        count = len(roots)
        active = active_tensors(roots, set(), home, operations=operations)
        # All writes to an array have to be repeated, those of inactive values too: so its first flow counts as active.
        writes = {t.op for t in active if t.op.definition.has(StoresElement)}
        made = [op.inputs[0].op for op in writes]
        roots.update(dict.fromkeys(op.outputs[1] for op in made if op.definition.has(Tangents) and _is_in(op, home)))
    return _find_needed(ys, active)


def _is_in(op: Operation, home: Region) -> bool:
    return home.encloses(op.region)


def _find_needed(ys: Sequence[Tensor], active: set[Tensor]) -> set[Tensor]:
    """Return the active tensors that `ys` are computed from."""
    needed: set[Tensor] = set()
    work = [y for y in ys if y in active]
    while work:
        tensor = work.pop()
        if tensor not in needed:
            needed.add(tensor)
            work += [t for t in _sources_of(tensor) if t in active]
    return needed


def _sources_of(tensor: Tensor) -> Sequence[Tensor]:
    """Return the tensors from which a tensor has its value."""
    op, owner = tensor.op, tensor.region.owner
    if op.is_param:
        return [owner.outputs[tensor.region.place_of(tensor)]] if owner is not None else []
    if not is_structured(op):
        depends = op.rule(DependsOn)
        return op.inputs if depends is None else depends.inputs(op)
    first = num_results(op)
    if tensor.index >= first:
        value = saved_outputs(op)[tensor.index - first].value
        return [] if value is None else [value]
    if op.is_while:
        body = op.regions[1]
        return [op.inputs[tensor.index], body.results[tensor.index], body.params[tensor.index]]
    return [region.results[tensor.index] for region in op.regions]


class _Forward:
    """State and walk of a single call of ``jvp()``.

    Parameters
    ----------
    home : Region
        The region of the call.
    active : set of Tensor
        Tensors that may have a tangent.

    Attributes
    ----------
    tangents : dict from Tensor to Tensor
        The tangents found; of the handle of an array, the handle of the array of the elements' tangents.
    """

    def __init__(self, home: Region, active: set[Tensor]) -> None:
        self.home = home
        self.active = active
        self.tangents: dict[Tensor, Tensor] = {}
        self.devices = scopes.current().device

    def visit_region(self, region: Region, start: int = 0) -> None:
        """Visit the operations of a region in order, and append the tangents of each after the operation."""
        operations = topological_order(region.operations[start:])
        # Taken out and put back one by one, so that the list stays in the order of data.
        del region.operations[start:]
        with scopes.inside(region):
            for op in operations:
                place = len(region.operations)
                region.operations.append(op)
                if any(t in self.active for t in op.outputs):
                    self._visit_operation(op)
                if is_structured(op):
                    # What was made here starts the tangents of its variables.
                    region.operations.append(region.operations.pop(place))

    def _visit_operation(self, op: Operation) -> None:
        if op.is_while:
            self._visit_loop(op)
        elif op.is_cond:
            self._visit_branches(op)
        elif not op.is_param:
            self._visit_plain(op)

    def _visit_plain(self, op: Operation) -> None:
        """Build the tangents of the outputs of an operation without regions."""
        given = [self.tangents.get(t) for t in op.inputs]
        makes_array = op.outputs[0].dtype is resource
        if not makes_array and all(t is None for t in given):
            return
        with scopes.within(device=(op.device, *self.devices)):
            given = [self._find_array(t) if t.dtype is resource else g for t, g in zip(op.inputs, given, strict=True)]
            found = self._build_tangents(op, given)
        for output, tangent in zip(op.outputs, found, strict=False):
            if tangent is not None and (output in self.active or output.dtype is resource):
                self.tangents[output] = tangent if tangent.dtype is resource else with_static_shape(tangent, output)

    def _build_tangents(self, op: Operation, given: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Return the tangents of the outputs, by the rule of the type or by transposing its gradient."""
        # A replaced gradient replaces the rule too.
        rule = None if OVERRIDE in op.attrs else op.rule(Tangents)
        found = None if rule is None else rule.rule(op, given)
        if found is not None:
            return found
        return transpose_gradient(op, self._drop_ignored(op, given)) if has_gradient(op) else []

    def _drop_ignored(self, op: Operation, given: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        depends = op.rule(DependsOn)
        if depends is None:
            return given
        inputs = set(depends.inputs(op))
        return [g if t in inputs else None for t, g in zip(op.inputs, given, strict=True)]

    def _find_array(self, handle: Tensor) -> Tensor:
        """Return the handle of the tangents of an array: made with the array, or now, where unwritten ones are zero."""
        if handle not in self.tangents:
            region = handle.region if _is_in(handle.op, self.home) else self.home
            source = handle.op.attrs.get("source")
            # A named array is shared by all operations of the name, and so must be its tangents.
            named = None if source is None else f"{source}/tangent/{id(self)}"
            with scopes.inside(region):
                made, _ = apply("TensorArrayGrad", handle, constant(0.0), source=named)
            self.tangents[handle] = made
        return self.tangents[handle]

    def _tangent_or_zeros(self, tensor: Tensor) -> Tensor:
        found = self.tangents.get(tensor)
        return zeros_for(tensor) if found is None else found

    def _visit_loop(self, op: Operation) -> None:
        """Give a While a variable for the tangent of each active variable, and its body their next values."""
        body, outputs = op.regions[1], list(op.outputs)
        first = num_results(op)
        active = [i for i in range(first) if body.params[i] in self.active]
        for i in active:
            param = body.params[i]
            init = self._tangent_or_zeros(op.inputs[i])
            self.tangents[param] = add_variable(op, init, param.shape, f"{param.op.name}/tangent")
            for region in op.regions:
                region.params[-1].op.source = op.source
                region.params[-1].op.note(label=f"tangent of {param.op.notes.label or param.op.name}")
        # The tangents' outputs lie between those of the variables and the saved values.
        moved = op.outputs[first : first + len(active)]
        self.visit_region(body)
        with scopes.inside(body):
            body.results += [self._tangent_or_zeros(body.results[i]) for i in active]
        self.tangents.update(zip([outputs[i] for i in active], moved, strict=True))
        self._save_tangents(op, outputs[first:], lambda extra, value: save_series(op, value, extra.index))

    def _visit_branches(self, op: Operation) -> None:
        """Give a Cond a result for the tangent of each active result."""
        outputs, first = list(op.outputs), num_results(op)
        for region in op.regions:
            self.visit_region(region)
        for i in range(first):
            found = [region.results[i] for region in op.regions]
            if outputs[i] in self.active and any(t in self.tangents for t in found):
                values = []
                for region, tensor in zip(op.regions, found, strict=True):
                    with scopes.inside(region):
                        values.append(with_static_shape(self._tangent_or_zeros(tensor), tensor))
                self.tangents[outputs[i]] = add_result(op, values)
        self._save_tangents(op, outputs[first:], lambda extra, value: save_maybe(op, extra.branch, value))

    def _save_tangents(self, op: Operation, outputs: Sequence[Tensor], save: Callable[..., Tensor]) -> None:
        """Save the tangent of each active saved value, in the same slots."""
        for extra, output in zip(list(saved_outputs(op)), outputs, strict=True):
            if output in self.active and extra.value in self.tangents:
                self.tangents[output] = save(extra, self.tangents[extra.value])
