"""The choice between a native program and the replaced operations, which run if the program does not.

    ok, *results = Native(*inputs)
    results = Cond(ok, results, the replaced operations)

A program without support for a step's arrays, or giving up on the way, has had no visible effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...ir.builder import Builder, Edges
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.structured import append_cond
from ...ir.tensor import Tensor
from ...kernels.native.program import NativeProgram
from ...ops.internal import native as _operation  # noqa: F401  declares Native


def append_choice(
    like: Operation,
    name: str,
    results: Sequence[Tensor],
    program: NativeProgram,
    inputs: Sequence[Tensor],
    controls: Iterable[Operation] = (),
    **attrs: Any,
) -> Operation:
    """Append a Native and a Cond; the branch of the program's results is complete, the other branch still empty.

    Parameters
    ----------
    like : Operation
        Source of the region, device and line of both.
    name : str
        Name of the replaced operations as a whole.
    results : sequence of Tensor
        The results of the replaced operations.
    program : NativeProgram
    inputs : sequence of Tensor
        Inputs of the program.
    controls : iterable of Operation, optional
        Further operations before the program.
    **attrs
        Attributes of the Cond.
    """
    outputs = [(t.dtype, t.shape) for t in results]
    of_native: dict[str, Any] = {
        "program": program.to_attribute(),
        "dtypes": tuple(dtype for dtype, _ in outputs),
        "shapes": tuple(shape for _, shape in outputs),
    }
    native = Builder(like.region, like, "native").emit("Native", *inputs, controls=controls, **of_native)
    branches = [Region(like.graph, like.region, f"{name} {how}") for how in ("on the step machine", "as a program")]
    # A Cond takes its branch 1 if the predicate is true.
    branches[1].results = native.outputs[1:]
    either = like.graph.unique_name(f"{name}/either")
    edges = Edges([native.outputs[0]], outputs)
    return append_cond(like.region, either, edges, branches, source=like.source, device=like.device, **attrs)


def is_choice(op: Operation) -> bool:
    """Return True for a Cond made by `append_choice`."""
    return op.is_cond and "program" in op.inputs[0].op.attrs


def move_into(operations: Sequence[Operation], results: Sequence[Tensor], region: Region) -> None:
    """Move operations into a branch, and make `results` the branch's results."""
    region.operations, region.results = list(operations), list(results)
    for op in operations:
        op.region = region
        for inner in op.regions:
            inner.parent = region
