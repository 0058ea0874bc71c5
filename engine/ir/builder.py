"""Append operations to regions, with output dtypes and shapes taken from their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import DType
from ..base.shapes import Shape
from ..base.source_lines import Source
from .definition import definition_of, has_default
from .operation import Operation
from .region import Region
from .tensor import Tensor


class Edges(NamedTuple):
    """Edges of a new operation.

    Attributes
    ----------
    inputs : sequence of Tensor
    outputs : sequence of (DType, Shape)
    controls : sequence of Operation
        Operations to run first.
    """

    inputs: Sequence[Tensor]
    outputs: Sequence[tuple[DType, Shape]]
    controls: Sequence[Operation] = ()


def append(
    region: Region,
    type: str,
    name: str,
    inputs: Sequence[Tensor],
    attrs: dict[str, Any],
    *,
    control_inputs: Iterable[Operation] = (),
    device: str = "",
    source: Source | None = None,
) -> Operation:
    """Append an operation to a region; output dtypes follow from its definition, output shapes are unknown.

    Parameters
    ----------
    region : Region
    type, name : str
        A declared type, and a name already unique in the graph.
    inputs : sequence of Tensor
        A flat list of tensors in scope of the region.
    attrs : dict
        Attributes; defaults may be omitted, and keys unknown to the type are stored for passes.
    control_inputs, device, source
        As of :class:`Operation`.

    Raises
    ------
    DtypeError
        If the dtypes of the inputs do not fit the signature.
    """
    definition = definition_of(type)
    attrs = {**{key: value for key, value in definition.attrs.items() if has_default(value)}, **attrs}
    pairs = list(zip(definition.signature.flat(len(inputs)), inputs, strict=True))
    bound = definition.signature.check([(p, t.dtype) for p, t in pairs], name)
    outputs = [(dtype, Shape(None)) for dtype in definition.signature.output_dtypes(bound, attrs)]
    return Operation(
        region,
        type,
        name,
        inputs,
        outputs,
        control_inputs=control_inputs,
        attrs=attrs,
        device=device,
        source=source,
    )


def infer_shapes(op: Operation) -> None:
    """Set the static shape of every output from the shape rule of the definition."""
    shapes = op.definition.shape(op)
    for tensor, shape in zip(op.outputs, [shapes] if isinstance(shapes, Shape) else shapes, strict=True):
        tensor.shape = shape


class Builder:
    """Appends operations to a region in place of another operation, for passes that rewrite a program.

    Parameters
    ----------
    region : Region
        The region appended to.
    like : Operation
        The operation replaced; new operations take its device, colocation and source line.
    name : str, optional
        The last part of new names, after the name of `like`; defaults to the type of the new operation.
    """

    def __init__(self, region: Region, like: Operation, name: str | None = None) -> None:
        self.region = region
        self.like = like
        self.name = name

    def emit(
        self,
        type: str,
        *inputs: Tensor,
        controls: Iterable[Operation] = (),
        known_shape: Shape | None = None,
        **attrs: Any,
    ) -> Operation:
        """Append an operation.

        Parameters
        ----------
        type : str
        *inputs : Tensor
        controls : iterable of Operation, optional
            Control inputs.
        known_shape : Shape, optional
            Static shape of the only output, merged into the inferred shape.
        **attrs
            Attributes.
        """
        op = append(
            self.region,
            type,
            self.region.graph.unique_name(f"{self.like.name}/{self.name or type}"),
            inputs,
            attrs,
            control_inputs=controls,
            device=self.like.device,
            source=self.like.source,
        )
        # A replacement stays with the operations that the user colocated the original with.
        if "colocate" in self.like.attrs:
            op.attrs["colocate"] = self.like.attrs["colocate"]
        infer_shapes(op)
        if known_shape is not None:
            op.outputs[0].shape = op.outputs[0].shape.merge(known_shape)
        return op

    def cond(self, pred: Tensor, branches: Sequence[Region], shapes: Sequence[Shape], **attrs: Any) -> Operation:
        """Append a Cond on finished branches; `shapes` are static shapes of its results that hold for every branch."""
        return Operation(
            self.region,
            "Cond",
            self.region.graph.unique_name(f"{self.like.name}/{self.name or 'Cond'}"),
            [pred],
            [(t.dtype, shape) for t, shape in zip(branches[0].results, shapes, strict=True)],
            regions=branches,
            attrs={"saved_outputs": [], **attrs},
            device=self.like.device,
            source=self.like.source,
        )

    def tensor(self, type: str, *inputs: Tensor, known_shape: Shape | None = None, **attrs: Any) -> Tensor:
        """Append an operation with a single output, and return this output."""
        (output,) = self.emit(type, *inputs, known_shape=known_shape, **attrs).outputs
        return output

    def constant(self, value: object, dtype: DType) -> Tensor:
        """Append a constant of a dtype."""
        name = self.region.graph.unique_name(f"{self.like.name}/{self.name or 'Const'}")
        return make_constant(self.region, name, np.array(value, dtype.numpy), dtype, like=self.like)


def make_constant(
    region: Region, name: str, array: np.ndarray[Any, Any], dtype: DType, like: Operation, **fields: Any
) -> Tensor:
    """Append a constant that owns `array`, made read-only, with the device and source line of `like`.

    `fields` are further arguments of Operation, or replace the device and source.
    """
    array.flags.writeable = False
    fields = {"device": like.device, "source": like.source, **fields}
    outputs = [(dtype, Shape(array.shape))]
    return Operation(region, "Const", name, (), outputs, attrs={"value": array}, **fields).outputs[0]


def clone_operation(
    op: Operation, region: Region, inputs: Iterable[Tensor], name: str | None = None, **more: Any
) -> Operation:
    """Append a copy of an operation to a region, with other inputs; `more` are arguments of Operation to replace."""
    # Control inputs are not copied, because they may be out of scope in the other region.
    fields = {"attrs": dict(op.attrs), "device": op.device, "source": op.source, "origin": op.origin, **more}
    outputs = [(t.dtype, t.shape) for t in op.outputs]
    copy = Operation(region, op.type, region.graph.unique_name(name or op.name), inputs, outputs, **fields)
    copy.notes = op.notes
    return copy


def restore_operation(
    region: Region, type: str, name: str, outputs: Sequence[tuple[DType, Shape]], **fields: Any
) -> Operation:
    """Append an operation read from a text or pickle, with its outputs; the caller connects its inputs afterwards."""
    return Operation(region, type, name, (), outputs, **fields)
