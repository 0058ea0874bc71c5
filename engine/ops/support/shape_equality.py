"""Equality of shapes, and absence of broadcasting, of shapes not fully known while building."""

from __future__ import annotations

from ...base.shapes import Shape
from ...ir.tensor import Tensor

UNARY: set[str] = set()  # types of elementwise operations of one operand; BINARY of two
BINARY: set[str] = set()
_KEY = "shape source"


def keeps_shape(x: Tensor, y: Tensor) -> bool:
    """True if broadcasting `x` with `y` surely has the shape of `x`."""
    return x is y or _covers_shape(x.shape, y.shape) or shape_source(x) is shape_source(y)


def shape_source(tensor: Tensor) -> Tensor:
    """Return the earlier tensor from which `tensor` inherits its shape, or `tensor` itself."""
    # A work list and not recursion: chains of elementwise operations are longer than Python's stack.
    # Results are kept with the tensors, so that later calls visit only new tensors.
    work = [tensor]
    while work:
        top = work[-1]
        missing = [] if _KEY in top._derived else [t for t in _shaped_like(top) if _KEY not in t._derived]
        if missing:
            work += missing
        else:
            work.pop()._derived.setdefault(_KEY, _agreed_source(top))
    source: Tensor = tensor._derived[_KEY]
    return source


def _agreed_source(tensor: Tensor) -> Tensor:
    sources = {t._derived[_KEY] for t in _shaped_like(tensor)}
    return sources.pop() if len(sources) == 1 else tensor


def _shaped_like(tensor: Tensor) -> list[Tensor]:
    """Return operands which, if they all have the same shape, determine the shape of the tensor."""
    op = tensor.op
    if op.region.parent is None:
        return []  # tensors of the root region may be fed, with another shape
    # All parts of a Split have the shape of its first part.
    if op.type == "Split":
        return op.outputs[:1] if tensor.index else []
    if op.type in BINARY:
        x, y = op.inputs
        return [x] if _covers_shape(x.shape, y.shape) else [y] if _covers_shape(y.shape, x.shape) else [x, y]
    return op.inputs[:1] if op.type in UNARY else []


def _covers_shape(large: Shape, small: Shape) -> bool:
    if large.rank is None or small.rank is None or small.rank > large.rank:
        return False
    pairs = zip(large[large.rank - small.rank :], small, strict=True)
    # A known size other than 1 is kept whatever the other size: that is 1, equal, or an error.
    return all(b == 1 or (a is not None and a != 1) for a, b in pairs)
