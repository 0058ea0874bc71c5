"""Gradient arrays, for each forward array and run of a gradient (rule 111)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ops.state.tensor_array import gradient_arrays


def scope(home: Region) -> AbstractContextManager[object]:
    """Enter a scope for finding or making the gradient arrays of a call of ``gradients()`` in region `home`."""

    def make_gradient_array(handle: Tensor) -> Tensor:
        region = _mirror_of(handle, home)
        with scopes.inside(region):
            gradient, _ = apply("TensorArrayGrad", region.resolve(handle), constant(0.0), source=None)
        return gradient

    return gradient_arrays.gradient_scope(make_gradient_array)


def _mirror_of(handle: Tensor, home: Region) -> Region:
    # The region that mirrors the forward array's own, so that each forward instance has one gradient array.
    for region in scopes.current_region().ancestors():
        mirror = getattr(region.resolver, "__self__", None)
        if region is home or (mirror is not None and mirror.forward is handle.region):
            return region
    return home
