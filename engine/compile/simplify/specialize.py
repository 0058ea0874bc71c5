"""Specialize a step for the shapes of its feeds: infer all static shapes of the program again from these.

A placeholder with a batch of unknown size leaves this size unknown everywhere. A step called repeatedly with a batch
size deserves its own plan, as in JAX a program for each signature. This pass decides nothing but shapes; later passes
then see constants where the program asked for a shape, and know the cost of a product.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.region import Region
from ...ir.rules.gradients import Reread
from ...ir.rules.shapes import LoadsElement, StoresElement
from ...ir.structured import is_structured, num_results, saved_outputs, saved_value
from ...ir.tensor import Tensor
from ...ir.traits import Effect, Role


def specialize(program: Program, shapes: Sequence[tuple[int, ...]]) -> Program:
    """Infer all static shapes again from the shapes of the feeds; `program` is changed.

    Parameters
    ----------
    program : Program
    shapes : sequence of tuple of int
        The shape of each feed.

    Raises
    ------
    ShapeError
        If an operation cannot run on values of these shapes.
    """
    for feed, shape in zip(program.feeds, shapes, strict=True):
        feed.shape = feed.shape.merge(Shape(shape))
    inference = _Inference(program)
    while inference.sweep():
        pass
    return program


class _Inference:
    """Static shapes of a program, each the operation's inferred shape merged with the previously known shape.

    Attributes
    ----------
    known : dict of Tensor to Shape
        Static shapes for any feeds.
    elements : dict of object to Shape
        By TensorArray, the common shape of all values written anywhere in the program.
    has_unknown_write : bool
        True if a value is written through a handle of unknown origin, so that no element's shape is known.
    """

    def __init__(self, program: Program) -> None:
        self.root = program.graph.root
        self.known: dict[Tensor, Shape] = {}
        self.elements: dict[object, Shape] = {}
        self.has_unknown_write = False

    def sweep(self) -> bool:
        """Infer the shapes of the whole program once; return True if known shapes of elements have changed.

        Elements are assumed to have the common shape of the values written before them. Sweeps repeat until no
        assumption changes: then all reads and writes of the last sweep agree with each other.
        """
        before = dict(self.elements), self.has_unknown_write
        self._infer_region(self.root)
        return before != (self.elements, self.has_unknown_write)

    def _infer_region(self, region: Region) -> None:
        """Infer the shapes of the operations of a region in order, so inputs come before their users."""
        for op in region.operations:
            if op.is_while:
                self._infer_while(op)
            elif op.is_cond:
                self._infer_cond(op)
            elif not op.is_param and op.role is not Role.FEED:
                self._infer_plain(op)

    def _infer_plain(self, op: Operation) -> None:
        """Infer the output shapes of an operation without regions, and record reads and writes of TensorArrays."""
        shapes = op.definition.shape(op)
        for tensor, shape in zip(op.outputs, [shapes] if isinstance(shapes, Shape) else shapes, strict=True):
            self._set_shape(tensor, shape)
        stores, loads = op.rule(StoresElement), op.rule(LoadsElement)
        if stores is not None:
            self._record_write(_array_key(op.inputs[0]), stores.shape(op))
        if loads is not None:
            # Before any write the element's shape is unknown; a later sweep refines it.
            key = _array_key(op.inputs[0])
            is_known = key in self.elements and not self.has_unknown_write
            element = self.elements[key] if is_known else Shape(None)
            self._set_shape(op.outputs[0], op.outputs[0].shape.merge(loads.shape(op, element)))

    def _record_write(self, array: object, shape: Shape) -> None:
        """Note a value written to the array with a key; None for a handle of unknown origin, perhaps of any array."""
        self.has_unknown_write |= array is None
        self.elements[array] = self.elements[array].relax(shape) if array in self.elements else shape

    def _infer_cond(self, op: Operation) -> None:
        """Infer a Cond: a result has the common shape of the results of its branches."""
        for region in op.regions:
            self._infer_region(region)
        for i, output in enumerate(op.outputs[: num_results(op)]):
            shape, *others = (region.results[i].shape for region in op.regions)
            for other in others:
                shape = shape.relax(other)
            self._set_shape(output, shape)
        self._infer_saved(op)

    def _infer_while(self, op: Operation) -> None:
        """Infer a While: assume the variables' initial shapes; relax changing shapes and repeat."""
        count = num_results(op)
        # Only relaxed, never narrowed again, so the iteration ends.
        assumed = [t.shape for t in op.inputs[:count]]
        while True:
            for region in op.regions:
                for param, shape in zip(region.params, assumed, strict=True):
                    self._set_shape(param, shape)
                self._infer_region(region)
            results = [t.shape for t in op.regions[1].results]
            if all(map(Shape.includes, assumed, results)):
                break
            assumed = list(map(Shape.relax, assumed, results))
        for output, shape in zip(op.outputs[:count], assumed, strict=True):
            self._set_shape(output, shape)
        self._infer_saved(op)

    def _infer_saved(self, op: Operation) -> None:
        """Infer the values saved by branches; loops save series and trip counts, whose shapes are fixed."""
        for output, extra in zip(op.outputs[num_results(op) :], saved_outputs(op), strict=True):
            if extra.kind == "maybe" and extra.value is not None:
                self._set_shape(output, extra.value.shape)

    def _set_shape(self, tensor: Tensor, shape: Shape) -> None:
        # Merged with the original shape, not with that of the last sweep, which may have assumed too much.
        tensor.shape = self.known.setdefault(tensor, tensor.shape).merge(shape)


def _array_key(handle: Tensor) -> object:
    """Return a key shared by all handles of an array, None if the origin of the handle is unknown."""
    op = handle.op
    if op.definition.has(Reread):  # a handle of the forward region, saved for the gradient
        saved = saved_value(op.inputs[0])
        return None if saved is None else _array_key(saved)
    handles = [t for t in op.inputs if t.dtype is dtypes.resource]
    # An operation without handles among its inputs creates the array, which is an effect, or hides the origin, as the
    # parameter of a region does.
    if not handles:
        return handle if Effect.WRITES in op.definition.effects else None
    # An array's handle may come from another handle, as that of a gradient's array: the key tells how.
    inner = None if is_structured(op) else _array_key(handles[0])
    return None if inner is None else (inner, op.type, *(op.attrs[key] for key in op.definition.attrs))
