"""Cond and While: operations with regions.

``Cond(pred)`` owns a region for each branch: two (false, true) for a bool predicate, any number for an int32
predicate, the last being the default. ``While(*inits)`` owns a predicate region and a body region with a parameter
for each loop variable. Both gain *saved values* as extra results when gradients need them: a Cond a maybe (live if
that branch ran), a While a series (a slot for each iteration) and its trip count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base import dtypes
from ..base.dtypes import DType
from ..base.shapes import SCALAR, Shape
from . import scopes
from .accesses import close_branches, close_loop
from .apply import apply_scope_attributes, scoped_name
from .builder import Edges
from .operation import Operation
from .region import Region
from .rules.gradients import Reread
from .tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class SavedOutput:
    """A saved value: a 'maybe' of branch `branch`, a 'series' with `value` written at slot `index`, or a 'trip'.

    The slot of a series is the number of the iteration when `index` is None.
    """

    kind: str
    value: Tensor | None = None
    index: Tensor | None = None
    branch: int = -1


def is_structured(op: Operation) -> bool:
    """True if the operation owns regions."""
    return bool(op.regions)


def saved_outputs(op: Operation) -> list[SavedOutput]:
    """Return the saved values, in the order of the outputs after the ordinary results."""
    saved: list[SavedOutput] = op.attrs["saved_outputs"]
    return saved


def num_results(op: Operation) -> int:
    """Return the number of ordinary outputs: loop variables, or results of the branches."""
    return len(op.outputs) - len(saved_outputs(op))


def recomputes(op: Operation) -> bool:
    """True if the gradient of a Cond recomputes the values of its branches instead of saving them."""
    return bool(op.attrs.get("recompute"))


def saved_value(saved: Tensor) -> Tensor | None:
    """Return the tensor held by a maybe, or by each slot of a series; None for a series saved by no loop."""
    op = saved.op
    if is_structured(op) and saved.index >= num_results(op):
        return saved_outputs(op)[saved.index - num_results(op)].value
    held = (
        saved_value(op.inputs[0]) if op.definition.has(Reread) else None
    )  # a series in a slot of another, or in a maybe
    return None if held is None else saved_value(held)


def new_region(role: str, parent: Region | None = None) -> Region:
    """Open a region inside `parent` (by default the current region)."""
    parent = parent or scopes.current_region()
    return Region(parent.graph, parent, role)


def make_cond(
    pred: Tensor, branches: Sequence[Region], shapes: Sequence[Any], *, name: str, source: object = None, **attrs: Any
) -> Operation:
    """Append a Cond whose branches are built; their results agree in number and dtype."""
    # Writes in the branches end the shared reads of the region around them.
    close_branches(scopes.current_region(), branches)
    outputs = [(t.dtype, shape) for t, shape in zip(branches[0].results, shapes, strict=True)]
    edges = Edges([pred], outputs, scopes.current().control_inputs)
    op = append_cond(scopes.current_region(), scoped_name(name), edges, branches, source=source, **attrs)
    apply_scope_attributes(op)
    return op


def append_cond(
    region: Region,
    name: str,
    edges: Edges,
    branches: Sequence[Region],
    *,
    source: Any = None,
    device: str = "",
    **attrs: Any,
) -> Operation:
    """Append a Cond of some branches to a region; its input is the predicate."""
    return Operation(
        region,
        "Cond",
        name,
        edges.inputs,
        edges.outputs,
        regions=branches,
        source=source,
        control_inputs=edges.controls,
        device=device,
        attrs={"saved_outputs": [], **attrs},
    )


def make_while(
    inits: Sequence[Tensor], cond: Region, body: Region, *, name: str, source: Any = None, **attrs: Any
) -> Operation:
    """Append a While whose regions are built; the body's results agree with its parameters."""
    close_loop(scopes.current_region(), cond, body)
    outputs = [(t.dtype, t.shape) for t in body.params]
    op = Operation(
        scopes.current_region(),
        "While",
        scoped_name(name),
        inits,
        outputs,
        regions=(cond, body),
        source=source,
        control_inputs=scopes.current().control_inputs,
        attrs={"saved_outputs": [], **attrs},
    )
    apply_scope_attributes(op)
    return op


def add_variable(op: Operation, init: Tensor, shape: Shape, name: str) -> Tensor:
    """Append a loop variable to a While, and return it in the body, whose results then lack its next value."""
    op.inputs.append(init)
    init._consumers[op] = None
    _insert_result(op, init.dtype, shape)
    return [region.add_param(init.dtype, shape, name) for region in op.regions][1]


def add_result(op: Operation, values: Sequence[Tensor]) -> Tensor:
    """Append a result to a Cond: of `values` of equal dtypes, the value of the branch taken."""
    shape = values[0].shape
    for region, value in zip(op.regions, values, strict=True):
        region.results.append(value)
        shape = shape.relax(value.shape)
    return _insert_result(op, values[0].dtype, shape)


def _insert_result(op: Operation, dtype: DType, shape: Shape) -> Tensor:
    """Insert an output after the ordinary results and before the saved values."""
    # Saved outputs are found by position after the ordinary ones, so these shift by one and get new indices.
    first = num_results(op)
    made = Tensor(op, first, dtype, shape)
    op.outputs.insert(first, made)
    for i, tensor in enumerate(op.outputs):
        tensor.index = i
    return made


def save_maybe(op: Operation, branch: int, value: Tensor) -> Tensor:
    """Return the saved result of a Cond for `value` of a branch, made if there is none yet."""
    return _saved_output(op, SavedOutput("maybe", value, None, branch))


def save_series(op: Operation, value: Tensor, index: Tensor | None = None) -> Tensor:
    """Return the saved result of a While for `value` of every iteration, made if there is none yet."""
    return _saved_output(op, SavedOutput("series", value, index))


def trip_count(op: Operation) -> Tensor:
    """Return the saved result of a While for the number of its iterations, an int64 scalar."""
    return _saved_output(op, SavedOutput("trip"))


def _saved_output(op: Operation, wanted: SavedOutput) -> Tensor:
    """Return the output of a saved value, appended unless an equal value is saved already."""
    first = num_results(op)
    for i, extra in enumerate(saved_outputs(op)):
        same = extra.value is wanted.value and extra.index is wanted.index
        if same and (extra.kind, extra.branch) == (wanted.kind, wanted.branch):
            return op.outputs[first + i]
    saved_outputs(op).append(wanted)
    if wanted.kind == "maybe":
        assert wanted.value is not None
        return op.add_output(wanted.value.dtype, wanted.value.shape)
    return op.add_output(dtypes.series if wanted.kind == "series" else dtypes.int64, SCALAR)
