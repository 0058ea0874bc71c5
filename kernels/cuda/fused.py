"""The kernel of the operation ``Fused``, written for the shapes of its inputs.

See docs/design/0017-cuda-kernels.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..steps import STEPS, find_batch_dims, has_all_rows, stands_for_all_rows
from .launching import WIDEST, Function, Grid, as_index, find_function, make_contiguous, over_elements, over_rows
from .registry import register
from .writing import NAME, Input, find_widths, has_reductions, is_flat, write_fused

Shape = tuple[int, ...]
_MOST_SHAPES = 256  # most sets of input shapes with a kernel, before all are dropped
_MOST_PARAMETERS = 500  # of 8 bytes each, within the 4 KiB of parameters on all GPUs


class Launch(NamedTuple):
    """A kernel for inputs of certain shapes, and the shapes of its results; no function for empty results."""

    function: Function | None
    grid: Grid
    rows: np.generic
    shapes: tuple[Shape, ...]


class FusedKernel:
    """A kernel for all steps of a fused operation.

    Parameters
    ----------
    xp : module
        An array library that compiles CUDA C.
    attrs : mapping
        Attributes of the operation.
    dtype : dtype
        Dtype of all arrays.
    otherwise : callable
        The kernel for inputs of unexpected shapes.
    """

    takes_scalars = True
    on_host: frozenset[int] | None = None

    def __init__(self, xp: Any, attrs: Mapping[str, Any], dtype: np.dtype[Any], otherwise: Callable[..., Any]) -> None:
        self._xp = xp
        self._dtype = dtype
        self._otherwise = otherwise
        self._constants = tuple(constant[()] for constant in attrs["constants"])
        self._steps, self._results = attrs["steps"], attrs["results"]
        self._has_rows, self._batch_dims = attrs["has_rows"], attrs["batch_dims"]
        self._reduces = has_reductions(self._steps)
        self._launches: dict[tuple[Shape | None, ...], Launch | None] = {}

    def __call__(self, *arrays: Any) -> Any:
        """Return the results, or the only result.

        Parameters
        ----------
        *arrays : array of the library, or NumPy scalar
        """
        launch = self._find_launch(tuple(None if isinstance(x, np.generic) else x.shape for x in arrays))
        if launch is None:
            return self._otherwise(*arrays)
        made = [self._xp.empty(shape, self._dtype) for shape in launch.shapes]
        if launch.function is not None:
            given = make_contiguous(self._xp, arrays)
            launch.function(*launch.grid, (launch.rows, *given, *self._constants, *made))
        return made if len(made) > 1 else made[0]

    def _find_launch(self, shapes: tuple[Shape | None, ...]) -> Launch | None:
        if shapes not in self._launches:
            if len(self._launches) >= _MOST_SHAPES:
                self._launches.clear()
            self._launches[shapes] = self._prepare_launch(shapes)
        return self._launches[shapes]

    def _prepare_launch(self, shapes: tuple[Shape | None, ...]) -> Launch | None:
        """Return the launch for inputs of some shapes; None for misfits, or too many for a kernel."""
        given = [(shape or (), has_rows) for shape, has_rows in zip(shapes, self._has_rows, strict=True)]
        batch_dims = find_batch_dims(given, self._batch_dims)
        if None in batch_dims or not all(_has_expected_rows(dims, batch_dims, has_rows) for dims, has_rows in given):
            return None
        inputs = [
            Input(dims[-1] if dims else 0, has_rows, is_value=shape is None)
            for shape, (dims, has_rows) in zip(shapes, given, strict=True)
        ]
        inputs += [Input(0, False, is_value=True)] * len(self._constants)
        try:
            widths = find_widths(self._steps, inputs)
        except ValueError:
            return None
        return self._compile_launch(inputs, widths, batch_dims) if self._can_run(len(inputs), max(widths)) else None

    def _can_run(self, inputs: int, widest: int) -> bool:
        if any(constant.dtype != self._dtype for constant in self._constants):
            return False
        return inputs + len(self._results) <= _MOST_PARAMETERS and not (self._reduces and widest > WIDEST)

    def _compile_launch(self, inputs: Sequence[Input], widths: Sequence[int], batch_dims: Shape) -> Launch:
        """Write and compile the kernel."""
        rows, widest = math.prod(batch_dims), max(widths)
        elements = rows * widest  # size of the largest array
        if is_flat(self._steps, inputs):  # each element becomes a row of its own
            inputs = [each._replace(width=min(each.width, 1)) for each in inputs]
            rows, widest = elements, 1
        code = write_fused(self._steps, inputs, self._results)
        grid = over_rows(rows, widest) if self._reduces else over_elements(elements)
        function = find_function(self._xp, code, NAME, self._dtype, elements, grid) if rows else None
        return Launch(function, grid, as_index(rows, elements), tuple((*batch_dims, widths[i]) for i in self._results))


def _has_expected_rows(shape: Shape, batch_dims: Shape, has_rows: bool) -> bool:
    """Return True if an input has the expected shape: all rows, or a single row repeated for all."""
    return has_all_rows(shape, batch_dims) if has_rows else stands_for_all_rows(shape, batch_dims)


@register("Fused")
def _find_fused(
    xp: Any, type: str, attrs: Mapping[str, Any], dtype: np.dtype[Any], otherwise: Callable[..., Any]
) -> FusedKernel | None:
    """Return the kernel of Fused, or None if a step is unknown here."""
    known = all(name in STEPS for name, *_ in attrs["steps"])
    return FusedKernel(xp, attrs, dtype, otherwise) if known else None
