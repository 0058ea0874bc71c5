"""Gradient arrays, for each forward array and run of a gradient (rule 111)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ops.state.tensor_array import gradient_arrays


def scope(home: Region) -> AbstractContextManager[object]:
    """Enter a scope for finding or making the gradient arrays of a call of ``gradients()`` in region `home`."""

    def make_gradient_array(handle: Tensor) -> Tensor:
        region = _mirror_of(handle, home)
        with scopes.inside(region):
            # The gradient of an array that each iteration makes anew is seen by operations alone, which bring the shape
            # of zeros: so the iteration need not save the array.
            if region is not home and "sums" in handle.op.attrs:
                return _make_sums(handle.op)
            gradient, _ = apply("TensorArrayGrad", region.resolve(handle), constant(0.0), source=None)
        return gradient

    return gradient_arrays.gradient_scope(make_gradient_array)


def _make_sums(made: Operation) -> Tensor:
    """Return the handle of a gradient array for the arrays of an operation."""
    kept = {key: made.attrs[key] for key in ("dtype", "element_shape")}
    handle: Tensor
    handle, _ = apply(
        "TensorArrayNew", constant(0, "int32"), **kept, dynamic_size=True, clear_after_read=False, sums=True
    )
    return handle


def _mirror_of(handle: Tensor, home: Region) -> Region:
    # The region that mirrors the forward array's own, so that each forward instance has one gradient array.
    for region in scopes.current_region().ancestors():
        mirror = getattr(region.resolver, "__self__", None)
        if region is home or (mirror is not None and mirror.forward is handle.region):
            return region
    return home
