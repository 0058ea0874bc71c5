"""Loops that compute the samples of operation definitions, for tables and tests of what runs natively."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..frontend.control.loops import while_loop
from ..ir.apply import apply, constant
from ..ir.definition import OpDefinition, Sample
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..kernels.cpu.registry import values_read
from ..ops.control.placeholders import placeholder

Array = np.ndarray[Any, Any]

ITERATIONS = 3
_SIZES = frozenset({"shape", "num"})  # parameters that determine the shapes of results


def flatten_inputs(arguments: Iterable[Any]) -> list[Array]:
    """Return the arrays of a sample's inputs, including those in lists."""
    return [np.asarray(a) for x in arguments for a in (x if isinstance(x, list) else [x])]


def build_operation(definition: OpDefinition, sample: Sample, make: Callable[[Any], Any]) -> Operation:
    """Append a sample's operation to the current graph, with inputs made by `make`; return the operation."""
    inputs = [[make(a) for a in x] if isinstance(x, list) else make(x) for x in sample.inputs]
    made: Any = apply(definition.type, *inputs, **sample.attrs)
    operation: Operation = made[0].op if isinstance(made, list) else made.op
    return operation


def expected_results(sample: Sample) -> list[Any]:
    """Return the expected results of a sample as a list."""
    wanted = sample.expected(*sample.inputs) if callable(sample.expected) else sample.expected
    return list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]


def is_numeric(sample: Sample) -> bool:
    """Return True if all values of a sample are numbers, which registers of native programs can hold."""
    return all(np.asarray(a).dtype.kind in "biufc" for a in (*flatten_inputs(sample.inputs), *expected_results(sample)))


def feed_arrays(arrays: Iterable[Array], feeds: dict[Tensor, Any], is_shaped: bool = False) -> list[Tensor]:
    """Return placeholders for arrays, with the arrays' shapes if `is_shaped`, and add their values to `feeds`."""
    arrays = list(arrays)
    made = [placeholder(a.dtype, a.shape if is_shaped else None) for a in arrays]
    feeds.update(zip(made, arrays, strict=True))
    return made


def loop_of(
    definition: OpDefinition, sample: Sample, feeds: dict[Tensor, Any], is_shaped: bool = False
) -> Sequence[Tensor]:
    """Return the results of a loop that computes a sample's operation in each iteration.

    Inputs are in two variables each, which change places, so that no pass takes the operation out of the loop.
    Sizes and other parameters stay outside. Where shapes are known, these are constants.

    Parameters
    ----------
    definition : OpDefinition
    sample : Sample
        A sample with numbers alone.
    feeds : dict
        Receives the feeds of the loop's placeholders.
    is_shaped : bool, optional
        True if the static shapes of all values are known.
    """
    arrays = flatten_inputs(sample.inputs)
    outside = _find_parameters(definition, len(arrays))
    parameters = [arrays[k] for k in outside]
    given = map(constant, parameters) if is_shaped else feed_arrays(parameters, feeds)
    known = dict(zip(outside, given, strict=True))
    moved = [a for k, a in enumerate(arrays) if k not in known]
    n = len(moved)
    dtypes: list[Any] = [t.dtype.numpy for t in build_operation(definition, sample, constant).outputs]
    zeros = [np.zeros_like(wanted, dtype) for wanted, dtype in zip(expected_results(sample), dtypes, strict=True)]

    def body(i: Any, *variables: Tensor) -> tuple[Any, ...]:
        moving = iter(variables[:n])
        inputs = iter([known[k] if k in known else next(moving) for k in range(len(arrays))])
        op = build_operation(definition, sample, lambda _: next(inputs))
        _set_shapes(op, zeros, is_shaped)
        return i + 1, *variables[n : 2 * n], *variables[:n], *op.outputs

    fed = [v for each in (moved, moved, zeros) for v in feed_arrays(each, feeds, is_shaped)]
    results: Sequence[Tensor] = while_loop(lambda i, *_: i < ITERATIONS, body, [constant(0), *fed])
    return results[1 + 2 * n :]


def _find_parameters(definition: OpDefinition, count: int) -> set[int]:
    """Return the inputs of an operation that stay the same in all iterations: sizes and other parameters."""
    inputs = definition.signature.flat(count)
    on_host = {k for k, parameter in enumerate(inputs) if parameter.is_host}
    sizes = {k for k, parameter in enumerate(inputs) if parameter.name in _SIZES}
    # Inputs in the host's memory are parameters, except where all inputs are there.
    return {*(values_read(definition.type) or ()), *sizes, *(on_host if len(on_host) < count else ())}


def _set_shapes(op: Operation, like: Sequence[Array], is_shaped: bool) -> None:
    """Set the static shapes of an operation's outputs to those of arrays, or to unknown shapes."""
    for output, array in zip(op.outputs, like, strict=True):
        output.set_shape(array.shape if is_shaped else None)
