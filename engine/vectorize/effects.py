"""Vectorization of Assert, Print, and the identity with a gradient of the user."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..base import nest
from ..ir import scopes
from ..ir.apply import apply, convert_to_tensor
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.structured import new_region
from ..ir.tensor import Tensor
from .walk import RULES, Vectorization


def _assert_all(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Assert a condition of all examples at once, with the data of all of them."""
    condition = walk.value(op.inputs[0])
    if op.inputs[0] in walk.batched:
        condition = apply("All", condition, axis=None, keepdims=False)
    apply(op.type, condition, [walk.value(t) for t in op.inputs[1:]], **op.own_attrs)
    return []


def _print_all(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Print the values of all examples once."""
    value = walk.spread_value(op.inputs[0]) if op.outputs[0] in walk.batched else walk.value(op.inputs[0])
    return [apply(op.type, value, [walk.value(t) for t in op.inputs[1:]], **op.own_attrs)]


def _custom_gradient(walk: Vectorization, op: Operation) -> Sequence[Tensor]:
    """Build the identity for all examples, with the gradient function vectorized when the gradient is built."""
    spread = [walk.spread_value(t) if batched else walk.value(t) for t, batched in _find_batched(walk, op)]
    attrs = {**op.own_attrs, "gradient": _VectorizedGradient(walk, op)}
    outputs: list[Tensor] = apply("CustomGradient", spread, **attrs)
    return outputs


def _find_batched(walk: Vectorization, op: Operation) -> list[tuple[Tensor, bool]]:
    """Return the inputs, each with True if it differs between examples, or an output of its value does."""
    num = op.attrs["num"]
    return [(t, i < num and op.outputs[i] in walk.batched or t in walk.batched) for i, t in enumerate(op.inputs)]


class _VectorizedGradient:
    """The gradient function of a single example, for the cotangents of all."""

    def __init__(self, walk: Vectorization, op: Operation) -> None:
        self.walk = walk
        self.op = op
        self.batched: list[bool] = [batched for _, batched in _find_batched(walk, op)]

    def __call__(self, *cotangents: Tensor) -> list[Any]:
        op = self.op
        region = new_region("gradient function")
        region.resolver = functools.partial(self._resolve, region)
        params = [region.add_param(t.dtype, t.shape, f"{op.name}/cotangent") for t in op.outputs]
        with scopes.inside(region):
            found = nest.flatten(op.attrs["gradient"](*params))
            results = [None if g is None else convert_to_tensor(g) for g in found]
        triples = list(zip(op.outputs, params, cotangents, strict=True))
        inner = self.walk.continued(region, {p: g for y, p, g in triples if y in self.walk.batched})
        for y, param, g in triples:
            if y not in self.walk.batched:
                inner.set_value(param, g)
        inner.run()
        return self._gradients(inner, results)

    def _resolve(self, region: Region, tensor: Tensor) -> Tensor:
        """Return tensors of the function as they are: the walk replaces them."""
        if self.walk.region.encloses(tensor.op.region):
            return tensor
        assert region.parent is not None
        return region.parent.resolve(tensor)

    def _gradients(self, inner: Vectorization, results: Sequence[Tensor | None]) -> list[Any]:
        """Return the gradients for all examples, added up for an argument common to all examples."""
        num = self.op.attrs["num"]
        differ = self.walk.batched.any(self.op.outputs)
        gradients: list[Any] = []
        for result, batched in zip(results, self.batched[num:], strict=True):
            if result is None:
                gradients.append(None)
            elif batched or not differ:
                gradients.append(inner.spread_value(result) if batched else inner.value(result))
            else:
                gradients.append(apply("Sum", inner.spread_value(result), axis=(0,), keepdims=False))
        return gradients


RULES.update(Assert=_assert_all, Print=_print_all, CustomGradient=_custom_gradient)
