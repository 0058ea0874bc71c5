"""Python kernels of operations for native programs, which call them where no C kernel leaves work to be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.shapes import Shape
from ...ir.builder import append, infer_shapes
from ...ir.definition import definition_of
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.own_kernels import take_single_output
from ...ops.type_modules import module_of

Array = np.ndarray[Any, Any]


class CalledKernel:
    """The Python kernel of an operation, with the shapes that it returns: a PythonKernel, of plain data.

    Parameters
    ----------
    op : Operation
        Without a kernel registered by an outside package.
    """

    def __init__(self, op: Operation) -> None:
        self.is_traceable = module_of(op.type) is not None  # a user's kernel may count its calls, or look at types
        self._type = op.type
        self._attrs = {key: op.attrs[key] for key in op.definition.attrs}
        self._dtypes = [t.dtype for t in op.inputs]
        self._shapes = [t.shape for t in op.outputs]

    def __repr__(self) -> str:
        return f"<kernel of {self._type}>"

    def bound_to(self, xp: Any) -> Callable[..., Any]:
        """Return the kernel, which computes with the functions of an array library."""
        definition = definition_of(self._type)
        assert definition.kernel is not None, self._type
        return take_single_output(definition, len(self._shapes), partial(definition.kernel, xp, **self._attrs))

    def output_shapes(
        self, shapes: Sequence[tuple[int, ...]], values: Sequence[Array | None]
    ) -> list[tuple[int, ...]] | None:
        """Return the shapes of the outputs for shapes of the inputs, and values of inputs where these are known.

        None if a shape depends on other values.
        """
        if all(shape.is_fully_known for shape in self._shapes):
            return [shape.as_tuple() for shape in self._shapes]
        inferred = [shape.merge(known) for shape, known in zip(self._infer(shapes, values), self._shapes, strict=True)]
        return [shape.as_tuple() for shape in inferred] if all(shape.is_fully_known for shape in inferred) else None

    def _infer(self, shapes: Sequence[tuple[int, ...]], values: Sequence[Array | None]) -> list[Shape]:
        """Return the shapes that the type's shape rule gives for an operation on these inputs."""
        root = Graph().root
        inputs = []
        for k, (dtype, shape, value) in enumerate(zip(self._dtypes, shapes, values, strict=True)):
            if value is None:
                made = append(root, "Placeholder", f"input_{k}", [], {"dtype": dtype, "shape": Shape(shape)})
            else:
                made = append(root, "Const", f"input_{k}", [], {"value": value, "dtype": dtype})
            infer_shapes(made)
            inputs.append(made.outputs[0])
        op = append(root, self._type, self._type, inputs, self._attrs)
        infer_shapes(op)
        return [t.shape for t in op.outputs]
