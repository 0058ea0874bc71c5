"""The choice between a native program and the operations that it stands for, which run if it does not.

    ok, *results = Native(*what the operations use)
    results = Cond(ok, results, the operations as they were)

A program that can not go with the arrays of a step, or gives up on the way, has done nothing that shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.structured import append_cond
from ...ir.tensor import Tensor
from ...kernels.native.program import NativeProgram
from ...ops.internal import native as _operation  # noqa: F401  declares Native


def choose(
    like: Operation,
    name: str,
    results: Sequence[Tensor],
    program: NativeProgram,
    inputs: Sequence[Tensor],
    controls: Iterable[Operation] = (),
    **attrs: Any,
) -> Operation:
    """Append a Cond of what a program gives, for which its last branch is ready, and what operations give.

    Parameters
    ----------
    like : Operation
        Whose region, device and line they have.
    name : str
        Of the operations as one.
    results : sequence of Tensor
        What is wanted of them.
    program : NativeProgram
    inputs : sequence of Tensor
        What the program takes.
    controls : iterable of Operation, optional
        What it waits for besides.
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
    branches[1].results = native.outputs[1:]
    either = like.graph.unique_name(f"{name}/either")
    return append_cond(
        like.region, native.outputs[0], branches, outputs, either, like.source, device=like.device, **attrs
    )


def is_choice(op: Operation) -> bool:
    """Whether an operation is such a Cond."""
    return op.is_cond and "program" in op.inputs[0].op.attrs


def move_into(operations: Sequence[Operation], results: Sequence[Tensor], region: Region) -> None:
    """Make operations all that a branch does."""
    region.operations, region.results = list(operations), list(results)
    for op in operations:
        op.region = region
        for inner in op.regions:
            inner.parent = region
